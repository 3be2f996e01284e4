{{/*
librdkafka properties of an account, as JSON; takes (dict "root" $ "kafka" {…} "secret" {…}), where `secret` has the
properties that a Secret gives. Without brokers of its own it connects as the proxy does: to the same brokers, with the
same TLS.
*/}}
{{- define "epochgate.accountKafka" -}}
{{- $kafka := deepCopy .kafka -}}
{{- $secret := .secret -}}
{{- if not (or (get $kafka "bootstrap.servers") (hasKey $secret "bootstrap.servers")) -}}
{{- $ours := dict "bootstrap.servers" (join "," .root.Values.upstream.bootstrap) -}}
{{- with .root.Values.upstream.tls -}}
{{- if .enabled -}}
{{- $_ := set $ours "security.protocol" "SSL" -}}
{{- if .ca.secretName -}}{{- $_ := set $ours "ssl.ca.location" (printf "/etc/epochgate/tls/upstream-ca/%s" .ca.key) -}}{{- end -}}
{{- if .clientCertificate.secretName -}}
{{- $_ := set $ours "ssl.certificate.location" "/etc/epochgate/tls/upstream-client/tls.crt" -}}
{{- $_ := set $ours "ssl.key.location" "/etc/epochgate/tls/upstream-client/tls.key" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $property, $value := $ours -}}
{{- if not (or (get $kafka $property) (hasKey $secret $property)) -}}{{- $_ := set $kafka $property $value -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $kafka -}}
{{- end -}}

{{/*
Refuses secrets among properties that the manifests show to all who may read them. Takes (dict "kafka" {…} "key" …) and
the `section` that names a Secret for them, or `instead`, the value that names one.
*/}}
{{- define "epochgate.checkNoSecrets" -}}
{{- range $property, $_ := .kafka -}}
{{- if regexMatch "(?i)(password|passphrase|secret|token|jaas[.]config|key[.]pem|(^|[.])key)$" $property -}}
{{- $place := $.instead -}}
{{- if not $place -}}{{- $place = printf "%s.secretName" $.section -}}{{- end -}}
{{- $how := ternary "" (printf ", and name its key in %s.secretFiles" $.section) (not $.section) -}}
{{- fail (printf "%s: %s would be in the manifests for all to read; put it into a Secret (%s)%s" $.key $property $place $how) -}}
{{- end -}}
{{- end -}}
{{- end -}}
