{{/* What pods of the pipeline have in common, whoever starts them. */}}

{{/* Command-line options for the connection to the brokers. */}}
{{- define "epochgate.pipelineSource" -}}
{{- $files := default dict .Values.pipeline.secretFiles -}}
{{- $kafka := include "epochgate.accountKafka" (dict "root" . "kafka" .Values.pipeline.kafkaConf "secret" $files) | fromJson -}}
{{- if get $kafka "bootstrap.servers" -}}
--from {{ get $kafka "bootstrap.servers" | squote }}
{{- else -}}
--from "$(cat {{ printf "/etc/epochgate/pipeline/%s" (get $files "bootstrap.servers") | squote }})"
{{- end -}}
{{- range $key, $value := omit $kafka "bootstrap.servers" }} --kafka-conf {{ printf "%s=%v" $key $value | squote }}{{ end }}
{{- range $key, $file := omit $files "bootstrap.servers" }} --kafka-conf-file {{ printf "%s=/etc/epochgate/pipeline/%s" $key $file | squote }}{{ end }}
{{- end -}}

{{/* Where its volumes are; takes (dict "root" $ "journal" bool). */}}
{{- define "epochgate.pipelineMounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: output, mountPath: /output}
{{- with .root.Values.upstream.tls }}
{{- if and .enabled .ca.secretName }}
- {name: tls-upstream-ca, mountPath: /etc/epochgate/tls/upstream-ca, readOnly: true}
{{- end }}
{{- if and .enabled .clientCertificate.secretName }}
- {name: tls-upstream-client, mountPath: /etc/epochgate/tls/upstream-client, readOnly: true}
{{- end }}
{{- end }}
{{- if .root.Values.pipeline.secretName }}
- {name: account, mountPath: /etc/epochgate/pipeline, readOnly: true}
{{- end }}
{{- if .journal }}
- {name: journal, mountPath: /journal, readOnly: true}
{{- end }}
{{- end -}}

{{/* Its volumes; takes (dict "root" $ "journal" bool). */}}
{{- define "epochgate.pipelineVolumes" -}}
- name: tmp
  emptyDir: {}
- name: output
  {{- if .root.Values.pipeline.outputClaim }}
  persistentVolumeClaim: {claimName: {{ .root.Values.pipeline.outputClaim }}}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- with .root.Values.upstream.tls }}
{{- if and .enabled .ca.secretName }}
- name: tls-upstream-ca
  secret: {secretName: {{ .ca.secretName }}}
{{- end }}
{{- if and .enabled .clientCertificate.secretName }}
- name: tls-upstream-client
  secret: {secretName: {{ .clientCertificate.secretName }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- with .root.Values.pipeline.secretName }}
- name: account
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- if .journal }}
- name: journal
  persistentVolumeClaim: {claimName: {{ include "epochgate.journalClaim" .root }}, readOnly: true}
{{- end }}
{{- end -}}

{{/* Refuses values of the pipeline that contradict each other. */}}
{{- define "epochgate.checkPipeline" -}}
{{- with .Values.pipeline -}}
{{- if and .secretFiles (not .secretName) -}}
{{- fail "pipeline.secretFiles: names keys of a Secret; set pipeline.secretName too" -}}
{{- end -}}
{{- include "epochgate.checkNoSecrets" (dict "kafka" .kafkaConf "key" "pipeline.kafkaConf" "section" "pipeline") -}}
{{- range $property, $_ := .secretFiles -}}
{{- if hasKey $.Values.pipeline.kafkaConf $property -}}
{{- fail (printf "pipeline: %s is in kafkaConf and in secretFiles" $property) -}}
{{- end -}}
{{- end -}}
{{- if and (dig "spark" "enabled" false .) (not .outputClaim) -}}
{{- fail "pipeline.spark: driver and executors write to one volume; set pipeline.outputClaim to a claim that is ReadWriteMany" -}}
{{- end -}}
{{- end -}}
{{- end -}}
