{{/* What the cluster has. */}}

{{/*
Refuses a resource of a kind that the cluster does not have; takes (dict "root" $ "api" "cert-manager.io/v1" "kind" … "value"
… "of" …). `helm template` without a cluster knows groups but no kinds, and refuses nothing.
*/}}
{{- define "epochgate.needs" -}}
{{- $apis := .root.Capabilities.APIVersions -}}
{{- if and ($apis.Has "apps/v1/Deployment") (not ($apis.Has (printf "%s/%s" .api .kind))) -}}
{{- fail (printf "%s: this cluster has no %s (%s); install %s first, or leave it off" .value .kind .api .of) -}}
{{- end -}}
{{- end -}}

{{/*
The API of TLSRoute; takes (dict "root" $ "listener" {…}). By itself the newest that the cluster has: v1alpha2 and v1alpha3
were those of the experimental channel before v1.
*/}}
{{- define "epochgate.tlsRouteApi" -}}
{{- $versions := list .listener.gateway.apiVersion -}}
{{- if not .listener.gateway.apiVersion -}}
{{- $versions = list "v1" -}}
{{- range $version := list "v1alpha2" "v1alpha3" "v1" -}}
{{- if $.root.Capabilities.APIVersions.Has (printf "gateway.networking.k8s.io/%s/TLSRoute" $version) -}}
{{- $versions = prepend $versions $version -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- printf "gateway.networking.k8s.io/%s" (first $versions) -}}
{{- end -}}
