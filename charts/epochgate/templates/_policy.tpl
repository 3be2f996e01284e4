{{/*
What is wrong with a policy, before anything is installed. The schema knows names and types; here is what a rule needs
besides, and the same for files (`policy.set.files`), of which the schema knows nothing. Pods check all of it once more:
they have the whole parser, and refuse a bad policy while the one before it stays in force.
*/}}

{{- define "epochgate.checkPolicy" -}}
{{- range $number, $rule := .Values.policy.rules -}}
{{- include "epochgate.checkRule" (dict "rule" $rule "at" (printf "policy.rules[%d]" $number)) -}}
{{- end -}}
{{- range $name, $text := ((.Values.policy).set).files -}}
{{- if hasSuffix ".yaml" $name -}}
{{- include "epochgate.checkPolicyFile" (dict "at" (printf "policy.set.files: %s" $name) "text" $text) -}}
{{- end -}}
{{- end -}}
{{- with ((.Values.policy).set).files -}}
{{- include "epochgate.checkManifest" . -}}
{{- end -}}
{{- end -}}

{{/* Takes the files by name. Each that the manifest names is there, as it was when that was written. */}}
{{- define "epochgate.checkManifest" -}}
{{- $files := . -}}
{{- $text := get . "manifest.json" -}}
{{- if not $text -}}{{- fail "policy.set.files: there is no manifest.json, without which pods refuse the set; `epochgate policy from-readiness --as helm-values` writes one" -}}{{- end -}}
{{- $manifest := fromJson $text -}}
{{- if or (hasKey $manifest "Error") (not (kindIs "map" (get $manifest "files"))) -}}{{- fail "policy.set.files: manifest.json is no manifest" -}}{{- end -}}
{{- range $name, $digest := $manifest.files -}}
{{- if not (hasKey $files $name) -}}{{- fail (printf "policy.set.files: manifest.json names %s, which is missing" $name) -}}{{- end -}}
{{- if ne $digest (printf "sha256:%s" (get $files $name | sha256sum)) -}}
{{- fail (printf "policy.set.files: %s is not as manifest.json has it; write both again" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A file of a policy. Takes (dict "at" … "text" …). */}}
{{- define "epochgate.checkPolicyFile" -}}
{{- $policy := fromYaml .text -}}
{{- if hasKey $policy "Error" -}}{{- fail (printf "%s: %s" .at (get $policy "Error")) -}}{{- end -}}
{{- include "epochgate.checkKeys" (dict "at" .at "map" $policy "keys" (list "default" "rules" "assignors_allowed" "waves")) -}}
{{- $default := get $policy "default" | default "observe" -}}
{{- if not (has $default (list "observe" "translate" "reject" "host")) -}}{{- fail (printf "%s: default: %v is no mode: observe, translate or reject" .at $default) -}}{{- end -}}
{{- if and (hasKey $policy "rules") (not (kindIs "slice" $policy.rules)) -}}{{- fail (printf "%s: rules: not a list" .at) -}}{{- end -}}
{{- range $number, $rule := $policy.rules -}}
{{- $at := printf "%s: rules[%d]" $.at $number -}}
{{- if not (kindIs "map" $rule) -}}{{- fail (printf "%s: not a rule such as {group: payments, mode: translate}" $at) -}}{{- end -}}
{{- include "epochgate.checkKeys" (dict "at" $at "map" $rule "keys" (list "mode" "group" "groups" "pattern" "type" "assignor" "steps" "hold_s" "windows" "approval" "approve" "pause" "abort_if" "wave" "proof_s" "unproven_override" "owner" "mend")) -}}
{{- if not (has (get $rule "mode") (list "observe" "translate" "reject" "host")) -}}{{- fail (printf "%s: mode: %v is none of observe, translate, reject" $at (get $rule "mode")) -}}{{- end -}}
{{- include "epochgate.checkRule" (dict "rule" $rule "at" $at) -}}
{{- end -}}
{{- end -}}

{{/* Takes (dict "at" … "map" {…} "keys" […]). */}}
{{- define "epochgate.checkKeys" -}}
{{- range $key, $_ := .map -}}
{{- if not (has $key $.keys) -}}{{- fail (printf "%s: unknown key %q" $.at $key) -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* One rule, of which the modes and keys are known already. Takes (dict "rule" {…} "at" …). */}}
{{- define "epochgate.checkRule" -}}
{{- $at := .at -}}
{{- with .rule -}}
{{- $by := 0 -}}
{{- range $key := list "group" "groups" "pattern" -}}{{- if get $.rule $key -}}{{- $by = add1 $by -}}{{- end -}}{{- end -}}
{{- if ne (int $by) 1 -}}{{- fail (printf "%s: a rule needs exactly one of group, groups and pattern" $at) -}}{{- end -}}
{{- with get . "pattern" -}}
{{- /* The same syntax as the pods': RE2. A bad one ends the rendering with its own message. */ -}}
{{- $_ := mustRegexMatch . "" -}}
{{- end -}}
{{- $type := get . "type" -}}
{{- if and $type (ne $type "consumer") (eq .mode "translate") -}}
{{- fail (printf "%s: a %s group is never translated: mode has to be observe or reject" $at $type) -}}
{{- end -}}
{{- range $key := list "steps" "windows" "groups" -}}
{{- $given := get $.rule $key -}}
{{- if and $given (not (kindIs "slice" $given)) -}}{{- fail (printf "%s: %s: not a list" $at $key) -}}{{- end -}}
{{- end -}}
{{- $steps := get . "steps" | default list -}}
{{- if and $steps (ne .mode "translate") -}}{{- fail (printf "%s: steps are those of a move to the new protocol: mode has to be translate" $at) -}}{{- end -}}
{{- if and (kindIs "slice" (get . "steps")) (not $steps) -}}{{- fail (printf "%s: steps is empty: without the key a group moves as a whole" $at) -}}{{- end -}}
{{- /* Numbers of members come before shares: shares count from here on. */ -}}
{{- $shares := 1000000000.0 -}}
{{- $last := 0.0 -}}
{{- $first := 0.0 -}}
{{- range $step := $steps -}}
{{- $value := 0.0 -}}
{{- if kindIs "string" $step -}}
{{- if not (regexMatch "^[0-9]{1,3}([.][0-9]{1,2})?%$" $step) -}}{{- fail (printf "%s: step %q is neither a number of members nor a share such as 10%%" $at $step) -}}{{- end -}}
{{- $share := trimSuffix "%" $step | float64 -}}
{{- if or (le $share 0.0) (gt $share 100.0) -}}{{- fail (printf "%s: step %s: a share is more than 0%% and at most 100%%" $at $step) -}}{{- end -}}
{{- $value = addf $shares $share -}}
{{- else -}}
{{- $value = float64 $step -}}
{{- if or (lt $value 1.0) (gt $value 1000000.0) (ne $value (floor $value)) -}}{{- fail (printf "%s: step %v is no number of members from 1 to 1,000,000" $at $step) -}}{{- end -}}
{{- end -}}
{{- if le $value $last -}}{{- fail (printf "%s: steps have to rise, numbers before shares: see %v" $at $step) -}}{{- end -}}
{{- if eq $first 0.0 -}}{{- $first = $value -}}{{- end -}}
{{- $last = $value -}}
{{- end -}}
{{- $isWhole := eq $first (addf $shares 100.0) -}}
{{- if and (get . "wave") (or (not $steps) (get . "pattern")) -}}{{- fail (printf "%s: wave needs steps, and group or groups" $at) -}}{{- end -}}
{{- $isGated := and (hasKey . "abort_if") (kindIs "map" (get . "abort_if")) -}}
{{- if and $isGated (or (not $steps) $isWhole) -}}{{- fail (printf "%s: abort_if needs steps, the first of less than 100%%" $at) -}}{{- end -}}
{{- if and (get . "proof_s") (not $steps) -}}{{- fail (printf "%s: proof_s is about steps, and the rule has none" $at) -}}{{- end -}}
{{- if and (get . "unproven_override") (not (get . "proof_s")) -}}{{- fail (printf "%s: unproven_override is about proof_s, and the rule has none" $at) -}}{{- end -}}
{{- $limits := dict "windows" (get . "windows") "approval" (eq (get . "approval" | toString) "required") "approve" (get . "approve") "pause" (get . "pause") -}}
{{- range $key, $given := $limits -}}
{{- if and $given (or (not $steps) $isWhole) -}}{{- fail (printf "%s: %s is about steps, and needs one of less than 100%%" $at $key) -}}{{- end -}}
{{- end -}}
{{- if and (get . "approve") (ne (get . "approval" | toString) "required") -}}{{- fail (printf "%s: approve needs approval: required" $at) -}}{{- end -}}
{{- range $window := get . "windows" | default list -}}
{{- if not (kindIs "map" $window) -}}{{- fail (printf "%s: a window is such as {days: mon-fri, from: \"09:00\", to: \"16:00\"}" $at) -}}{{- end -}}
{{- $days := get $window "days" | default "mon-sun" | lower | replace " " "" -}}
{{- $day := "(mon|tue|wed|thu|fri|sat|sun)" -}}
{{- if not (regexMatch (printf "^%s(-%s)?(,%s(-%s)?)*$" $day $day $day $day) $days) -}}{{- fail (printf "%s: days of a window are such as mon-fri or sat,sun, not %q" $at (get $window "days")) -}}{{- end -}}
{{- $from := get $window "from" | default "00:00" -}}
{{- $to := get $window "to" | default "24:00" -}}
{{- if not (and (regexMatch "^([01][0-9]|2[0-3]):[0-5][0-9]$" $from) (regexMatch "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$" $to) (lt $from $to)) -}}
{{- fail (printf "%s: a window from %v to %v: times such as 09:00, and to has to be later than from" $at $from $to) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
