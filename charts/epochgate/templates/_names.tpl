{{/* Names and labels. */}}

{{- define "epochgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 30 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of resource names, short enough to append "-<listener>-bootstrap". */}}
{{- define "epochgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 42 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "epochgate.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 42 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 42 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "epochgate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "epochgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: proxy
{{- end -}}

{{/* Labels of every resource; takes (dict "root" $ "component" "proxy"). */}}
{{- define "epochgate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "epochgate.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* metadata of a resource; takes (dict "root" $ "name" … "component" … "labels" {…} "annotations" {…}). */}}
{{- define "epochgate.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "epochgate.labels" (dict "root" .root "component" (default "proxy" .component)) | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (default (dict) .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "epochgate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "epochgate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* An image; takes (dict "root" $ "image" .Values.image). */}}
{{- define "epochgate.image" -}}
{{- $registry := (.root.Values.global).imageRegistry | default .image.registry | default "" -}}
{{- $repository := ternary (printf "%s/%s" $registry .image.repository) .image.repository (ne $registry "") -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .root.Chart.AppVersion .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The value of the label that all ConfigMaps of a policy of several files have; empty if it has one. */}}
{{- define "epochgate.policySet" -}}
{{- if ((.Values.policy).set).files -}}{{ include "epochgate.fullname" . }}-policy
{{- else -}}{{ ((.Values.policy).set).name | default "" }}{{- end -}}
{{- end -}}

{{- define "epochgate.policyConfigMap" -}}
{{- default (printf "%s-policy" (include "epochgate.fullname" .)) .Values.policy.existingConfigMap -}}
{{- end -}}

{{/* Whether more than one pod may run at once outside a rollout. */}}
{{- define "epochgate.mostReplicas" -}}
{{- if .Values.autoscaling.enabled -}}{{ .Values.autoscaling.maxReplicas }}{{- else -}}{{ .Values.replicaCount }}{{- end -}}
{{- end -}}
