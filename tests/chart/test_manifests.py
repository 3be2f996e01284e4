"""The chart's manifests: each way to use it is linted, rendered, and valid for the oldest and the newest Kubernetes."""

import json
import re
import subprocess

import pytest
import yaml

from pipeline.readiness.policy_kubernetes import LABEL
from proxy.config.loader import read_config
from proxy.config.policy_source import policy_of_files
from tools.chart import crds, readme, render, schemas
from tools.chart.binaries import ROOT, binary

pytestmark = pytest.mark.usefixtures("helm")


@pytest.fixture(scope="module", params=render.variants())
def variant(request):
    return request.param


def test_lint_has_nothing_to_say(variant):
    values = str(render.CI / f"{variant}-values.yaml")
    assert "0 chart(s) failed" in render.helm("lint", "--strict", str(render.CHART), "--values", values)


@pytest.mark.parametrize("version", [schemas.OLDEST, schemas.NEWEST])
def test_kubernetes_takes_the_manifests(variant, version):
    found = validate(render.ci(variant), version)
    wrong = [one for one in found if one["status"] != "statusValid"]
    assert wrong == []
    assert len(found) == len(render.documents(render.ci(variant)))


def test_the_variants_have_every_custom_kind():
    """So that tests/kubernetes shows each of them to a real API server."""
    made = {one["kind"] for name in render.variants() for one in render.documents(render.ci(name))}
    defined = {one["spec"]["names"]["kind"] for source in crds.SOURCES for one in source.definitions()}
    assert defined - made == {"VerticalPodAutoscalerCheckpoint"}  # its recommender's own


def test_an_unknown_field_is_found(helm):
    wrong = (
        render.ci("production")
        .replace("maxSurge: 1", "maxSurges: 1")
        .replace("issuerRef:", "issuerReference:")
    )
    bad = {one["kind"] for one in validate(wrong, schemas.NEWEST) if one["status"] == "statusInvalid"}
    assert bad == {"Deployment", "Certificate"}


@pytest.mark.parametrize("variant", render.GOLDEN)
def test_the_manifests_are_as_they_were(variant):
    """`make chart` renews them; the difference is what a change to the chart does to whoever uses it."""
    assert render.golden(variant) == (render.GOLDEN_FILES / f"{variant}.yaml").read_text()


def test_rules_and_dashboard_are_those_of_the_files():
    manifests = render.documents(render.ci("production"))
    rules = render.one(manifests, "PrometheusRule", "epochgate")["spec"]["groups"]
    files = render.CHART / "files"
    assert rules[:-1] == yaml.safe_load((files / "rules.yaml").read_text())["groups"]
    assert rules[-1]["name"] == "ours"
    dashboard = render.one(manifests, "ConfigMap", "epochgate-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in dashboard["data"].items()} == {
        "epochgate.json": json.loads((files / "dashboard.json").read_text()),
        "epochgate-group.json": json.loads((files / "dashboard-group.json").read_text()),
    }


def test_what_spark_submit_is_told_is_whole_in_both_modes():
    made = render.documents(render.ci("pipeline"))
    files = render.one(made, "ConfigMap", "epochgate-spark")["data"]
    templates = {name: yaml.safe_load(text) for name, text in files.items() if name.endswith(".yaml")}
    assert templates.keys() == {"driver.yaml", "executor.yaml", "client.yaml"}
    client = templates["client.yaml"]
    (valid,) = validate(yaml.safe_dump(client), schemas.NEWEST)
    assert valid["status"] == "statusValid", valid  # Spark completes the other two

    cluster, of_client = (
        dict(line.split("=", 1) for line in files[name].splitlines())
        for name in ("spark.properties", "client.properties")
    )
    own = ("spark.submit.deployMode", "spark.master", "spark.kubernetes.driver.pod.name")
    assert [of_client.pop(key) for key in own] == [
        "client", "k8s://https://kubernetes.default.svc", client["metadata"]["name"],
    ]  # fmt: skip
    assert cluster.pop("spark.submit.deployMode") == "cluster"
    account = cluster.pop("spark.kubernetes.authenticate.driver.serviceAccountName")
    assert cluster.pop("spark.kubernetes.driver.podTemplateFile") in templates
    assert cluster == of_client
    assert of_client["spark.kubernetes.executor.podTemplateFile"] in templates

    spec = client["spec"]
    assert spec["serviceAccountName"] == account
    assert render.one(made, "ServiceAccount", account)
    (container,) = spec["containers"]
    mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    folder = mounted.pop(container["workingDir"])  # where the files are that the properties name
    assert {"name": folder, "configMap": {"name": "epochgate-spark"}} in spec["volumes"]
    (driver,) = templates["driver.yaml"]["spec"]["containers"]
    assert mounted == {one["mountPath"]: one["name"] for one in driver["volumeMounts"]}


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1"])
def test_a_tls_route_is_valid_in_the_newest_version_that_the_cluster_has(version):
    known = ["--api-versions", "gateway.networking.k8s.io/v1alpha2/TLSRoute"]
    known += ["--api-versions", f"gateway.networking.k8s.io/{version}/TLSRoute"]
    routes = [at for at in render.documents(render.ci("gateway", *known)) if at["kind"] == "TLSRoute"]
    assert {at["apiVersion"] for at in routes} == {f"gateway.networking.k8s.io/{version}"}
    found = validate(yaml.safe_dump_all(routes), schemas.NEWEST)
    assert [one["status"] for one in found] == ["statusValid"] * 4


def test_a_gateway_leads_each_host_name_to_the_port_of_its_broker():
    manifests = render.documents(render.ci("gateway"))
    config = render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    (listener,) = yaml.safe_load(config)["listeners"]
    assert (listener["advertised_host"], listener["advertised_port"]) == ("kafka-{node_id}.example", 9094)
    (service,) = [
        at for at in manifests if at["metadata"]["name"] == "epochgate-kafka" and at["kind"] == "Service"
    ]
    ports = {at["name"]: at["port"] for at in service["spec"]["ports"]}
    routes = {at["spec"]["hostnames"][0]: at["spec"] for at in manifests if at["kind"] == "TLSRoute"}
    (certificate,) = [at for at in manifests if at["kind"] == "Certificate"]
    assert routes.keys() <= set(certificate["spec"]["dnsNames"])
    for name, port in (("bootstrap", "kafka"), *((node, f"kafka-{node}") for node in "123")):
        route = routes.pop(f"kafka-{name}.example")
        assert route["parentRefs"] == [{"name": "kafka", "namespace": "gateways", "sectionName": "kafka"}]
        assert route["rules"] == [{"backendRefs": [{"name": "epochgate-kafka", "port": ports[port]}]}]
    assert routes == {}


def test_one_port_is_one_port_of_one_service_and_of_the_pods():
    manifests = render.documents(render.ci("one-port"))
    config = render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    (listener,) = yaml.safe_load(config)["listeners"]
    told = {key: listener[key] for key in listener.keys() - {"bind", "tls"}}
    assert told == {
        "port": 9093,
        "nodes_by_name": "b{node}.kafka.example",
        "bootstrap_name": "kafka.example",
        "node_ids": ["0-9"],
    }
    services = [
        at["spec"] for at in manifests if at["kind"] == "Service" and at["spec"]["type"] == "LoadBalancer"
    ]
    assert [service["ports"] for service in services] == [
        [{"name": "kafka", "port": 9093, "targetPort": "kafka"}]
    ]
    deployment = render.one(manifests, "Deployment", "epochgate")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {at["name"] for at in container["ports"]} == {"kafka", "admin"}
    (certificate,) = [at for at in manifests if at["kind"] == "Certificate"]
    assert certificate["spec"]["dnsNames"][:2] == ["kafka.example", "*.kafka.example"]


def test_one_port_behind_a_gateway_is_one_route():
    manifests = render.documents(render.ci("one-port-gateway"))
    config = render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    (listener,) = yaml.safe_load(config)["listeners"]
    assert (listener["port"], listener["advertised_port"]) == (9092, 9094)
    (route,) = [at["spec"] for at in manifests if at["kind"] == "TLSRoute"]
    assert route["hostnames"] == ["kafka.example", "*.kafka.example"]
    assert route["rules"] == [{"backendRefs": [{"name": "epochgate-kafka", "port": 9092}]}]


@pytest.mark.parametrize("variant", ["one-port", "one-port-gateway"])
def test_the_proxy_takes_the_configuration_of_one_port(variant, tmp_path):
    manifests = render.documents(render.ci(variant))
    file = tmp_path / "epochgate.yaml"
    file.write_text(render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"])
    read = read_config(file, {})
    assert read.problems == []
    assert read.config.listeners[0].server_names["b9.kafka.example"] == 9


def test_a_listener_takes_proxy_headers_from_the_addresses_in_its_values():
    manifests = render.documents(render.ci("proxy-protocol"))
    config = render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    (listener,) = yaml.safe_load(config)["listeners"]
    assert listener["proxy_protocol"] == {"trusted": ["10.0.7.0/28", "2001:db8:7::/64"], "timeout_s": 5}


def test_pods_may_read_no_more_than_the_policy_and_only_if_they_watch_it():
    watching = ["--set", "policy.watch=true"]
    kinds = {at["kind"] for at in render.documents(render.ci("minimal"))}
    assert not kinds & {"Role", "RoleBinding"}
    assert "serviceAccountToken" not in render.ci("minimal")
    manifests = render.documents(render.ci("own-policy", *watching))
    role = render.one(manifests, "Role", "epochgate-policy")
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["groups-to-migrate"],
            "verbs": ["list", "watch"],
        }
    ]
    binding = render.one(manifests, "RoleBinding", "epochgate-policy")
    pod = render.one(manifests, "Deployment", "epochgate")["spec"]["template"]["spec"]
    (subject,) = binding["subjects"]
    assert subject == {
        "kind": "ServiceAccount",
        "name": pod["serviceAccountName"],
        "namespace": role["metadata"]["namespace"],
    }
    config = render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    assert yaml.safe_load(config)["policy"]["config_map"] == "groups-to-migrate"
    mounts = {
        at["name"]: [one["name"] for one in at["volumeMounts"]]
        for at in pod["containers"]
        if "volumeMounts" in at
    }
    assert [name for name, volumes in mounts.items() if "api" in volumes] == ["epochgate"]
    assert pod["automountServiceAccountToken"] is False


def test_the_network_policy_lets_the_test_in_and_the_policy_be_watched():
    manifests = render.documents(render.ci("production"))
    spec = render.one(manifests, "NetworkPolicy", "epochgate")["spec"]
    job = render.one(manifests, "Job", "epochgate-test")
    labels = job["spec"]["template"]["metadata"]["labels"].items()
    allowed = [
        peer["podSelector"]["matchLabels"].items()
        for peer in spec["ingress"][0]["from"]
        if "podSelector" in peer
    ]
    assert any(selected <= labels for selected in allowed)
    ports = [{port["port"] for port in rule["ports"]} for rule in spec["egress"]]
    assert {443, 6443} in ports
    unwatched = render.documents(render.ci("production", "--set", "policy.watch=false"))
    spec = render.one(unwatched, "NetworkPolicy", "epochgate")["spec"]
    assert {443, 6443} not in [{port["port"] for port in rule["ports"]} for rule in spec["egress"]]


def test_the_test_ends_in_time_and_goes_by_itself():
    """helm deletes no hook at `uninstall`; and the deadline of a Pod does not count while it waits for a node."""
    manifests = render.documents(render.ci("minimal", "--set", "tests.timeoutSeconds=60"))
    hooks = {
        at["kind"]: at
        for at in manifests
        if at["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"
    }
    assert set(hooks) == {"ConfigMap", "Job"}
    for hook in hooks.values():
        policies = hook["metadata"]["annotations"]["helm.sh/hook-delete-policy"].split(",")
        assert policies == ["before-hook-creation", "hook-succeeded"]
    job = hooks["Job"]
    logs = job["metadata"]["annotations"]["helm.sh/hook-output-log-policy"].split(",")
    assert logs == ["hook-succeeded", "hook-failed"]
    assert job["spec"]["ttlSecondsAfterFinished"] <= 600
    assert (job["spec"]["activeDeadlineSeconds"], job["spec"]["backoffLimit"]) == (150, 0)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "10m", "memory": "96Mi"}


def test_the_readme_is_that_of_the_values():
    assert readme.PATH.read_text() == readme.wanted(), "make chart"


def test_every_value_says_what_it_is_for():
    undescribed = [
        line
        for line in readme.PATH.read_text().splitlines()
        if line.startswith("|") and line.endswith("|  |")
    ]
    assert undescribed == []


@pytest.mark.parametrize(
    ("variant", "told"),
    [
        ("minimal", "bootstrap.servers=epochgate-kafka.kafka.svc.cluster.local:9092\n"),
        ("production", "bootstrap.servers=epochgate-kafka.kafka.svc.cluster.local:9092    # TLS\n"),
        (
            "load-balancer",
            "bootstrap.servers=kafka.example:19092    # TLS    # once this name resolves to the",
        ),
        (
            "per-broker",
            "bootstrap.servers=kafka-bootstrap.example:9092    # TLS    # once this name resolves to the",
        ),
        (
            "one-port",
            "bootstrap.servers=kafka.example:9093    # TLS    # once this name, and *.kafka.example, resolve to the",
        ),
        (
            "one-port-gateway",
            "bootstrap.servers=kafka.example:9094    # TLS    # once this name, and those of",
        ),
        ("journal-lost", "NOTE: the journal is in an emptyDir"),
        ("minimal", "new pods do not start, and say why in their log"),
        ("journal-lost", "NOTE: `fleet.enabled` is false, so the partitions of a client that is killed stay"),
        (
            "fleet",
            "topic or other brokers for it, roll out `fleet.expires: false`",
        ),
    ],
)
def test_the_notes_say_how_to_point_a_client_at_it(variant, told):
    """helm shows them only after an installation; to a template they are a template like any other."""
    notes = '{{ include "epochgate/templates/NOTES.txt" . | toJson }}'
    shown = {"apiVersion": "v1", "kind": "Notes", "metadata": {"name": "shown"}, "said": notes}
    rendered = render.ci(variant, "--set-json", f"extraObjects=[{json.dumps(shown)}]")
    said = json.loads(render.one(render.documents(rendered), "Notes", "shown")["said"])
    assert told in said


def test_the_values_in_the_documentation_are_good(tmp_path):
    page = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    values = [yaml.safe_load(block) for block in blocks]
    assert len(values) == 5
    arguments = []
    for number, block in enumerate(blocks):
        (tmp_path / f"{number}.yaml").write_text(block)
        arguments += ["--values", str(tmp_path / f"{number}.yaml")]
    manifests = render.documents(render.template(*arguments))
    policy = render.one(manifests, "ConfigMap", "epochgate-policy")["data"]["policy.yaml"]
    assert yaml.safe_load(policy) == values[1]["policy"]
    for kind in ("ServiceMonitor", "PrometheusRule"):
        assert render.one(manifests, kind, "epochgate")["metadata"]["labels"]["release"] == "prometheus"
    assert render.one(manifests, "ConfigMap", "epochgate-dashboard")
    (endpoint,) = render.one(manifests, "ServiceMonitor", "epochgate")["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"]["name"] == values[4]["admin"]["auth"]["existingSecret"]


def test_the_values_for_clients_with_certificates_in_the_documentation_are_good(tmp_path):
    page = (ROOT / "docs" / "how-to" / "client-certificates.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (block,) = [one for one in blocks if "clientCaSecretName" in one]
    (tmp_path / "values.yaml").write_text(block)
    manifests = render.documents(render.template("--values", str(tmp_path / "values.yaml")))
    text = render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    assert [one["identity"] for one in yaml.safe_load(text)["listeners"]] == ["delegation_token"]


def validate(manifests: str, version: str) -> list[dict[str, str]]:
    """What kubeconform says of each manifest."""
    place = ["-schema-location", schemas.location(version)]
    done = subprocess.run(
        [
            str(binary("kubeconform")),
            "-strict",
            "-output",
            "json",
            "-verbose",
            "-kubernetes-version",
            version,
            *place,
        ],
        input=manifests,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout)["resources"]


def test_a_policy_of_several_files_is_mounted_whole_and_its_manifest_is_demanded():
    """Of a set of ConfigMaps it is not known how many there are, so those that are not there are no mistake."""
    manifests = render.documents(render.ci("policy-set"))
    config = yaml.safe_load(render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"])
    assert config["policy"] == {
        "file": "/etc/epochgate/policy",
        "manifest_required": True,
        "config_maps": f"{LABEL}=waves",
    }
    volumes = render.one(manifests, "Deployment", "epochgate")["spec"]["template"]["spec"]["volumes"]
    (policy,) = [one for one in volumes if one["name"] == "policy"]
    assert [one["configMap"] for one in policy["projected"]["sources"]] == [
        {"name": "waves-manifest"},
        {"name": "waves-0", "optional": True},
        {"name": "waves-1", "optional": True},
    ]
    assert "resourceNames" not in render.one(manifests, "Role", "epochgate-policy")["rules"][0]


def test_files_in_the_release_are_a_policy_that_the_proxy_takes():
    manifests = render.documents(render.ci("policy-files"))
    maps = [one for one in manifests if LABEL in one["metadata"].get("labels", {})]
    volumes = render.one(manifests, "Deployment", "epochgate")["spec"]["template"]["spec"]["volumes"]
    (policy,) = [one for one in volumes if one["name"] == "policy"]
    assert [one["configMap"]["name"] for one in policy["projected"]["sources"]] == [
        one["metadata"]["name"] for one in maps
    ]
    files = {name: text.encode() for one in maps for name, text in one["data"].items()}
    assert policy_of_files("set", files, manifest_required=True).policy.wave_of == {"yes": 1, "payments": 1}


def test_clients_with_certificates_have_their_configuration_and_its_secrets_are_mounted_files(tmp_path):
    """The proxy takes the configuration once the files are where the pods have them."""
    manifests = render.documents(render.ci("client-certificates"))
    text = render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    file = tmp_path / "epochgate.yaml"
    file.write_text(text)
    config = read_config(file)[0]
    tokens, mapped = config.listeners
    assert (tokens.identity, tokens.tls.client_auth) == ("delegation_token", "required")
    assert (mapped.identity, mapped.tls.client_auth) == ("mapped", "optional")
    assert tokens.principal_mapping_rules == "RULE:^.*CN=([^,]+).*$/$1/,DEFAULT"
    assert config.identity.max_lifetime_ms == 600_000
    named = {
        tokens.tls.client_ca: "kafka-example-clients",
        tokens.tls.client_crl: "kafka-example-crl",
        mapped.tls.client_ca: "kafka-example-partners",
        config.identity.account.password_file: "epochgate-gate",
        config.identity.mapped_file: "epochgate-mapped",
    }
    pod = render.one(manifests, "Deployment", "epochgate")["spec"]["template"]["spec"]
    assert named.items() <= secrets_of(pod, named).items()
    (job,) = [one for one in manifests if one["kind"] == "Job" and "preflight" in one["metadata"]["name"]]
    own = {config.identity.account.password_file, config.identity.mapped_file}
    assert secrets_of(job["spec"]["template"]["spec"], own) == {file: named[file] for file in own}


def secrets_of(pod, files):
    """The Secret that each of these files of a pod's first container comes from."""
    secrets = {one["name"]: one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    mounts = {one["mountPath"]: secrets.get(one["name"]) for one in pod["containers"][0]["volumeMounts"]}
    return {file: mounts.get(file.rpartition("/")[0]) for file in files}


def test_the_admin_ports_answer_to_the_names_of_their_services():
    values = (
        "preflight.askPods=true,admin.hosts={gate.example},exporter.enabled=true,exporter.hosts={lag.example}"
    )
    manifests = render.documents(render.ci("fleet", "--set", values))
    services = {one["metadata"]["name"] for one in manifests if one["kind"] == "Service"}
    hosts = set()
    for one in manifests:
        if one["kind"] == "ConfigMap" and "epochgate.yaml" in one["data"]:
            config = yaml.safe_load(one["data"]["epochgate.yaml"])
            hosts |= set(config["admin"]["hosts"]) | set(config.get("exporter", {}).get("hosts", ()))
    assert {"gate.example", "lag.example"} <= hosts
    for name in ("epochgate-admin", "epochgate-replicas", "epochgate-exporter"):
        assert name in services
        assert {f"{name}.kafka", f"{name}.kafka.svc", f"{name}.kafka.svc.cluster.local"} <= hosts


def policies(*options):
    manifests = render.documents(render.ci("minimal", *options))
    return [one["spec"] for one in manifests if one["kind"] == "NetworkPolicy"]


@pytest.mark.parametrize("port", [9080, 1, 65535])
def test_the_admin_port_alone_is_closed_until_it_has_credentials(port):
    (spec,) = policies("--set", f"admin.port={port},preflight.askPods=true")
    assert spec["policyTypes"] == ["Ingress"]
    others, pods = spec["ingress"]
    assert "from" not in others
    open_ = {
        (one["protocol"], number)
        for one in others["ports"]
        for number in range(one["port"], one["endPort"] + 1)
    }
    every = {(protocol, number) for protocol in ("TCP", "UDP") for number in range(1, 65536)}
    assert every - open_ == {("TCP", port)}
    assert pods["ports"] == [{"port": port, "protocol": "TCP"}]
    assert len(pods["from"]) == 2


@pytest.mark.parametrize("monitor", ["serviceMonitor", "podMonitor"])
def test_an_operators_prometheus_may_scrape_unless_others_are_named(monitor):
    on = f"metrics.{monitor}.enabled=true"
    (spec,) = policies("--set", on)
    (peer,) = spec["ingress"][1]["from"]
    assert peer["namespaceSelector"] == {}
    assert "prometheus" in peer["podSelector"]["matchExpressions"][0]["values"]
    (spec,) = policies("--set", on, "--set-json", 'networkPolicy.monitoring=[{"podSelector":{}}]')
    assert [rule["from"] for rule in spec["ingress"][1:]] == [[{"podSelector": {}}]]


@pytest.mark.parametrize(
    "values",
    [
        "networkPolicy.adminPort=false",
        "admin.auth.existingSecret=token",
        "admin.tls.existingSecret=a,admin.tls.clientAuth=required,admin.tls.clientCaSecretName=b",
    ],
)
def test_the_admin_port_is_open_with_credentials_or_on_request(values):
    assert policies("--set", values) == []


def test_the_admin_ports_secrets_are_where_the_configuration_looks_and_its_clients_use_them():
    values = (
        "admin.auth.existingSecret=token,admin.tls.existingSecret=tls,admin.tls.clientAuth=optional,"
        "admin.tls.clientCaSecretName=clients,preflight.enabled=true,preflight.askPods=true,"
        "metrics.podMonitor.enabled=true"
    )
    manifests = render.documents(render.ci("minimal", "--set", values))
    config = yaml.safe_load(render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"])
    admin = config["admin"]
    secrets = {
        admin["token_file"]: "token",
        admin["tls"]["key"]: "tls",
        admin["tls"]["certificate"]: "tls",
        admin["tls"]["client_ca"]: "clients",
    }
    (job,) = [one for one in manifests if one["kind"] == "Job" and "preflight" in one["metadata"]["name"]]
    pods = [
        one["spec"]["template"]["spec"] for one in (render.one(manifests, "Deployment", "epochgate"), job)
    ]
    for pod in pods:
        assert secrets_of(pod, secrets) == secrets
    probes = [pods[0]["containers"][0][f"{name}Probe"] for name in ("startup", "liveness", "readiness")]
    assert {probe["httpGet"]["scheme"] for probe in probes} == {"HTTPS"}
    (endpoint,) = render.one(manifests, "PodMonitor", "epochgate")["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": "token", "key": "token"}}
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["ca"] == {"secret": {"name": "tls", "key": "ca.crt"}}
    open_ = render.documents(render.ci("minimal", "--set", f"{values},admin.auth.metrics=false"))
    (endpoint,) = render.one(open_, "PodMonitor", "epochgate")["spec"]["podMetricsEndpoints"]
    assert "authorization" not in endpoint


ONE_BROKER = ("--set-json", 'upstream.bootstrap=["kafka:9092"]')


def test_all_images_are_from_the_registry():
    """Hooks and tests too, and what Spark starts."""
    values = "pipeline.report.enabled=true,pipeline.outputClaim=a,pipeline.spark.enabled=true,preflight.enabled=true"
    registry = ("--set", f"global.imageRegistry=mirror.example:5000/a,{values},exporter.enabled=true")
    text = render.template(*ONE_BROKER, *registry)
    images = [line.split("image: ")[1].strip('" ') for line in text.splitlines() if "image: " in line]
    images += [line.split("=")[1] for line in text.splitlines() if "kubernetes.container.image=" in line]
    assert len(images) >= 6
    assert {one for one in images if not one.startswith("mirror.example:5000/a/epochgate")} == set()


def test_a_registry_of_one_image():
    values = ("--set", "image.registry=mine.example,image.digest=sha256:" + "a" * 64)
    deployment = render.one(
        render.documents(render.template(*ONE_BROKER, *values)), "Deployment", "epochgate"
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "mine.example/epochgate@sha256:" + "a" * 64
