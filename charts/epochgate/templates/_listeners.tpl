{{/* Listeners: broker node ids, their ports, and the names of Services. */}}

{{/* Names of the configured listeners, as a JSON list. */}}
{{- define "epochgate.listenerNames" -}}
{{- $names := list -}}
{{- range $name, $listener := .Values.listeners -}}
{{- if not (regexMatch "^[a-z][a-z0-9]{0,7}$" $name) -}}
{{- fail (printf "listeners.%s: a listener's name is part of port names: at most 8 small letters and digits, a letter first" $name) -}}
{{- end -}}
{{- if $listener -}}{{- $names = append $names $name -}}{{- end -}}
{{- end -}}
{{- if not $names -}}{{- fail "listeners: there is none, so no client could connect" -}}{{- end -}}
{{- sortAlpha $names | toJson -}}
{{- end -}}

{{/* A listener merged over the defaults of the first one, as JSON. Takes (dict "root" $ "name" …). */}}
{{- define "epochgate.listener" -}}
{{- $defaults := dict
      "advertisedHost" ""
      "nodesByName" ""
      "bootstrapName" ""
      "nodeIds" list
      "identity" "none"
      "principalMappingRules" "DEFAULT"
      "tls" (dict "enabled" false "secretName" "" "clientCaSecretName" "" "clientAuth" "required"
        "clientCrl" (dict "secretName" "" "key" "ca.crl")
        "certManager" (dict "enabled" false "issuerRef" (dict "kind" "Issuer" "group" "cert-manager.io") "dnsNames" list
          "duration" "2160h" "renewBefore" "720h"))
      "proxyProtocol" (dict "trusted" list "timeoutSeconds" 5)
      "service" (dict "type" "ClusterIP" "perBroker" false "annotations" dict "loadBalancerClass" ""
        "loadBalancerSourceRanges" list "externalTrafficPolicy" "Local" "affinitySeconds" 10800)
      "gateway" (dict "enabled" false "apiVersion" "" "parentRefs" list "port" 9093 "annotations" dict) -}}
{{- $listener := mergeOverwrite $defaults (deepCopy (get .root.Values.listeners .name)) -}}
{{- /* Not a default in values.yaml, because Helm would merge the user's map into it instead of replacing it. */ -}}
{{- if not (or $listener.nodes $listener.nodesByName) -}}{{- $_ := set $listener "nodes" (dict "0-9" 9100) -}}{{- end -}}
{{- toJson $listener -}}
{{- end -}}

{{/* The ports of the brokers (without the bootstrap port), as JSON: [{"id": 0, "port": 9100}, …]. Takes (dict "name" … "nodes" {…}). */}}
{{- define "epochgate.nodePorts" -}}
{{- $ports := list -}}
{{- $listener := .name -}}
{{- range $range := keys .nodes | sortAlpha -}}
{{- if not (regexMatch "^[0-9]+(-[0-9]+)?$" $range) -}}
{{- fail (printf "listeners.%s.nodes: %q is neither a node id nor a range such as \"0-9\"" $listener $range) -}}
{{- end -}}
{{- $first := int (get $.nodes $range) -}}
{{- $ends := splitList "-" $range -}}
{{- $low := int (first $ends) -}}
{{- $high := int (last $ends) -}}
{{- if lt $high $low -}}
{{- fail (printf "listeners.%s.nodes: the range %q is empty" $listener $range) -}}
{{- end -}}
{{- if gt (sub $high $low) 250 -}}
{{- fail (printf "listeners.%s.nodes: the range %q has more than 250 node ids; each is a port of the Service" $listener $range) -}}
{{- end -}}
{{- range $id := untilStep $low (int (add $high 1)) 1 -}}
{{- $ports = append $ports (dict "id" $id "port" (add $first (sub $id $low))) -}}
{{- end -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}

{{/* Name of a listener's Service, or of one broker's Service if "node" (a node id, or "bootstrap") is given. */}}
{{- define "epochgate.listenerService" -}}
{{- $base := printf "%s-%s" (include "epochgate.fullname" .root) .name -}}
{{- if hasKey . "node" -}}{{- printf "%s-%v" $base .node -}}{{- else -}}{{- $base -}}{{- end -}}
{{- end -}}

{{/* The advertised host of every node; may contain {node_id}. Takes (dict "root" $ "name" … "listener" {…}). */}}
{{- define "epochgate.advertisedHost" -}}
{{- if .listener.advertisedHost -}}
{{- .listener.advertisedHost -}}
{{- else -}}
{{- $node := ternary (dict "node" "{node_id}") (dict) .listener.service.perBroker -}}
{{- $service := include "epochgate.listenerService" (merge $node (dict "root" .root "name" .name)) -}}
{{- printf "%s.%s.svc.%s" $service .root.Release.Namespace .root.Values.clusterDomain -}}
{{- end -}}
{{- end -}}

{{/* host:port of a listener, for the clients' bootstrap.servers. */}}
{{- define "epochgate.bootstrap" -}}
{{- if .listener.nodesByName -}}
{{- printf "%s:%v" .listener.bootstrapName (ternary .listener.gateway.port .listener.port .listener.gateway.enabled) -}}
{{- else -}}
{{- $node := ternary (dict "node" "bootstrap") (dict) .listener.service.perBroker -}}
{{- $service := include "epochgate.listenerService" (merge $node (dict "root" .root "name" .name)) -}}
{{- if .listener.gateway.enabled -}}
{{- printf "%s:%v" (replace "{node_id}" "bootstrap" .listener.advertisedHost) .listener.gateway.port -}}
{{- else if and .listener.advertisedHost (not .listener.service.perBroker) -}}
{{- printf "%s:%v" .listener.advertisedHost .listener.port -}}
{{- else if .listener.advertisedHost -}}
{{- printf "%s:%v" (replace "{node_id}" "bootstrap" .listener.advertisedHost) .listener.port -}}
{{- else -}}
{{- printf "%s.%s.svc.%s:%v" $service .root.Release.Namespace .root.Values.clusterDomain .listener.port -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The host names of a listener with `nodesByName`, as a JSON list: the bootstrap name, and the brokers' as a wildcard. */}}
{{- define "epochgate.serverNames" -}}
{{- list .bootstrapName (regexReplaceAll "^[^.]*" .nodesByName "*") | toJson -}}
{{- end -}}

{{/* Secret with a listener's certificate. */}}
{{- define "epochgate.listenerSecret" -}}
{{- if .listener.tls.secretName -}}
{{- .listener.tls.secretName -}}
{{- else -}}
{{- printf "%s-tls" (include "epochgate.listenerService" .) -}}
{{- end -}}
{{- end -}}
