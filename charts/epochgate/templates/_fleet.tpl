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
The pods of this release that run now, as JSON: whether there are none, or that is not known (`unseen`), how many there
are to be, which log they write, whether all do, and whether some may expire members by it. Annotations of the Deployment's pods say so; a chart
without a log wrote none. They speak of the newest pods only, so an annotation of the Deployment itself says whether
those that they replace may expire members, until all are replaced.

The cluster is asked once for all manifests, since a rollout may end in between.
*/}}
{{- define "epochgate.runningPods" -}}
{{- if not (hasKey . "EpochgateRunningPods") -}}
{{- $pods := dict "none" false "unseen" false "replicas" 0 "log" "" "all" false "expire" false -}}
{{- $deployment := lookup "apps/v1" "Deployment" .Release.Namespace (include "epochgate.fullname" .) -}}
{{- if $deployment -}}
{{- $said := dig "spec" "template" "metadata" "annotations" dict $deployment -}}
{{- $status := dig "status" dict $deployment -}}
{{- $isRead := eq (int (dig "observedGeneration" 0 $status)) (int $deployment.metadata.generation) -}}
{{- $isNew := eq (int (dig "updatedReplicas" 0 $status)) (int (dig "replicas" 0 $status)) -}}
{{- $_ := set $pods "replicas" (dig "spec" "replicas" 0 $deployment) -}}
{{- $_ := set $pods "log" (get $said "member-log/topic") -}}
{{- $_ := set $pods "all" (and $isRead $isNew) -}}
{{- $replaced := dig "metadata" "annotations" "member-log/replaces-expiring" "" $deployment -}}
{{- $_ := set $pods "expire" (or (eq (get $said "member-log/expires") "true") (and (not $pods.all) (eq $replaced "true"))) -}}
{{- /* Every namespace has this ConfigMap; one that is made with the release (--create-namespace) has not yet. */ -}}
{{- else if and (not .Release.IsUpgrade) (or (lookup "v1" "ConfigMap" .Release.Namespace "kube-root-ca.crt") (lookup "v1" "Namespace" "" "kube-system")) -}}
{{- $_ := set $pods "none" true -}}
{{- else -}}
{{- $_ := set $pods "unseen" true -}}
{{- end -}}
{{- $_ := set . "EpochgateRunningPods" $pods -}}
{{- end -}}
{{- toJson .EpochgateRunningPods -}}
{{- end -}}

{{/*
Whether members are expired, and why, as JSON. `auto` does so if no pod of this release runs that does not write the
log. What can't be seen is taken to be unsafe: `helm template`, and so GitOps, renders the same for an installation and
for an upgrade.
*/}}
{{- define "epochgate.expiry" -}}
{{- $why := "unseen" -}}
{{- if ne (toString .Values.fleet.expires) "auto" -}}
{{- $why = ternary "asked" "refused" .Values.fleet.expires -}}
{{- else -}}
{{- $pods := include "epochgate.runningPods" . | fromJson -}}
{{- if $pods.none -}}
{{- $why = "new" -}}
{{- else if not $pods.unseen -}}
{{- /* Pods expire by this log only since all wrote it, so a rollout under way does not matter then. */ -}}
{{- $why = ternary (ternary "joined" "rolling" (or $pods.all $pods.expire)) "behind" (eq $pods.log .Values.fleet.topic) -}}
{{- end -}}
{{- end -}}
{{- toJson (dict "expires" (has $why (list "asked" "new" "joined")) "why" $why) -}}
{{- end -}}

{{/* Refuses to replace pods that expire members by pods that do not write their log. */}}
{{- define "epochgate.checkRunningPods" -}}
{{- $pods := include "epochgate.runningPods" . | fromJson -}}
{{- $log := ternary .Values.fleet.topic "" .Values.fleet.enabled -}}
{{- if and $pods.expire (ne $pods.log $log) -}}
{{- fail (printf "fleet: the pods that run now expire members by the log in the topic %s, which is unsafe beside pods that do not write it. First roll out fleet.expires=false and nothing else; when that has ended, this" $pods.log) -}}
{{- end -}}
{{- end -}}
