{{/* Clients with certificates: for whom the pods speak at the brokers, and by what. */}}

{{/* How the listeners do so, as JSON: {"delegation_token": true, "mapped": true}, without those that none uses. */}}
{{- define "epochgate.identityModes" -}}
{{- $modes := dict -}}
{{- range $name := include "epochgate.listenerNames" . | fromJsonArray -}}
{{- $listener := include "epochgate.listener" (dict "root" $ "name" $name) | fromJson -}}
{{- if ne $listener.identity "none" -}}{{- $_ := set $modes $listener.identity true -}}{{- end -}}
{{- end -}}
{{- toJson $modes -}}
{{- end -}}

{{/* The values under `identity`, as JSON. An upgrade with the values of an older chart (--reuse-values) has none. */}}
{{- define "epochgate.identityValues" -}}
{{- $defaults := dict
      "allow" list "deny" list "plaintextUpstream" false
      "account" (dict "username" "" "mechanism" "SCRAM-SHA-512" "secretName" "" "key" "password")
      "mapped" (dict "secretName" "" "key" "mapped.yaml") -}}
{{- mergeOverwrite $defaults (deepCopy (.Values.identity | default dict)) | toJson -}}
{{- end -}}

{{/* The section `identity` of the configuration, as JSON; empty if no listener needs it. Secrets are in mounted files. */}}
{{- define "epochgate.identity" -}}
{{- $modes := include "epochgate.identityModes" . | fromJson -}}
{{- if $modes -}}
{{- $values := include "epochgate.identityValues" . | fromJson -}}
{{- $identity := dict "allow" $values.allow "plaintext_upstream" $values.plaintextUpstream -}}
{{- if $values.deny -}}{{- $_ := set $identity "deny" $values.deny -}}{{- end -}}
{{- if $modes.delegation_token -}}
{{- with $values.account -}}
{{- $_ := set $identity "account" (dict "username" .username "mechanism" .mechanism "password_file" (printf "/etc/epochgate/identity-account/%s" .key)) -}}
{{- end -}}
{{- end -}}
{{- if $modes.mapped -}}
{{- $_ := set $identity "mapped_file" (printf "/etc/epochgate/identity-mapped/%s" $values.mapped.key) -}}
{{- end -}}
{{- toJson $identity -}}
{{- end -}}
{{- end -}}

{{/* Where the Secrets of `identity` are mounted in pods that read the configuration. */}}
{{- define "epochgate.identityMounts" -}}
{{- $modes := include "epochgate.identityModes" . | fromJson -}}
{{- if $modes.delegation_token }}
- {name: identity-account, mountPath: /etc/epochgate/identity-account, readOnly: true}
{{- end }}
{{- if $modes.mapped }}
- {name: identity-mapped, mountPath: /etc/epochgate/identity-mapped, readOnly: true}
{{- end }}
{{- end -}}

{{/* The volumes of these. */}}
{{- define "epochgate.identityVolumes" -}}
{{- $values := include "epochgate.identityValues" . | fromJson -}}
{{- $modes := include "epochgate.identityModes" . | fromJson -}}
{{- if $modes.delegation_token }}
- name: identity-account
  secret: {secretName: {{ $values.account.secretName }}, defaultMode: 0440}
{{- end }}
{{- if $modes.mapped }}
- name: identity-mapped
  secret: {secretName: {{ $values.mapped.secretName }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{/* Refuses what does not fit together. */}}
{{- define "epochgate.checkIdentity" -}}
{{- range $name := include "epochgate.listenerNames" . | fromJsonArray -}}
{{- $listener := include "epochgate.listener" (dict "root" $ "name" $name) | fromJson -}}
{{- if and (not $listener.tls.clientCaSecretName) (or $listener.tls.clientCrl.secretName (ne $listener.tls.clientAuth "required")) -}}
{{- fail (printf "listeners.%s.tls: clientAuth and clientCrl need clientCaSecretName" $name) -}}
{{- end -}}
{{- if and (ne $listener.identity "none") (not $listener.tls.clientCaSecretName) -}}
{{- fail (printf "listeners.%s.identity: %s needs tls.clientCaSecretName" $name $listener.identity) -}}
{{- end -}}
{{- if and (eq $listener.identity "none") (ne $listener.principalMappingRules "DEFAULT") -}}
{{- fail (printf "listeners.%s.principalMappingRules: needs identity: delegation_token or mapped" $name) -}}
{{- end -}}
{{- end -}}
{{- $modes := include "epochgate.identityModes" . | fromJson -}}
{{- with include "epochgate.identityValues" . | fromJson -}}
{{- if and (not $modes) (or .allow .deny .account.username .account.secretName .mapped.secretName .plaintextUpstream) -}}
{{- fail "identity: is described but no listener uses it; set listeners.NAME.identity" -}}
{{- end -}}
{{- if and $modes (not .allow) -}}
{{- fail "identity.allow: needed; it names the principals that the pods may speak for" -}}
{{- end -}}
{{- if and $modes.delegation_token (not (and .account.username .account.secretName)) -}}
{{- fail "identity.account: delegation_token needs username and secretName" -}}
{{- end -}}
{{- if and $modes.mapped (not .mapped.secretName) -}}
{{- fail "identity.mapped.secretName: needed for mapped" -}}
{{- end -}}
{{- if and $modes (not $.Values.upstream.tls.enabled) (not .plaintextUpstream) -}}
{{- fail "upstream.tls: whoever is on the network to the brokers could act as any client with a certificate; set upstream.tls.enabled, or identity.plaintextUpstream if that is meant" -}}
{{- end -}}
{{- end -}}
{{- with dig "identity" dict .Values.config -}}
{{- range $key, $value := dict "allow" "allow" "deny" "deny" "account" "account" "mapped_file" "mapped" "plaintext_upstream" "plaintextUpstream" -}}
{{- if hasKey $.Values.config.identity $key -}}{{- fail (printf "config.identity.%s: set identity.%s instead" $key $value) -}}{{- end -}}
{{- end -}}
{{- if not $modes -}}{{- fail "config.identity: is described but no listener uses it; set listeners.NAME.identity" -}}{{- end -}}
{{- end -}}
{{- end -}}
