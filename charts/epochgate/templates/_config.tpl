{{/* The configuration file, epochgate.yaml. */}}
{{- define "epochgate.config" -}}
{{- $listeners := list -}}
{{- range $name := include "epochgate.listenerNames" . | fromJsonArray -}}
{{- $listener := include "epochgate.listener" (dict "root" $ "name" $name) | fromJson -}}
{{- $of := dict "root" $ "name" $name "listener" $listener -}}
{{- $one := dict
      "bind" "0.0.0.0"
      "port" $listener.port -}}
{{- if $listener.nodesByName -}}
{{- $_ := set $one "nodes_by_name" $listener.nodesByName -}}
{{- $_ := set $one "bootstrap_name" $listener.bootstrapName -}}
{{- with $listener.nodeIds -}}{{- $_ := set $one "node_ids" . -}}{{- end -}}
{{- else -}}
{{- $_ := set $one "advertised_host" (include "epochgate.advertisedHost" $of) -}}
{{- $_ := set $one "nodes" $listener.nodes -}}
{{- end -}}
{{- if $listener.tls.enabled -}}
{{- $folder := printf "/etc/epochgate/tls/%s" $name -}}
{{- $tls := dict "certificate" (printf "%s/tls.crt" $folder) "key" (printf "%s/tls.key" $folder) -}}
{{- if $listener.tls.clientCaSecretName -}}
{{- $_ := set $tls "client_ca" (printf "/etc/epochgate/tls/%s-clients/ca.crt" $name) -}}
{{- $_ := set $tls "client_auth" $listener.tls.clientAuth -}}
{{- with $listener.tls.clientCrl -}}
{{- if .secretName -}}{{- $_ := set $tls "client_crl" (printf "/etc/epochgate/tls/%s-crl/%s" $name .key) -}}{{- end -}}
{{- end -}}
{{- $_ := set $one "identity" $listener.identity -}}
{{- if ne $listener.principalMappingRules "DEFAULT" -}}{{- $_ := set $one "principal_mapping_rules" $listener.principalMappingRules -}}{{- end -}}
{{- end -}}
{{- $_ := set $one "tls" $tls -}}
{{- end -}}
{{- with $listener.proxyProtocol -}}
{{- if .trusted -}}{{- $_ := set $one "proxy_protocol" (dict "trusted" .trusted "timeout_s" .timeoutSeconds) -}}{{- end -}}
{{- end -}}
{{- if $listener.gateway.enabled -}}{{- $_ := set $one "advertised_port" $listener.gateway.port -}}{{- end -}}
{{- $listeners = append $listeners $one -}}
{{- end -}}

{{- $upstream := dict "bootstrap" .Values.upstream.bootstrap -}}
{{- with .Values.upstream.tls -}}
{{- if .enabled -}}
{{- $tls := dict -}}
{{- if .ca.secretName -}}{{- $_ := set $tls "ca" (printf "/etc/epochgate/tls/upstream-ca/%s" .ca.key) -}}{{- end -}}
{{- if .clientCertificate.secretName -}}
{{- $_ := set $tls "certificate" "/etc/epochgate/tls/upstream-client/tls.crt" -}}
{{- $_ := set $tls "key" "/etc/epochgate/tls/upstream-client/tls.key" -}}
{{- $_ := set $tls "clients_share_identity" .clientCertificate.clientsShareIdentity -}}
{{- end -}}
{{- if .serverName -}}{{- $_ := set $tls "server_name" .serverName -}}{{- end -}}
{{- $_ := set $upstream "tls" $tls -}}
{{- end -}}
{{- end -}}

{{- $policy := dict "file" "/etc/epochgate/policy/policy.yaml" -}}
{{- $set := include "epochgate.policySet" . -}}
{{- if $set -}}
{{- $policy = dict "file" "/etc/epochgate/policy" "manifest_required" true -}}
{{- if .Values.policy.watch -}}{{- $_ := set $policy "config_maps" (printf "epochgate.io/policy-set=%s" $set) -}}{{- end -}}
{{- else if .Values.policy.watch -}}{{- $_ := set $policy "config_map" (include "epochgate.policyConfigMap" .) -}}{{- end -}}
{{- $hosts := (include "epochgate.serviceNames" (dict "root" . "suffix" "admin") | fromJson).names -}}
{{- if (.Values.preflight).askPods -}}
{{- $hosts = concat $hosts (include "epochgate.serviceNames" (dict "root" . "suffix" "replicas") | fromJson).names -}}
{{- end -}}
{{- $hosts = concat $hosts (.Values.admin.hosts | default list) -}}
{{- with (include "epochgate.statusPage" . | fromJson).host -}}{{- $hosts = append $hosts . -}}{{- end -}}
{{- $config := dict
      "upstream" $upstream
      "listeners" $listeners
      "admin" (merge (dict "bind" "0.0.0.0" "port" .Values.admin.port "hosts" $hosts) (include "epochgate.adminAccess" . | fromJson))
      "policy" $policy
      "drain" (dict "grace_s" .Values.drain.graceSeconds)
      "log" (dict "level" .Values.log.level "format" .Values.log.format)
      "workers" .Values.workers -}}
{{- /* Without a member log: during a rollout there is always more than one pod. */ -}}
{{- if not .Values.fleet.enabled -}}{{- $_ := set $config "sole_process" false -}}{{- end -}}
{{- with .Values.fleet -}}
{{- if .enabled -}}
{{- $fleet := dict
      "kafka" (include "epochgate.fleetKafka" $ | fromJson)
      "topic" .topic
      "partitions" .partitions
      "replication" .replication
      "expires" .expires
      "resumes" .resumes -}}
{{- if include "epochgate.learnsWriters" $ -}}
{{- $every := include "epochgate.absoluteName" (dict "root" $ "suffix" "replicas") -}}
{{- $writing := include "epochgate.absoluteName" (dict "root" $ "suffix" "log-writers") -}}
{{- $_ := set $fleet "replica_names" (dict "every" $every "writing" $writing) -}}
{{- end -}}
{{- if .recordFormat -}}{{- $_ := set $fleet "record_format" .recordFormat -}}{{- end -}}
{{- if .macKey -}}{{- $_ := set $fleet "mac_key_file" (printf "/etc/epochgate/fleet/%s" .macKey) -}}{{- end -}}
{{- $files := dict -}}
{{- range $property, $key := .secretFiles -}}{{- $_ := set $files $property (printf "/etc/epochgate/fleet/%s" $key) -}}{{- end -}}
{{- if $files -}}{{- $_ := set $fleet "kafka_files" $files -}}{{- end -}}
{{- $environment := dict -}}
{{- range $property, $_ := .secretEnvironment -}}{{- $_ := set $environment $property (include "epochgate.fleetVariable" $property) -}}{{- end -}}
{{- if $environment -}}{{- $_ := set $fleet "kafka_environment" $environment -}}{{- end -}}
{{- $_ := set $config "fleet" $fleet -}}
{{- end -}}
{{- end -}}
{{- $preflight := dict -}}
{{- with (.Values.preflight).accept -}}{{- $_ := set $preflight "accept" . -}}{{- end -}}
{{- with (.Values.preflight).kafkaVersion -}}{{- $_ := set $preflight "kafka_version" . -}}{{- end -}}
{{- if (.Values.preflight).askPods -}}{{- $_ := set $preflight "replicas" (include "epochgate.replicas" .) -}}{{- end -}}
{{- if $preflight -}}{{- $_ := set $config "preflight" $preflight -}}{{- end -}}
{{- with .Values.control -}}
{{- if .enabled -}}{{- $_ := set $config "control" (dict "socket" "/tmp/epochgate-control.sock") -}}{{- end -}}
{{- end -}}
{{- with .Values.hook -}}
{{- if .url -}}
{{- $hook := dict "url" .url "timeout_s" (.timeoutSeconds | default 10) -}}
{{- if .ca.secretName -}}{{- $_ := set $hook "ca" (printf "/etc/epochgate/hook-ca/%s" (.ca.key | default "ca.crt")) -}}{{- end -}}
{{- if .token.secretName -}}{{- $_ := set $hook "token_file" (printf "/etc/epochgate/hook-token/%s" (.token.key | default "token")) -}}{{- end -}}
{{- $_ := set $config "hook" $hook -}}
{{- end -}}
{{- end -}}
{{- with include "epochgate.identity" . -}}{{- $_ := set $config "identity" (fromJson .) -}}{{- end -}}
{{- with include "epochgate.journal" . -}}{{- $_ := set $config "journal" (fromJson .) -}}{{- end -}}
{{- mergeOverwrite $config (deepCopy .Values.config) | toYaml -}}
{{- end -}}

{{/* The sections and keys that a running proxy changes without a restart: those of proxy/reload/config_plan.py, as a test
compares. */}}
{{- define "epochgate.reloadedKeys" -}}
upstream limits log drain exporter identity.allow identity.deny identity.account.mechanism identity.account.username identity.account.password_file identity.token_mechanism identity.max_lifetime_ms identity.plaintext_upstream identity.mapped_file
{{- end -}}

{{/* Keys of `limits` that need a restart all the same, likewise. */}}
{{- define "epochgate.restartLimits" -}}
session_timeout_min_ms session_timeout_max_ms
{{- end -}}

{{/* The part of the configuration for which pods are replaced. Ports are in it because they change the pods in any case. */}}
{{- define "epochgate.restartConfig" -}}
{{- if eq (toString .Values.reload) "false" -}}
{{- include "epochgate.config" . -}}
{{- else -}}
{{- $config := include "epochgate.config" . | fromYaml -}}
{{- $listeners := list -}}
{{- range $config.listeners -}}{{- $listeners = append $listeners (pick . "bind" "port" "nodes") -}}{{- end -}}
{{- $_ := set $config "listeners" $listeners -}}
{{- $limits := dict -}}
{{- range $key := include "epochgate.restartLimits" . | splitList " " -}}
{{- $_ := set $limits $key (get ($config.limits | default dict) $key) -}}
{{- end -}}
{{- range $key := include "epochgate.reloadedKeys" . | splitList " " -}}
{{- $path := splitList "." $key -}}
{{- $section := $config -}}
{{- range initial $path -}}{{- $section = get $section . | default dict -}}{{- end -}}
{{- $_ := unset $section (last $path) -}}
{{- end -}}
{{- $_ := set $config "limits" $limits -}}
{{- toYaml $config -}}
{{- end -}}
{{- end -}}

{{/* The policy file, policy.yaml. */}}
{{- define "epochgate.policy" -}}
{{- $policy := dict "default" .Values.policy.default "rules" .Values.policy.rules -}}
{{- with .Values.policy.assignorsAllowed -}}{{- $_ := set $policy "assignors_allowed" . -}}{{- end -}}
{{- toYaml $policy -}}
{{- end -}}

{{/* The names of a Service with a dot, by which its port may be called; takes root and suffix, the end of its name. */}}
{{- define "epochgate.serviceNames" -}}
{{- $name := printf "%s-%s.%s" (include "epochgate.fullname" .root) .suffix .root.Release.Namespace -}}
{{- dict "names" (list $name (printf "%s.svc" $name) (printf "%s.svc.%s" $name .root.Values.clusterDomain)) | toJson -}}
{{- end -}}

{{/* host:port of the admin ports of all pods. */}}
{{- define "epochgate.replicas" -}}
{{- printf "%s-replicas.%s.svc.%s:%v" (include "epochgate.fullname" .) .Release.Namespace .Values.clusterDomain .Values.admin.port -}}
{{- end -}}
