{{/* The admin port: TLS, and what its clients have to show. An upgrade with the values of an older chart has none of this. */}}

{{/* The values `admin.auth` and `admin.tls`, as JSON. */}}
{{- define "epochgate.adminValues" -}}
{{- $defaults := dict
      "auth" (dict "existingSecret" "" "metrics" true)
      "tls" (dict "existingSecret" "" "clientAuth" "none" "clientCaSecretName" "") -}}
{{- mergeOverwrite $defaults (pick (deepCopy .Values.admin) "auth" "tls") | toJson -}}
{{- end -}}

{{/* Their part of the section `admin` of the configuration, as JSON. */}}
{{- define "epochgate.adminAccess" -}}
{{- $values := include "epochgate.adminValues" . | fromJson -}}
{{- $access := dict -}}
{{- if $values.auth.existingSecret -}}{{- $_ := set $access "token_file" "/etc/epochgate/admin-token/token" -}}{{- end -}}
{{- if not $values.auth.metrics -}}{{- $_ := set $access "metrics_need_credentials" false -}}{{- end -}}
{{- if $values.tls.existingSecret -}}
{{- $tls := dict "certificate" "/etc/epochgate/admin-tls/tls.crt" "key" "/etc/epochgate/admin-tls/tls.key" -}}
{{- if ne $values.tls.clientAuth "none" -}}
{{- $_ := set $tls "client_auth" $values.tls.clientAuth -}}
{{- $_ := set $tls "client_ca" "/etc/epochgate/admin-clients/ca.crt" -}}
{{- end -}}
{{- $_ := set $access "tls" $tls -}}
{{- end -}}
{{- toJson $access -}}
{{- end -}}

{{/* "true" if a client of the admin port has to show something. */}}
{{- define "epochgate.adminNeedsCredentials" -}}
{{- $values := include "epochgate.adminValues" . | fromJson -}}
{{- if or $values.auth.existingSecret (eq $values.tls.clientAuth "required") -}}true{{- end -}}
{{- end -}}

{{/* http or https. */}}
{{- define "epochgate.adminScheme" -}}
{{- ternary "https" "http" (not (empty (include "epochgate.adminValues" . | fromJson).tls.existingSecret)) -}}
{{- end -}}

{{/* Where their Secrets are mounted in pods that read the configuration. */}}
{{- define "epochgate.adminMounts" -}}
{{- $values := include "epochgate.adminValues" . | fromJson -}}
{{- if $values.auth.existingSecret }}
- {name: admin-token, mountPath: /etc/epochgate/admin-token, readOnly: true}
{{- end }}
{{- if $values.tls.existingSecret }}
- {name: admin-tls, mountPath: /etc/epochgate/admin-tls, readOnly: true}
{{- end }}
{{- if $values.tls.clientCaSecretName }}
- {name: admin-clients, mountPath: /etc/epochgate/admin-clients, readOnly: true}
{{- end }}
{{- end -}}

{{/* The volumes of these. The proxy refuses a token that everybody may read. */}}
{{- define "epochgate.adminVolumes" -}}
{{- $values := include "epochgate.adminValues" . | fromJson -}}
{{- with $values.auth.existingSecret }}
- name: admin-token
  secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: token, path: token}]}
{{- end }}
{{- with $values.tls.existingSecret }}
- name: admin-tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with $values.tls.clientCaSecretName }}
- name: admin-clients
  secret: {secretName: {{ . }}}
{{- end }}
{{- end -}}

{{/* How a monitor reaches the admin port; takes root and the monitor's values. */}}
{{- define "epochgate.scrapeAccess" -}}
{{- $values := include "epochgate.adminValues" .root | fromJson -}}
{{- if $values.tls.existingSecret }}
scheme: https
tlsConfig:
  {{- if .values.tlsConfig }}
  {{- toYaml .values.tlsConfig | nindent 2 }}
  {{- else }}
  ca: {secret: {name: {{ $values.tls.existingSecret }}, key: ca.crt}}
  serverName: {{ printf "%s-admin.%s.svc" (include "epochgate.fullname" .root) .root.Release.Namespace }}
  {{- end }}
{{- end }}
{{- if and $values.auth.existingSecret $values.auth.metrics }}
authorization:
  credentials: {name: {{ $values.auth.existingSecret }}, key: token}
{{- end }}
{{- end -}}

{{/* Rules of a NetworkPolicy for the admin port; takes root, and monitoring, the peers. */}}
{{- define "epochgate.adminIngress" -}}
{{- if (.root.Values.preflight).askPods }}
# Preflights: the Job's, and those that pods make.
- ports:
    - {port: {{ .root.Values.admin.port }}, protocol: TCP}
  from:
    {{- range $component := list "preflight" "proxy" }}
    - podSelector:
        matchLabels:
          app.kubernetes.io/name: {{ include "epochgate.name" $.root }}
          app.kubernetes.io/instance: {{ $.root.Release.Name }}
          app.kubernetes.io/component: {{ $component }}
    {{- end }}
{{- end }}
{{- with .monitoring }}
- ports:
    - {port: {{ $.root.Values.admin.port }}, protocol: TCP}
  from:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end -}}

{{/* Refuses what does not fit together. */}}
{{- define "epochgate.checkAdmin" -}}
{{- with include "epochgate.adminValues" . | fromJson -}}
{{- if and (ne .tls.clientAuth "none") (not (and .tls.existingSecret .tls.clientCaSecretName)) -}}
{{- fail "admin.tls.clientAuth: needs existingSecret and clientCaSecretName" -}}
{{- end -}}
{{- if and (eq .tls.clientAuth "none") .tls.clientCaSecretName -}}
{{- fail "admin.tls.clientCaSecretName: needs clientAuth: required or optional" -}}
{{- end -}}
{{- if and (eq .tls.clientAuth "optional") (not .auth.existingSecret) -}}
{{- fail "admin.tls.clientAuth: optional needs admin.auth.existingSecret: without it no request needs credentials" -}}
{{- end -}}
{{- end -}}
{{- end -}}
