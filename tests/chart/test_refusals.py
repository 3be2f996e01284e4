"""Mistakes in values are refused before anything is installed, with a message that says what to do."""

import json

import pytest

from tools.chart import render

pytestmark = pytest.mark.usefixtures("helm")

BOOTSTRAP = ("--set-json", 'upstream.bootstrap=["kafka:9092"]')

GATEWAY = ("--set", "listeners.kafka.gateway.enabled=true,listeners.kafka.gateway.parentRefs[0].name=kafka")

TLS = ("--set", "listeners.kafka.tls.enabled=true,listeners.kafka.tls.secretName=a")
NAMES = (
    *TLS,
    "--set",
    "listeners.kafka.nodesByName=b{node}.kafka.example,listeners.kafka.bootstrapName=kafka.example",
)
TOKENS = (
    *TLS,
    "--set",
    "listeners.kafka.tls.clientCaSecretName=a,listeners.kafka.identity=delegation_token",
    "--set",
    "identity.allow={a},identity.account.username=gate,identity.account.secretName=a,identity.plaintextUpstream=true",
)

# By the schema: the place, and what is wrong there.
MISTAKES = {
    "no brokers": (["--set", "upstream.bootstrap=null"], "at '/upstream'", "missing property 'bootstrap'"),
    "an empty list of brokers": (
        ["--set-json", "upstream.bootstrap=[]"],
        "at '/upstream/bootstrap'",
        "minItems",
    ),
    "a name that is no value": (
        ["--set", "replicas=3"],
        "at ''",
        "additional properties 'replicas' not allowed",
    ),
    "a name of brokers without their ids": (
        ["--set", "listeners.kafka.nodesByName=kafka.example"],
        "at '/listeners/kafka/nodesByName'",
        "does not match pattern",
    ),
    "a misspelt key": (["--set", "drain.graceSecond=3"], "at '/drain'", "'graceSecond' not allowed"),
    "text for a number": (["--set", "replicaCount=two"], "at '/replicaCount'", "got string, want integer"),
    "no worker": (["--set", "workers=0"], "at '/workers'", "minimum: got 0, want 1"),
    "an unknown mode": (
        ["--set", "policy.default=on"],
        "at '/policy/default'",
        "'observe', 'translate', 'reject'",
    ),
    "Kafka Streams among the allowed assignors": (
        ["--set-json", 'policy.assignorsAllowed=["mine","stream"]'],
        "/policy/assignorsAllowed/1",
        "'not' failed",
    ),
    "a rule without a mode": (
        ["--set-json", 'policy.rules=[{"group":"a"}]'],
        "/policy/rules/0",
        "property 'mode'",
    ),
    "a rule for nothing": (
        ["--set-json", 'policy.rules=[{"mode":"observe"}]'],
        "/policy/rules/0",
        "missing property 'group'",
    ),
    "an unknown Service type": (
        ["--set", "listeners.kafka.service.type=Ingress"],
        "at '/listeners/kafka/service/type'",
        "'ClusterIP', 'NodePort', 'LoadBalancer'",
    ),
    "a port beyond the last": (
        ["--set", "admin.port=70000"],
        "at '/admin/port'",
        "maximum: got 70,000, want 65,535",
    ),
    "a digest that is a tag": (
        ["--set", "image.digest=latest"],
        "at '/image/digest'",
        "does not match pattern",
    ),
    "an expiry that is neither": (
        ["--set", "fleet.expires=maybe"],
        "at '/fleet/expires'",
        "value must be one of",
    ),
    "a time of another form": (
        [
            "--set-json",
            'policy.rules=[{"group":"a","mode":"translate","steps":[1],"windows":[{"from":"9:00"}]}]',
        ],
        "/policy/rules/0/windows/0/from",
        "does not match pattern",
    ),
    "an identity that there is not": (
        ["--set", "listeners.kafka.identity=certificate"],
        "at '/listeners/kafka/identity'",
        "'none', 'delegation_token', 'mapped'",
    ),
    "a password among the values": (
        ["--set", "identity.account.password=hush"],
        "at '/identity/account'",
        "'password' not allowed",
    ),
    "a hook that is no URL": (["--set", "hook.url=hook"], "at '/hook/url'", "does not match pattern"),
    "a journal to nowhere": (
        ["--set", "journal.to=disk"],
        "at '/journal/to'",
        "'auto', 'none', 'volume', 'topic'",
    ),
    "a preflight that fails on something else": (
        ["--set", "preflight.failOn=always"],
        "at '/preflight/failOn'",
        "'found', 'unknown', 'never'",
    ),
    "a release that is none": (
        ["--set", "preflight.kafkaVersion=4.4"],
        "at '/preflight/kafkaVersion'",
        "does not match pattern",
    ),
    "a registry with a scheme": (
        ["--set", "global.imageRegistry=https://registry.example"],
        "at '/global/imageRegistry'",
        "does not match pattern",
    ),
    "a schedule that is none": (
        ["--set", "pipeline.readiness.schedule=daily"],
        "at '/pipeline/readiness/schedule'",
        "does not match pattern",
    ),
    "an environment variable without a name": (
        ["--set-json", 'extraEnv=[{"value":"1"}]'],
        "/extraEnv/0",
        "property 'name'",
    ),
}

# By the templates: what is wrong between values.
CONTRADICTIONS = {
    "rules beside a set of files": (
        ["--set", "policy.set.name=waves", "--set-json", 'policy.rules=[{"group":"a","mode":"observe"}]'],
        "policy.rules: has no effect with policy.set",
    ),
    "a default beside a set of files": (
        ["--set", "policy.set.name=waves,policy.default=translate"],
        "policy.default: has no effect with policy.set",
    ),
    "two sets of files": (
        ["--set", "policy.set.name=waves", "--set-json", 'policy.set.files={"a.yaml":""}'],
        "policy.set: name and files are two sources",
    ),
    "no listener": (
        ["--set", "listeners.kafka=null"],
        "listeners: there is none, so no client could connect",
    ),
    "a listener's name that is too long": (
        ["--set", "listeners.outside-world.port=9192"],
        "listeners.outside-world: a listener's name is part of port names: at most 8 small letters",
    ),
    "node ids that are none": (
        ["--set", "listeners.kafka.nodes.all=9100"],
        'listeners.kafka.nodes: "all" is neither a node id nor a range such as "0-9"',
    ),
    "a broker without port": (["--set", "upstream.bootstrap={kafka}"], '"kafka" is not host:port'),
    "a broker as a URL": (["--set", "upstream.bootstrap={tcp://kafka:9092}"], "is not host:port"),
    "ports used twice": (
        ["--set-json", 'listeners.kafka.nodes={"0-9":9085}'],
        "port 9092 is used twice: by listeners.kafka (bootstrap) and by listeners.kafka (7)",
    ),
    "the admin port used twice": (
        ["--set", "listeners.kafka.port=9080"],
        "port 9080 is used twice: by admin.port",
    ),
    "certificates for the admin port without TLS": (
        ["--set", "admin.tls.clientAuth=required"],
        "admin.tls.clientAuth: needs existingSecret and clientCaSecretName",
    ),
    "certificates for the admin port that no client needs": (
        ["--set", "admin.tls.existingSecret=a,admin.tls.clientCaSecretName=b,admin.tls.clientAuth=optional"],
        "admin.tls.clientAuth: optional needs admin.auth.existingSecret",
    ),
    "authorities for the admin port that nothing uses": (
        ["--set", "admin.tls.existingSecret=a,admin.tls.clientCaSecretName=b"],
        "admin.tls.clientCaSecretName: needs clientAuth",
    ),
    "listeners on one port": (["--set", "listeners.other.port=9092"], "is used twice: by listeners.kafka"),
    "a node id in two ranges": (
        ["--set-json", 'listeners.kafka.nodes={"0-4":9100,"3-9":9200}'],
        "listeners.kafka.nodes: node id 3 is in two ranges",
    ),
    "an empty range": (["--set-json", 'listeners.kafka.nodes={"9-0":9100}'], 'the range "9-0" is empty'),
    "too many nodes": (["--set-json", 'listeners.kafka.nodes={"0-999":9100}'], "has more than 250 node ids"),
    "ports beyond the last": (
        ["--set-json", 'listeners.kafka.nodes={"0-9":65530}'],
        "goes beyond port 65535",
    ),
    "a port that is no node port": (
        ["--set", "listeners.kafka.service.type=NodePort,listeners.kafka.advertisedHost=nodes.example"],
        "clients are told port 9092, which is no node port (30000 to 32767)",
    ),
    "nothing to tell clients outside": (
        ["--set", "listeners.kafka.service.type=LoadBalancer"],
        "listeners.kafka.advertisedHost: needed with a Service of type LoadBalancer",
    ),
    "one host by node for one Service": (
        ["--set", "listeners.kafka.advertisedHost=kafka-{node_id}.example"],
        "listeners.kafka.advertisedHost: {node_id} needs service.perBroker or gateway.enabled",
    ),
    "routes without a Gateway": (
        ["--set", "listeners.kafka.gateway.enabled=true"],
        "listeners.kafka.gateway.parentRefs: needed",
    ),
    "routes for one host": (
        [*GATEWAY, "--set", "listeners.kafka.advertisedHost=kafka.example"],
        "listeners.kafka.advertisedHost: needs {node_id} with gateway.enabled",
    ),
    "routes by the name of no handshake": (
        [*GATEWAY, "--set", "listeners.kafka.advertisedHost=kafka-{node_id}.example"],
        "listeners.kafka.tls: needed with gateway.enabled",
    ),
    "a Gateway that is not used": (
        ["--set", "listeners.kafka.gateway.parentRefs[0].name=kafka"],
        "listeners.kafka.gateway: is described but not enabled",
    ),
    "names without TLS": (
        [*NAMES[2:]],
        "listeners.kafka.nodesByName: needs tls",
    ),
    "names of brokers only": (
        [*TLS, "--set", "listeners.kafka.nodesByName=b{node}.kafka.example"],
        "listeners.kafka.bootstrapName: needed with nodesByName",
    ),
    "names and another host": (
        [*NAMES, "--set", "listeners.kafka.advertisedHost=kafka.example"],
        "listeners.kafka.advertisedHost: has no place beside nodesByName",
    ),
    "names and ports": (
        [*NAMES, "--set-json", 'listeners.kafka.nodes={"0-9": 9100}'],
        "listeners.kafka.nodes: has no place beside nodesByName",
    ),
    "names and a Service for each broker": (
        [*NAMES, "--set", "listeners.kafka.service.perBroker=true"],
        "listeners.kafka.service.perBroker: has no use with nodesByName",
    ),
    "a bootstrap name beside ports": (
        ["--set", "listeners.kafka.bootstrapName=kafka.example"],
        "listeners.kafka: bootstrapName and nodeIds need nodesByName",
    ),
    "two autoscalers of one figure": (
        [
            "--set",
            "autoscaling.enabled=true,verticalPodAutoscaler.enabled=true,verticalPodAutoscaler.updateMode=Recreate",
        ],
        "verticalPodAutoscaler: changes the CPU requests",
    ),
    "pods that are scraped twice": (
        ["--set", "metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true"],
        "metrics: serviceMonitor and podMonitor scrape the same pods",
    ),
    "several pods without affinity": (
        ["--set", "listeners.kafka.service.affinitySeconds=0"],
        "affinitySeconds: must not be 0 with more than one pod",
    ),
    "TLS without a certificate": (
        ["--set", "listeners.kafka.tls.enabled=true"],
        "tls: needs secretName or certManager",
    ),
    "a certificate without TLS": (
        ["--set", "listeners.kafka.tls.secretName=a"],
        "is described but not enabled",
    ),
    "cert-manager without an issuer": (
        ["--set", "listeners.kafka.tls.enabled=true,listeners.kafka.tls.certManager.enabled=true"],
        "listeners.kafka.tls.certManager.issuerRef.name: needed",
    ),
    "upstream TLS that is not on": (
        ["--set", "upstream.tls.ca.secretName=a"],
        "upstream.tls: is described but not enabled",
    ),
    "one principal for all": (
        ["--set", "upstream.tls.enabled=true,upstream.tls.clientCertificate.secretName=a"],
        "set clientsShareIdentity: true if that is meant",
    ),
    "configuration that the chart owns": (
        ["--set", "config.admin.port=1"],
        "config.admin: this part of the configuration",
    ),
    "the journal in two places": (
        ["--set", "config.journal.path=/tmp"],
        "config.journal.path: set journal.to instead",
    ),
    "brokers in two places": (["--set", "config.upstream.bootstrap={a:1}"], "set upstream.bootstrap instead"),
    "fewer than the fewest pods": (
        ["--set", "autoscaling.enabled=true,autoscaling.maxReplicas=1"],
        "autoscaling: maxReplicas (1) is below minReplicas (2)",
    ),
    "autoscaling by nothing": (
        ["--set", "autoscaling.enabled=true,autoscaling.targetCPUUtilizationPercentage=0"],
        "autoscaling: nothing to go by",
    ),
    "autoscaling by a part of nothing": (
        ["--set", "autoscaling.enabled=true,resources.requests.cpu=null"],
        "is a part of resources.requests.cpu, which is not set",
    ),
    "a member log that is not on": (
        ["--set", "fleet.enabled=false,fleet.expires=true"],
        "fleet: is described but not enabled",
    ),
    "a name that the member log's client can't use": (
        ["--set", "upstream.tls.enabled=true,upstream.tls.serverName=kafka.example"],
        "fleet.kafka: the member log's client can't use upstream.tls.serverName",
    ),
    "commands that no log would keep": (
        ["--set", "fleet.enabled=false,control.enabled=true"],
        "control.enabled: commands are kept in the member log",
    ),
    "a hook without a URL": (["--set", "hook.token.secretName=a"], "hook: is described but has no url"),
    "a token that everybody on the way could read": (
        ["--set", "hook.url=http://hook.example/,hook.token.secretName=a"],
        "hook.token: is sent by https only",
    ),
    "a Secret without a name": (
        ["--set-json", 'fleet={"enabled":true,"secretFiles":{"sasl.password":"password"}}'],
        "fleet.secretName: needed",
    ),
    "a key without a Secret": (["--set", "fleet.macKey=key"], "fleet.secretName: needed"),
    "a property of the member log's account in two places": (
        [
            "--set-json",
            'fleet={"enabled":true,"secretName":"a","kafka":{"a":"b"},"secretFiles":{"a":"password"}}',
        ],
        "fleet: a is given twice",
    ),
    "the member log in two places": (
        ["--set", "config.fleet.expires=true"],
        "config.fleet: this part of the configuration",
    ),
    "a topic without the journal": (
        ["--set", "journal.topic=a,journal.to=volume"],
        "journal.to is not topic",
    ),
    "a topic without an account that writes it by default": (
        ["--set", "journal.topic=a,fleet.enabled=false"],
        "journal.to is not topic (it is none)",
    ),
    "a volume of no known size": (
        ["--set", "journal.to=volume,journal.volume.size=1.5Gi"],
        "journal.volume.size: 1.5Gi is not a whole number",
    ),
    "a volume that all pods together fill": (
        ["--set", "journal.to=volume,journal.volume.create=true,journal.volume.size=1Gi,replicaCount=7"],
        "journal.volume.size: 1Gi has no room for twice the files that 8 processes write at once",
    ),
    "a journal that one pod can write": (
        ["--set", "journal.to=volume,journal.volume.create=true,journal.volume.accessModes={ReadWriteOnce}"],
        "journal.volume.accessModes: several pods write the journal",
    ),
    "a report of nothing": (
        ["--set", "pipeline.report.enabled=true,journal.to=none"],
        "pipeline.report: is made from the journal",
    ),
    "a report of what is gone": (
        ["--set", "pipeline.report.enabled=true,journal.to=volume"],
        "pipeline.report: can't read a journal that is in an emptyDir",
    ),
    "client certificates without an authority": (
        [*TLS, "--set", "listeners.kafka.tls.clientAuth=optional"],
        "listeners.kafka.tls: clientAuth and clientCrl need clientCaSecretName",
    ),
    "a revocation list without an authority": (
        [*TLS, "--set", "listeners.kafka.tls.clientCrl.secretName=a"],
        "listeners.kafka.tls: clientAuth and clientCrl need clientCaSecretName",
    ),
    "an identity without certificates": (
        [*TLS, "--set", "listeners.kafka.identity=mapped,identity.allow={a},identity.mapped.secretName=a"],
        "listeners.kafka.identity: mapped needs tls.clientCaSecretName",
    ),
    "mapping rules without an identity": (
        ["--set", "listeners.kafka.principalMappingRules=RULE:^(.*)$/$1/"],
        "listeners.kafka.principalMappingRules: needs identity: delegation_token or mapped",
    ),
    "an identity that no listener uses": (
        ["--set", "identity.account.username=gate"],
        "identity: is described but no listener uses it",
    ),
    "an identity in the configuration that no listener uses": (
        ["--set", "config.identity.tokens_per_s=5"],
        "config.identity: is described but no listener uses it",
    ),
    "tokens for everybody": (
        [*TOKENS, "--set", "identity.allow=null"],
        "identity.allow: needed",
    ),
    "tokens without an account": (
        [*TOKENS, "--set", "identity.account.secretName="],
        "identity.account: delegation_token needs username and secretName",
    ),
    "credentials from no file": (
        [*TOKENS, "--set", "listeners.kafka.identity=mapped"],
        "identity.mapped.secretName: needed for mapped",
    ),
    "tokens in plain text": (
        [*TOKENS, "--set", "identity.plaintextUpstream=false"],
        "set upstream.tls.enabled, or identity.plaintextUpstream if that is meant",
    ),
    "an account in two places": (
        [*TOKENS, "--set", "config.identity.account.username=b"],
        "config.identity.account: set identity.account instead",
    ),
    "a preflight that is a hook of nothing": (
        ["--set", "preflight.hook=true"],
        "preflight.hook: has no effect without preflight.enabled",
    ),
    "what a preflight accepts in two places": (
        ["--set", "config.preflight.accept={racks}"],
        "config.preflight.accept: set preflight.accept instead",
    ),
    "keys of no Secret": (
        ["--set", "pipeline.secretFiles.a=b"],
        "pipeline.secretFiles: names keys of a Secret; set pipeline.secretName too",
    ),
    "a setting of the pipeline given twice": (
        ["--set", "pipeline.secretName=s,pipeline.secretFiles.a=b,pipeline.kafkaConf.a=c"],
        "pipeline: a is in kafkaConf and in secretFiles",
    ),
    "executors that write nowhere": (
        ["--set", "pipeline.spark.enabled=true"],
        "pipeline.spark: driver and executors write to one volume; set pipeline.outputClaim",
    ),
    "allowed assignors without effect": (
        ["--set", "policy.existingConfigMap=a", "--set-json", 'policy.assignorsAllowed=["mine"]'],
        "policy.assignorsAllowed: has no effect with policy.existingConfigMap",
    ),
    "rules without effect": (
        [
            "--set",
            "policy.existingConfigMap=a",
            "--set-json",
            'policy.rules=[{"group":"a","mode":"observe"}]',
        ],
        "policy.rules: have no effect with policy.existingConfigMap",
    ),
}


SECRETS = (
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.jaas.config",
    "sasl.oauthbearer.token",
    "some.private.key",
)


@pytest.mark.parametrize("section", ["fleet", "pipeline"])
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_would_be_in_a_config_map_or_a_command_line_is_refused(section, name):
    key = {"fleet": "kafka", "pipeline": "kafkaConf"}[section]
    values = {key: {"sasl.username": "epochgate", name: "hush"}, "secretName": ""}
    said = refusal(["--set-json", f"{section}={json.dumps(values)}"])
    assert f"{section}.{key}: {name} would be in the manifests for all to read" in said
    assert f"put it into a Secret ({section}.secretName)" in said
    assert "hush" not in said
    values = {key: {"sasl.username": "epochgate"}, "secretName": "s", "secretFiles": {name: "key"}}
    assert render.template(*BOOTSTRAP, "--set-json", f"{section}={json.dumps(values)}")


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_of_the_tests_clients_is_refused(name):
    said = refusal(["--set-json", f"tests.clientProperties={json.dumps({name: 'hush'})}"])
    assert f"tests.clientProperties: {name} would be in the manifests for all to read" in said
    assert "put it into a Secret (tests.clientPropertiesSecret)" in said
    assert "hush" not in said


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_schema_refuses(mistake):
    arguments, place, reason = MISTAKES[mistake]
    said = refusal(arguments)
    lines = [line for line in said.splitlines() if place in line or reason in line]
    assert any(place in line for line in lines), said
    assert any(reason in line for line in lines), said


@pytest.mark.parametrize("contradiction", CONTRADICTIONS)
def test_the_templates_refuse(contradiction):
    arguments, reason = CONTRADICTIONS[contradiction]
    assert reason in refusal(arguments)


NEEDED = {
    "cert-manager.io/v1/Certificate": (
        "production",
        "listeners.kafka.tls.certManager.enabled: this cluster has no Certificate (cert-manager.io/v1); install",
    ),
    "monitoring.coreos.com/v1/ServiceMonitor": (
        "production",
        "metrics.serviceMonitor.enabled: this cluster has no",
    ),
    "monitoring.coreos.com/v1/PrometheusRule": (
        "production",
        "metrics.prometheusRule.enabled: this cluster has no",
    ),
    "monitoring.coreos.com/v1/PodMonitor": ("fleet", "metrics.podMonitor.enabled: this cluster has no"),
    "autoscaling.k8s.io/v1/VerticalPodAutoscaler": (
        "fleet",
        "verticalPodAutoscaler.enabled: this cluster has no",
    ),
    "gateway.networking.k8s.io/v1/TLSRoute": (
        "gateway",
        "listeners.kafka.gateway.enabled: this cluster has no",
    ),
}


@pytest.mark.parametrize("missing", NEEDED)
def test_what_needs_a_kind_that_the_cluster_does_not_have_is_refused(missing):
    variant, reason = NEEDED[missing]
    cluster = ["apps/v1/Deployment", *(kind for kind in NEEDED if kind != missing)]
    known = [word for kind in cluster for word in ("--api-versions", kind)]
    with pytest.raises(render.HelmError) as refused:
        render.ci(variant, *known)
    assert reason in str(refused.value)
    assert render.ci(variant, *known, "--api-versions", missing)
    assert render.ci(variant), "what can't be seen is not refused"


def test_without_a_mistake_nothing_is_refused():
    assert render.documents(render.template(*BOOTSTRAP))
    assert render.documents(render.template(*BOOTSTRAP, *TOKENS))
    assert render.documents(render.template(*BOOTSTRAP, *NAMES))


def refusal(arguments: list[str]) -> str:
    """What helm says."""
    with pytest.raises(render.HelmError) as refused:
        render.template(*BOOTSTRAP, *arguments)
    return str(refused.value)
