{{/* The status page outside the cluster. */}}

{{/* The values under `statusPage`, as JSON. An upgrade with the values of an older chart (--reuse-values) has none. */}}
{{- define "epochgate.statusPage" -}}
{{- $defaults := dict
      "host" "" "from" list
      "ingress" (dict "enabled" false "className" "" "annotations" dict "tlsSecretName" "")
      "httpRoute" (dict "enabled" false "parentRefs" list "caConfigMapName" "" "annotations" dict) -}}
{{- mergeOverwrite $defaults (deepCopy (.Values.statusPage | default dict)) | toJson -}}
{{- end -}}

{{/* Refuses a page without the credentials of the admin port, and what does not fit together. */}}
{{- define "epochgate.checkStatusPage" -}}
{{- $page := include "epochgate.statusPage" . | fromJson -}}
{{- range $kind := list "ingress" "httpRoute" -}}
{{- if (get $page $kind).enabled -}}
{{- if not (dig "auth" "existingSecret" "" $.Values.admin) -}}
{{- fail (printf "statusPage.%s: the page and its API show every group and client; set admin.auth.existingSecret, a Secret with a token in its key `token`" $kind) -}}
{{- end -}}
{{- if not (dig "tls" "existingSecret" "" $.Values.admin) -}}
{{- fail (printf "statusPage.%s: the token would cross the cluster's network in plain text; set admin.tls.existingSecret" $kind) -}}
{{- end -}}
{{- if eq (dig "tls" "clientAuth" "none" $.Values.admin) "required" -}}
{{- fail (printf "statusPage.%s: admin.tls.clientAuth: required lets no browser in, whose certificate ends at the controller; use optional or none" $kind) -}}
{{- end -}}
{{- if not $page.host -}}{{- fail (printf "statusPage.host: needed with statusPage.%s.enabled" $kind) -}}{{- end -}}
{{- if and $.Values.networkPolicy.enabled (not $page.from) -}}
{{- fail "statusPage.from: needed with networkPolicy.enabled; it names the pods of the controller, as [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}]" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $page.httpRoute.enabled -}}
{{- if not $page.httpRoute.parentRefs -}}{{- fail "statusPage.httpRoute.parentRefs: needed; it names the Gateway" -}}{{- end -}}
{{- range $kind := list "HTTPRoute" "BackendTLSPolicy" -}}
{{- include "epochgate.needs" (dict "root" $ "api" "gateway.networking.k8s.io/v1" "kind" $kind "value" "statusPage.httpRoute.enabled" "of" (printf "the Gateway API with %s" $kind)) -}}
{{- end -}}
{{- end -}}
{{- if and (or $page.host $page.from) (not (or $page.ingress.enabled $page.httpRoute.enabled)) -}}
{{- fail "statusPage: is described but not enabled; set statusPage.ingress.enabled or statusPage.httpRoute.enabled" -}}
{{- end -}}
{{- end -}}
