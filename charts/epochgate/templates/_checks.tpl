{{/* Checks that a schema can't express, because they compare several values. */}}
{{- define "epochgate.checks" -}}
{{- $names := include "epochgate.listenerNames" . | fromJsonArray -}}
{{- $taken := dict (toString .Values.admin.port) "admin.port" -}}
{{- range $name := $names -}}
{{- $listener := include "epochgate.listener" (dict "root" $ "name" $name) | fromJson -}}
{{- $ports := include "epochgate.nodePorts" (dict "name" $name "nodes" $listener.nodes) | fromJsonArray -}}
{{- $ids := dict -}}
{{- range $at := prepend $ports (dict "id" "bootstrap" "port" $listener.port) -}}
{{- $port := toString (int $at.port) -}}
{{- $what := printf "listeners.%s (%v)" $name $at.id -}}
{{- if hasKey $ids (toString $at.id) -}}{{- fail (printf "listeners.%s.nodes: node id %v is in two ranges" $name $at.id) -}}{{- end -}}
{{- $_ := set $ids (toString $at.id) true -}}
{{- if hasKey $taken $port -}}{{- fail (printf "port %s is used twice: by %s and by %s" $port (get $taken $port) $what) -}}{{- end -}}
{{- $_ := set $taken $port $what -}}
{{- if gt (int $at.port) 65535 -}}{{- fail (printf "%s goes beyond port 65535" $what) -}}{{- end -}}
{{- if and (eq $listener.service.type "NodePort") (or (lt (int $at.port) 30000) (gt (int $at.port) 32767)) -}}
{{- fail (printf "%s: clients are told port %s, which is no node port (30000 to 32767); choose `port` and `nodes` in that range" $what $port) -}}
{{- end -}}
{{- end -}}
{{- if $listener.nodesByName -}}
{{- if not $listener.tls.enabled -}}
{{- fail (printf "listeners.%s.nodesByName: needs tls; the server name in the TLS handshake selects the broker" $name) -}}
{{- end -}}
{{- if not $listener.bootstrapName -}}
{{- fail (printf "listeners.%s.bootstrapName: needed with nodesByName; it is the name that clients begin with" $name) -}}
{{- end -}}
{{- range $key := list "advertisedHost" "nodes" -}}
{{- if get $listener $key -}}{{- fail (printf "listeners.%s.%s: has no place beside nodesByName; see bootstrapName and nodeIds" $name $key) -}}{{- end -}}
{{- end -}}
{{- if $listener.service.perBroker -}}
{{- fail (printf "listeners.%s.service.perBroker: has no use with nodesByName; one Service is that of all brokers" $name) -}}
{{- end -}}
{{- else if or $listener.bootstrapName $listener.nodeIds -}}
{{- fail (printf "listeners.%s: bootstrapName and nodeIds need nodesByName" $name) -}}
{{- end -}}
{{- if and (ne $listener.service.type "ClusterIP") (not $listener.advertisedHost) (not $listener.nodesByName) -}}
{{- fail (printf "listeners.%s.advertisedHost: needed with a Service of type %s; clients outside the cluster don't know its name inside" $name $listener.service.type) -}}
{{- end -}}
{{- if and (contains "{node_id}" $listener.advertisedHost) (not $listener.service.perBroker) (not $listener.gateway.enabled) -}}
{{- fail (printf "listeners.%s.advertisedHost: {node_id} needs service.perBroker or gateway.enabled" $name) -}}
{{- end -}}
{{- if $listener.gateway.enabled -}}
{{- if not $listener.gateway.parentRefs -}}{{- fail (printf "listeners.%s.gateway.parentRefs: needed; it names the Gateway" $name) -}}{{- end -}}
{{- if not (or $listener.nodesByName (contains "{node_id}" $listener.advertisedHost)) -}}
{{- fail (printf "listeners.%s.advertisedHost: needs {node_id} with gateway.enabled, or nodesByName; a Gateway tells brokers apart by host names" $name) -}}
{{- end -}}
{{- if not $listener.tls.enabled -}}
{{- fail (printf "listeners.%s.tls: needed with gateway.enabled; a TLSRoute goes by the host name of the TLS handshake, which ends in the pods" $name) -}}
{{- end -}}
{{- include "epochgate.needs" (dict "root" $ "api" (include "epochgate.tlsRouteApi" (dict "root" $ "listener" $listener)) "kind" "TLSRoute" "value" (printf "listeners.%s.gateway.enabled" $name) "of" "the Gateway API with TLSRoute") -}}
{{- else if $listener.gateway.parentRefs -}}
{{- fail (printf "listeners.%s.gateway: is described but not enabled; set gateway.enabled" $name) -}}
{{- end -}}
{{- if and (not $listener.service.affinitySeconds) (or (gt (int (include "epochgate.mostReplicas" $)) 1)) -}}
{{- fail (printf "listeners.%s.service.affinitySeconds: must not be 0 with more than one pod; a member's calls have to reach the process that knows it" $name) -}}
{{- end -}}
{{- if $listener.tls.enabled -}}
{{- if and (not $listener.tls.secretName) (not $listener.tls.certManager.enabled) -}}
{{- fail (printf "listeners.%s.tls: needs secretName or certManager" $name) -}}
{{- end -}}
{{- if $listener.tls.certManager.enabled -}}
{{- if not $listener.tls.certManager.issuerRef.name -}}
{{- fail (printf "listeners.%s.tls.certManager.issuerRef.name: needed" $name) -}}
{{- end -}}
{{- include "epochgate.needs" (dict "root" $ "api" "cert-manager.io/v1" "kind" "Certificate" "value" (printf "listeners.%s.tls.certManager.enabled" $name) "of" "cert-manager") -}}
{{- end -}}
{{- else if or $listener.tls.secretName $listener.tls.certManager.enabled $listener.tls.clientCaSecretName $listener.tls.clientCrl.secretName -}}
{{- fail (printf "listeners.%s.tls: is described but not enabled; set tls.enabled" $name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.upstream.bootstrap -}}
{{- if not (regexMatch "^(\\[[0-9A-Fa-f:.]+\\]|[^][:/ ]+):[0-9]{1,5}$" .) -}}
{{- fail (printf "upstream.bootstrap: %q is not host:port, such as kafka-bootstrap.kafka:9092" .) -}}
{{- end -}}
{{- end -}}
{{- with .Values.upstream.tls -}}
{{- if and (not .enabled) (or .ca.secretName .clientCertificate.secretName .serverName) -}}
{{- fail "upstream.tls: is described but not enabled; set upstream.tls.enabled" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.upstream.tls.clientCertificate.secretName (not .Values.upstream.tls.clientCertificate.clientsShareIdentity) -}}
{{- fail "upstream.tls.clientCertificate: brokers may take all clients for the one principal of this certificate; set clientsShareIdentity: true if that is meant" -}}
{{- end -}}
{{- $own := dict "listeners" "listeners" "admin" "admin" "policy" "policy" "drain" "drain" "log" "log" "workers" "workers" "fleet" "fleet" "exporter" "exporter" "control" "control" "hook" "hook" "sole_process" "nothing: there are always two pods during a rollout" -}}
{{- range $key, $_ := .Values.config -}}
{{- if hasKey $own $key -}}{{- fail (printf "config.%s: this part of the configuration follows from other values of this chart (%s)" $key (get $own $key)) -}}{{- end -}}
{{- end -}}
{{- with .Values.fleet -}}
{{- if and (not .enabled) (or .kafka .secretName .secretFiles .secretEnvironment .macKey .recordFormat (eq (toString .expires) "true")) -}}
{{- fail "fleet: is described but not enabled; set fleet.enabled" -}}
{{- end -}}
{{- include "epochgate.checkNoSecrets" (dict "kafka" .kafka "key" "fleet.kafka" "section" "fleet") -}}
{{- if and (or .secretFiles .secretEnvironment .macKey) (not .secretName) -}}
{{- fail "fleet.secretName: needed for fleet.secretFiles, fleet.secretEnvironment and fleet.macKey" -}}
{{- end -}}
{{- range $property, $_ := merge (dict) .secretFiles .secretEnvironment -}}
{{- if or (hasKey $.Values.fleet.kafka $property) (and (hasKey $.Values.fleet.secretFiles $property) (hasKey $.Values.fleet.secretEnvironment $property)) -}}
{{- fail (printf "fleet: %s is given twice" $property) -}}
{{- end -}}
{{- end -}}
{{- $kafka := include "epochgate.fleetKafka" $ | fromJson -}}
{{- if and .enabled $.Values.upstream.tls.serverName (eq (get $kafka "bootstrap.servers") (join "," $.Values.upstream.bootstrap)) (not (hasKey $kafka "ssl.endpoint.identification.algorithm")) -}}
{{- fail "fleet.kafka: the member log's client can't use upstream.tls.serverName; give it `bootstrap.servers` that are in the brokers' certificates, or `ssl.endpoint.identification.algorithm: none`" -}}
{{- end -}}
{{- end -}}
{{- with .Values.hook -}}
{{- if and (not .url) (or .ca.secretName .token.secretName) -}}
{{- fail "hook: is described but has no url" -}}
{{- end -}}
{{- if and .token.secretName (not (hasPrefix "https://" .url)) -}}
{{- fail "hook.token: is sent by https only" -}}
{{- end -}}
{{- end -}}
{{- with .Values.control -}}
{{- if and .enabled (not $.Values.fleet.enabled) -}}
{{- fail "control.enabled: commands are kept in the member log; set fleet.enabled" -}}
{{- end -}}
{{- end -}}
{{- include "epochgate.checkRunningPods" . -}}
{{- include "epochgate.checkAdmin" . -}}
{{- with dig "upstream" dict .Values.config -}}
{{- range $key := list "bootstrap" "tls" -}}
{{- if hasKey $.Values.config.upstream $key -}}{{- fail (printf "config.upstream.%s: set upstream.%s instead" $key $key) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- with dig "preflight" dict .Values.config -}}
{{- range $key, $value := dict "accept" "accept" "kafka_version" "kafkaVersion" "replicas" "askPods" -}}
{{- if hasKey $.Values.config.preflight $key -}}{{- fail (printf "config.preflight.%s: set preflight.%s instead" $key $value) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (.Values.preflight).hook (not (.Values.preflight).enabled) -}}
{{- fail "preflight.hook: has no effect without preflight.enabled" -}}
{{- end -}}
{{- with dig "journal" dict .Values.config -}}
{{- range $key := list "path" "topic" -}}
{{- if hasKey $.Values.config.journal $key -}}{{- fail (printf "config.journal.%s: set journal.to instead" $key) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if and .enabled (lt (int .maxReplicas) (int .minReplicas)) -}}
{{- fail (printf "autoscaling: maxReplicas (%v) is below minReplicas (%v)" .maxReplicas .minReplicas) -}}
{{- end -}}
{{- if and .enabled (not .targetCPUUtilizationPercentage) (not .connections.targetAverageValue) -}}
{{- fail "autoscaling: nothing to go by; set targetCPUUtilizationPercentage or connections.targetAverageValue" -}}
{{- end -}}
{{- if and .enabled .targetCPUUtilizationPercentage (not (dig "requests" "cpu" "" $.Values.resources)) -}}
{{- fail "autoscaling: targetCPUUtilizationPercentage is a part of resources.requests.cpu, which is not set" -}}
{{- end -}}
{{- end -}}
{{- if and (.Values.exporter).enabled (not .Values.fleet.enabled) -}}
{{- fail "exporter: asks the brokers with the account of the member log; set fleet.enabled" -}}
{{- end -}}
{{- if and (.Values.exporter).enabled ((.Values.exporter).serviceMonitor).enabled -}}
{{- include "epochgate.needs" (dict "root" $ "api" "monitoring.coreos.com/v1" "kind" "ServiceMonitor" "value" "exporter.serviceMonitor.enabled" "of" "the Prometheus operator") -}}
{{- end -}}
{{- include "epochgate.checkNoSecrets" (dict "kafka" .Values.tests.clientProperties "key" "tests.clientProperties" "instead" "tests.clientPropertiesSecret") -}}
{{- include "epochgate.checkStatusPage" . -}}
{{- include "epochgate.checkIdentity" . -}}
{{- include "epochgate.checkJournal" . -}}
{{- include "epochgate.checkPipeline" . -}}
{{- with .Values.verticalPodAutoscaler -}}
{{- if .enabled -}}
{{- if and $.Values.autoscaling.enabled $.Values.autoscaling.targetCPUUtilizationPercentage (has "cpu" .controlledResources) (ne .updateMode "Off") -}}
{{- fail "verticalPodAutoscaler: changes the CPU requests that autoscaling.targetCPUUtilizationPercentage is a part of; set controlledResources: [memory], or scale by connections" -}}
{{- end -}}
{{- include "epochgate.needs" (dict "root" $ "api" "autoscaling.k8s.io/v1" "kind" "VerticalPodAutoscaler" "value" "verticalPodAutoscaler.enabled" "of" "the Vertical Pod Autoscaler") -}}
{{- end -}}
{{- end -}}
{{- range $value, $kind := dict "serviceMonitor" "ServiceMonitor" "podMonitor" "PodMonitor" "prometheusRule" "PrometheusRule" -}}
{{- if dig $value "enabled" false $.Values.metrics -}}
{{- include "epochgate.needs" (dict "root" $ "api" "monitoring.coreos.com/v1" "kind" $kind "value" (printf "metrics.%s.enabled" $value) "of" "the Prometheus operator") -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (dig "podMonitor" "enabled" false .Values.metrics) -}}
{{- fail "metrics: serviceMonitor and podMonitor scrape the same pods; enable one of them" -}}
{{- end -}}
{{- range $rule := .Values.policy.rules -}}
{{- if and $.Values.policy.existingConfigMap -}}
{{- fail "policy.rules: have no effect with policy.existingConfigMap" -}}
{{- end -}}
{{- end -}}
{{- if include "epochgate.policySet" . -}}
{{- $others := pick .Values.policy "existingConfigMap" "rules" "assignorsAllowed" -}}
{{- range $key, $value := $others -}}
{{- if $value -}}{{- fail (printf "policy.%s: has no effect with policy.set" $key) -}}{{- end -}}
{{- end -}}
{{- if ne .Values.policy.default "observe" -}}
{{- fail "policy.default: has no effect with policy.set" -}}
{{- end -}}
{{- if and ((.Values.policy).set).name ((.Values.policy).set).files -}}
{{- fail "policy.set: name and files are two sources; give one of them" -}}
{{- end -}}
{{- end -}}
{{- include "epochgate.checkPolicy" . -}}
{{- if and .Values.policy.existingConfigMap .Values.policy.assignorsAllowed -}}
{{- fail "policy.assignorsAllowed: has no effect with policy.existingConfigMap" -}}
{{- end -}}
{{- end -}}
