{{/* The member log: its account, and whether members are expired by it. */}}

{{/* librdkafka properties of the account, without those from the Secret, as JSON. */}}
{{- define "epochgate.fleetKafka" -}}
{{- $secret := merge (dict) .Values.fleet.secretFiles .Values.fleet.secretEnvironment -}}
{{- include "epochgate.accountKafka" (dict "root" . "kafka" .Values.fleet.kafka "secret" $secret) -}}
{{- end -}}

{{/* The environment variable with a property of the account. */}}
{{- define "epochgate.fleetVariable" -}}
{{- printf "FLEET_%s" (regexReplaceAll "[^A-Za-z0-9]" . "_" | upper) -}}
{{- end -}}

{{/*
Which log a pod writes: its topic and its brokers. The pods' label, so that a Service can select those that write this one.
Pods with other brokers for the same log count as others until the rollout has ended.
*/}}
{{- define "epochgate.memberLogLabel" -}}
{{- $brokers := include "epochgate.fleetKafka" . | fromJson | dig "bootstrap.servers" "" -}}
{{- list .Values.fleet.topic $brokers .Values.fleet.secretName (pick .Values.fleet.secretFiles "bootstrap.servers") (pick .Values.fleet.secretEnvironment "bootstrap.servers") | toJson | sha256sum | trunc 16 -}}
{{- end -}}

{{/* Whether pods learn by themselves, from the addresses of two Services, that every one of them writes the log. */}}
{{- define "epochgate.learnsWriters" -}}
{{- if and .Values.fleet.enabled (eq (toString .Values.fleet.expires) "auto") -}}true{{- end -}}
{{- end -}}

{{/* The headless Service of all pods is needed by it, and by preflights that ask pods. */}}
{{- define "epochgate.hasReplicasService" -}}
{{- if or (.Values.preflight).askPods (include "epochgate.learnsWriters" .) -}}true{{- end -}}
{{- end -}}

{{/* An absolute name of a Service. Takes (dict "root" $ "suffix" …). */}}
{{- define "epochgate.absoluteName" -}}
{{- printf "%s-%s.%s.svc.%s." (include "epochgate.fullname" .root) .suffix .root.Release.Namespace .root.Values.clusterDomain -}}
{{- end -}}

{{/*
The pods of this release that run now, as JSON: how many there are to be, which log they write, whether all do, and whether
some may expire members by it. Annotations of the Deployment's pods say so; a chart without a log wrote none. They speak of
the newest pods only, so an annotation of the Deployment itself says whether those that they replace may expire members,
until all are replaced. Where helm can't see the cluster (`helm template`, Argo CD) there are none.

The cluster is asked once for all manifests, since a rollout may end in between.
*/}}
{{- define "epochgate.runningPods" -}}
{{- if not (hasKey . "EpochgateRunningPods") -}}
{{- $pods := dict "replicas" 0 "log" "" "all" false "expire" false -}}
{{- $deployment := lookup "apps/v1" "Deployment" .Release.Namespace (include "epochgate.fullname" .) -}}
{{- if $deployment -}}
{{- $said := dig "spec" "template" "metadata" "annotations" dict $deployment -}}
{{- $own := dig "metadata" "annotations" dict $deployment -}}
{{- $status := dig "status" dict $deployment -}}
{{- $isRead := eq (int (dig "observedGeneration" 0 $status)) (int $deployment.metadata.generation) -}}
{{- $isNew := eq (int (dig "updatedReplicas" 0 $status)) (int (dig "replicas" 0 $status)) -}}
{{- $_ := set $pods "replicas" (dig "spec" "replicas" 0 $deployment) -}}
{{- $_ := set $pods "all" (and $isRead $isNew) -}}
{{- /* Builds before this one called them member-log/…. */ -}}
{{- $_ := set $pods "log" (get $said "epochgate.io/member-log-topic" | default (get $said "member-log/topic")) -}}
{{- $expires := get $said "epochgate.io/member-log-expires" | default (get $said "member-log/expires") -}}
{{- $replaced := get $own "epochgate.io/replaces-expiring" | default (get $own "member-log/replaces-expiring") -}}
{{- $isReplacing := and (not $pods.all) (eq $replaced "true") -}}
{{- /* With auto none does while pods are replaced that did not. */ -}}
{{- $_ := set $pods "expire" (or (eq $expires "true") (and (eq $expires "auto") $pods.all) $isReplacing) -}}
{{- end -}}
{{- $_ := set . "EpochgateRunningPods" $pods -}}
{{- end -}}
{{- toJson .EpochgateRunningPods -}}
{{- end -}}

{{/* Refuses to replace pods that expire members by pods that do not write their log. */}}
{{- define "epochgate.checkRunningPods" -}}
{{- $pods := include "epochgate.runningPods" . | fromJson -}}
{{- $log := ternary .Values.fleet.topic "" .Values.fleet.enabled -}}
{{- if and $pods.expire (ne $pods.log $log) -}}
{{- fail (printf "fleet: the pods that run now expire members by the log in the topic %s, which is unsafe beside pods that do not write it. First roll out fleet.expires=false and nothing else; when that has ended, this" $pods.log) -}}
{{- end -}}
{{- end -}}
