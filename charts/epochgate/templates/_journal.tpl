{{/* Where the journal goes: `none`, `volume` or `topic`. */}}
{{- define "epochgate.journalTo" -}}
{{- if ne .Values.journal.to "auto" -}}{{ .Values.journal.to }}{{- else if .Values.fleet.enabled -}}topic{{- else -}}none{{- end -}}
{{- end -}}

{{- define "epochgate.journalTopic" -}}
{{- .Values.journal.topic | default "epochgate-journal" -}}
{{- end -}}

{{/* The claim that has the journal; empty if it is in an emptyDir. */}}
{{- define "epochgate.journalClaim" -}}
{{- if .Values.journal.volume.existingClaim -}}
{{- .Values.journal.volume.existingClaim -}}
{{- else if .Values.journal.volume.create -}}
{{- printf "%s-journal" (include "epochgate.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* Bytes that the files of all pods may take: nine tenths of the volume. */}}
{{- define "epochgate.journalBytes" -}}
{{- $size := toString .Values.journal.volume.size -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $number := regexFind "^[0-9]+" $size -}}
{{- $unit := trimPrefix $number $size -}}
{{- if not (and $number (hasKey $units $unit)) -}}
{{- fail (printf "journal.volume.size: %s is not a whole number of bytes, k, M, G, T, Ki, Mi, Gi or Ti" $size) -}}
{{- end -}}
{{- div (mul (int64 $number) (get $units $unit) 9) 10 -}}
{{- end -}}

{{/* The section `journal` of the configuration, as JSON; empty without a journal. */}}
{{- define "epochgate.journal" -}}
{{- $to := include "epochgate.journalTo" . -}}
{{- if eq $to "volume" -}}
{{- toJson (dict "path" "/var/lib/epochgate/journal" "shared" true "keep_bytes" (include "epochgate.journalBytes" . | int64)) -}}
{{- else if eq $to "topic" -}}
{{- toJson (dict "topic" (include "epochgate.journalTopic" .)) -}}
{{- end -}}
{{- end -}}

{{- define "epochgate.checkJournal" -}}
{{- $to := include "epochgate.journalTo" . -}}
{{- with .Values.journal -}}
{{- if and (ne $to "topic") .topic -}}{{- fail (printf "journal.topic: is given, but journal.to is not topic (it is %s)" $to) -}}{{- end -}}
{{- if and .volume.create (not .volume.existingClaim) (eq $to "volume") (gt (int (include "epochgate.mostReplicas" $)) 1) (not (has "ReadWriteMany" .volume.accessModes)) -}}
{{- fail "journal.volume.accessModes: several pods write the journal, so the claim must be ReadWriteMany (or use journal.to: topic)" -}}
{{- end -}}
{{- if and $.Values.pipeline.report.enabled (eq $to "none") -}}
{{- fail "pipeline.report: is made from the journal; set journal.to to volume or topic" -}}
{{- end -}}
{{- if and $.Values.pipeline.report.enabled (eq $to "volume") (not (include "epochgate.journalClaim" $)) -}}
{{- fail "pipeline.report: can't read a journal that is in an emptyDir; set journal.volume.existingClaim or journal.volume.create" -}}
{{- end -}}
{{- if eq $to "volume" -}}
{{- /* Each process writes one file, which counts in full; one pod more runs during a rollout. */ -}}
{{- $pods := ternary (add 1 (int (include "epochgate.mostReplicas" $))) 1 (ne (include "epochgate.journalClaim" $) "") -}}
{{- $files := mul $pods $.Values.workers (dig "journal" "file_max_bytes" 67108864 $.Values.config | int64) -}}
{{- if lt (include "epochgate.journalBytes" $ | int64) (mul 2 $files) -}}
{{- fail (printf "journal.volume.size: %s has no room for twice the files that %d processes write at once; raise it, or lower config.journal.file_max_bytes" (toString .volume.size) (int (mul $pods $.Values.workers))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
