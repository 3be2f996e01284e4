{{/* The exporter of lag: one pod beside the proxy's, with a configuration of its own, so that changes of it restart only that. */}}

{{- define "epochgate.exporterName" -}}
{{- printf "%s-exporter" (include "epochgate.fullname" .) -}}
{{- end -}}

{{- define "epochgate.exporterSelectorLabels" -}}
app.kubernetes.io/name: {{ include "epochgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: exporter
{{- end -}}

{{- define "epochgate.exporterConfig" -}}
{{- $config := include "epochgate.config" . | fromYaml -}}
{{- with .Values.exporter -}}
{{- $_ := set $config "exporter" (dict
      "bind" "0.0.0.0"
      "port" .port
      "hosts" (concat (include "epochgate.serviceNames" (dict "root" $ "suffix" "exporter") | fromJson).names (.hosts | default list))
      "names" .names
      "cluster" .cluster
      "groups" .groups
      "every_s" .everySeconds
      "max_groups" .maxGroups
      "max_series" .maxSeries) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
