"""The chart in a real cluster, in a namespace that is `restricted`, with a real Kafka."""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread

import pytest
import trustme
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support import one_port
from support.broker import Kafka as BrokersUnderTest
from support.consumers import Consumers
from support.host_names import resolved
from support.live_group import LiveGroup
from support.waiting import eventually

from tests.docs import pages
from tests.kubernetes.conftest import NODES_LISTENER, Kafka, helm, run_helm
from tests.kubernetes.group import Group, Seen, pod
from tests.kubernetes.monitoring import targets
from tests.kubernetes.spark import PAGE as SPARK_PAGE
from tests.kubernetes.spark import RESULTS, TABLES, Outside, rows
from tests.kubernetes.stored import differences
from tests.kubernetes.walkthrough import PAGE, Reader
from tests.skips import not_here
from tools.chart import render
from tools.chart.render import CHART
from tools.image import project
from tools.kafka.cluster import Cluster, ExtraListener
from tools.kafka.tls_files import TlsFiles
from tools.kubernetes import cluster, custom_resources, network
from tools.kubernetes.kafka import install
from tools.kubernetes.kubectl import kubectl, succeeds
from tools.kubernetes.paths import ClusterError
from tools.kubernetes.prometheus import install as monitoring

pytestmark = [pytest.mark.kubernetes, pytest.mark.kafka, pytest.mark.timeout(900)]

Step = pages.Command | pages.File
PARTITIONS = 4
RECORDS_A_SECOND = 100
API_SERVER = f"{network.CONTROL}:6443"
PROXY = "app.kubernetes.io/component=proxy"
FILES = CHART / "files"
MONITOR = {
    "labels": monitoring.LABELS,
    "interval": "1s",
    "scrapeTimeout": "1s",
    "podTargetLabels": ["app.kubernetes.io/instance"],
}
PROMETHEUS = {"matchLabels": {"kubernetes.io/metadata.name": monitoring.NAMESPACE}}
CONNECTIONS_FOR_THE_ADAPTER = 'epochgate_client_to_proxy_active_connections{namespace!="",pod!=""}'
"""What docs/how-to/kubernetes.md has prometheus-adapter ask."""
ONE_PORT, NODE_PORT = "one-port", 30093
MIRRORED = "mirror.example/library/epochgate:argo"
"""The project's image under the name of another registry."""
PAGE_HOST, PAGE_TOKEN = "epochgate.example", "0123456789abcdef0123456789abcdef"
NOWHERE = {"nodeSelector": {"epochgate-test": "nowhere"}}
CERTIFICATE = {"enabled": True, "certManager": {"enabled": True, "issuerRef": {"name": "ca"}}}
GATEWAY = {"enabled": True, "parentRefs": [{"name": "kafka"}]}
ROUTED = {
    "tls": {"enabled": True, "secretName": "any"},
    "gateway": GATEWAY,
    "advertisedHost": "kafka-{node_id}.example",
}
GUARDED = {"auth": {"existingSecret": "any"}, "tls": {"existingSecret": "any"}}
ROUTED_PAGE = {"host": "epochgate.example", "httpRoute": GATEWAY}
OF_UNKNOWN_KINDS = {
    "listeners.kafka.tls.certManager.enabled": (
        "Certificate",
        {"listeners": {"kafka": {"tls": CERTIFICATE}}},
    ),
    "listeners.kafka.gateway.enabled": ("TLSRoute", {"listeners": {"kafka": ROUTED}}),
    "verticalPodAutoscaler.enabled": ("VerticalPodAutoscaler", {"verticalPodAutoscaler": {"enabled": True}}),
    "metrics.serviceMonitor.enabled": ("ServiceMonitor", {"metrics": {"serviceMonitor": {"enabled": True}}}),
    "metrics.podMonitor.enabled": ("PodMonitor", {"metrics": {"podMonitor": {"enabled": True}}}),
    "metrics.prometheusRule.enabled": ("PrometheusRule", {"metrics": {"prometheusRule": {"enabled": True}}}),
    "statusPage.httpRoute.enabled": ("HTTPRoute", {"admin": GUARDED, "statusPage": ROUTED_PAGE}),
}
"""By the value that asks for it, a kind that no cluster has of itself, and values that ask for it."""


def test_the_namespace_refuses_what_is_not_restricted(namespace):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "anything"},
        "spec": {"containers": [{"name": "anything", "image": "anything"}]},
    }
    with pytest.raises(ClusterError, match="violates PodSecurity"):
        kubectl("create", "--namespace", namespace, "--dry-run=server", "--filename=-", feed=json.dumps(pod))


def test_the_chart_installs_with_three_replicas(release, namespace):
    deployment = json.loads(kubectl("get", "deployment", release, "--namespace", namespace, "--output=json"))
    assert deployment["status"]["readyReplicas"] == 3


@pytest.mark.parametrize("value", OF_UNKNOWN_KINDS)
def test_a_kind_that_the_cluster_does_not_have_is_refused(release, value):
    if custom_resources.known():
        not_here("this cluster has custom kinds already, perhaps by make cluster-prometheus")
    kind, values = OF_UNKNOWN_KINDS[value]
    before = helm("history", release)
    words = ["upgrade", release, str(CHART), "--reuse-values", "--values=-"]
    done = run_helm(*words, feed=json.dumps(values))
    assert done.returncode != 0
    assert f"{value}: this cluster has no {kind} (" in done.stderr
    assert helm("history", release) == before


@pytest.mark.parametrize("variant", render.variants())
def test_the_api_server_stores_what_the_chart_makes_as_it_is(custom_kinds, namespace, variant):
    """In a namespace that is `restricted`, with pods for no node: nobody waits for them."""
    values = str(render.CI / f"{variant}-values.yaml")
    words = [
        "install",
        variant,
        str(CHART),
        f"--values={values}",
        "--values=-",
        "--no-hooks",
    ]  # they would never end
    done = run_helm(*words, feed=json.dumps(NOWHERE))
    try:
        assert (done.returncode, done.stderr) == (0, "")
        assert differences(helm("get", "manifest", variant), namespace) == []
    finally:
        helm("uninstall", variant, "--ignore-not-found", "--wait=false")


def test_a_field_that_the_api_server_drops_is_noticed(custom_kinds, namespace):
    """What the test above goes by."""
    route = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "TLSRoute",
        "metadata": {"name": "dropped"},
        "spec": {
            "hostnames": ["kafka.example"],
            "rules": [{"backendRefs": [{"name": "any", "port": 9092, "nonsense": 1}]}],
        },
    }
    manifest = json.dumps(route)
    kubectl("create", f"--namespace={namespace}", "--validate=false", "--filename=-", feed=manifest)
    try:
        assert differences(manifest, namespace) == [
            "TLSRoute/dropped.spec.rules[0].backendRefs[0].nonsense: 1 is dropped"
        ]
    finally:
        kubectl("delete", f"--namespace={namespace}", "--filename=-", feed=manifest)


def test_helm_test_passes(release):
    assert "Succeeded" in helm("test", release, "--timeout=120s")


def test_a_rollout_restart_costs_no_rejoin_and_no_record(release, namespace, project_image, kafka):
    groups = [
        Group(namespace, name, 2, assignor, name, f"{release}-kafka:9092", project_image)
        for name, assignor in (("eager", "range"), ("cooperative", "cooperative-sticky"))
    ]
    topics = [group.topic for group in groups]
    make_topics(kafka, topics)
    for group in groups:
        group.start()
    for group in groups:
        wait_until(lambda group=group: everything_is_owned(group.seen()), f"{group.name} has its partitions")
    with producing(kafka, topics):
        for group in groups:
            wait_until(lambda group=group: len(group.seen().read) > 50, f"{group.name} reads")
        before = {group.name: group.seen() for group in groups}
        pods = pods_of(namespace)
        kubectl("rollout", "restart", f"deployment/{release}", "--namespace", namespace)
        kubectl("rollout", "status", f"deployment/{release}", "--namespace", namespace, "--timeout=180s")
        wait_until(lambda: not pods & pods_of(namespace), "no pod of before is left")
    for group in groups:
        wrote = written(kafka, group.topic)
        wait_until(lambda group=group, wrote=wrote: wrote <= set(group.seen().read), f"{group.name} read all")
        after = group.seen()
        assert after.rebalances == before[group.name].rebalances, group.name
        assert [at for at, times in after.read.items() if times > 1] == [], group.name


def test_five_libraries_use_all_brokers_on_one_port(namespace, project_image, tmp_path):
    """From this machine, by the one port of a node; the names of three brokers resolve to that node."""
    tls = TlsFiles(tmp_path / "tls")
    certificate, key = tls.issue("proxy", *one_port.CERTIFIED)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": ONE_PORT},
        "stringData": {"tls.crt": certificate.read_text(), "tls.key": key.read_text()},
    }
    kubectl("apply", "--namespace", namespace, "--filename=-", feed=json.dumps(secret))
    values = {
        "image": {"tag": project_image.rpartition(":")[2]},
        "policy": {"default": "translate"},
        "fleet": {"replication": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
        "listeners": {
            "kafka": {
                "port": NODE_PORT,
                "nodesByName": one_port.TEMPLATE,
                "bootstrapName": one_port.BOOTSTRAP,
                "tls": {"enabled": True, "secretName": ONE_PORT},
                "service": {"type": "NodePort"},
            }
        },
    }
    listener = ExtraListener(NODES_LISTENER, "PLAINTEXT", host=network.GATEWAY)
    brokers = Cluster(tmp_path / "kafka", brokers=len(one_port.NODES), listeners=[listener])
    consumers = Consumers(tmp_path)
    with brokers, resolved(*one_port.NAMES, address=network.node_address(1)):
        values["upstream"] = {"bootstrap": brokers.bootstrap_of(NODES_LISTENER).split(",")}
        words = ["install", ONE_PORT, str(CHART), "--wait", "--timeout=90s", "--values=-"]
        try:
            helm(*words, feed=json.dumps(values))
            service = f"{ONE_PORT}-epochgate-kafka"
            ports = kubectl(
                "get", "service", service, "--namespace", namespace, "--output=jsonpath={.spec.ports[*].port}"
            )
            assert ports == str(NODE_PORT), "one port"
            kafka = BrokersUnderTest(brokers.bootstrap, source="one port", version=brokers.version)
            topic = kafka.new_topic(partitions=one_port.PARTITIONS)
            live = LiveGroup(kafka, consumers, [], ONE_PORT, {topic: one_port.PARTITIONS})
            one_port.run_clients(live, f"{one_port.BOOTSTRAP}:{NODE_PORT}", tls, tmp_path)
        finally:
            consumers.end()
            helm("uninstall", ONE_PORT, "--ignore-not-found")


def test_an_autoscaler_adds_and_removes_pods_at_no_rejoin(
    metrics_server, release, namespace, project_image, kafka
):
    group = Group(namespace, "scaled", 2, "range", "scaled", f"{release}-kafka:9092", project_image)
    make_topics(kafka, [group.topic])
    group.start()
    wait_until(lambda: everything_is_owned(group.seen()), "the group has its partitions")
    autoscaling = {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "scaleDownStabilizationSeconds": 0}
    before = pods_of(namespace)
    with producing(kafka, [group.topic]):
        wait_until(lambda: len(group.seen().read) > 50, "the group reads")
        rebalances = group.seen().rebalances
        try:
            # Every pod uses more than a two-thousandth of a core.
            upgrade(release, {"autoscaling": autoscaling | {"targetCPUUtilizationPercentage": 1}})
            assert before <= pods_of(namespace), "handing over to the autoscaler ends no pod"
            wait_until(lambda: len(pods_of(namespace)) == 4, "the autoscaler adds a pod", 180)
            kubectl("rollout", "status", f"deployment/{release}", f"--namespace={namespace}", "--timeout=90s")
            # No pod uses ten times what it asks for.
            upgrade(release, {"autoscaling": autoscaling | {"targetCPUUtilizationPercentage": 1000}})
            wait_until(lambda: len(pods_of(namespace)) < 4, "the autoscaler removes a pod", 180)
        finally:
            upgrade(release, {"autoscaling": {"enabled": False}})
        wait_until(lambda: len(pods_of(namespace)) == 3, "the values decide again")
    wrote = written(kafka, group.topic)
    wait_until(lambda: wrote <= set(group.seen().read), "the group has read all")
    after = group.seen()
    assert after.rebalances == rebalances
    assert [at for at, times in after.read.items() if times > 1] == []


def test_a_network_policy_lets_nobody_through_who_is_not_named(release, namespace, project_image, kafka):
    for name in ("friend", "stranger"):
        idle = pod(name, project_image, ["sleep", "infinity"])
        kubectl("apply", "--namespace", namespace, "--filename=-", feed=json.dumps(idle))
    kubectl("wait", "--for=condition=Ready", "pod/friend", "pod/stranger", "--namespace", namespace)
    service, admin, broker = f"{release}-kafka:9092", f"{release}-admin:9080", kafka.for_pods
    (proxy, *_) = pods_of(namespace)
    assert connects(namespace, "pod/friend", service)
    assert connects(namespace, "pod/stranger", service)
    assert not connects(namespace, "pod/friend", admin)  # by default that port alone is closed
    assert connects(namespace, proxy, API_SERVER)
    allowed = {
        "enabled": True,
        "clients": [{"podSelector": {"matchLabels": {"epochgate-test": "friend"}}}],
        "brokers": [{"ipBlock": {"cidr": f"{broker.rpartition(':')[0]}/32"}}],
    }
    upgrade(release, {"networkPolicy": allowed})
    try:
        wait_until(lambda: not connects(namespace, "pod/stranger", service), "strangers are kept out")
        assert connects(namespace, "pod/friend", service)
        assert not connects(namespace, "pod/friend", admin)
        (proxy, *_) = pods_of(namespace)
        assert connects(namespace, proxy, broker)
        assert not connects(namespace, proxy, API_SERVER)
    finally:
        upgrade(release, {"networkPolicy": {"enabled": False}})


def test_as_argo_cd_installs_it_a_killed_client_is_noticed_after_its_own_session(
    namespace, project_image, kafka
):
    """Manifests of `helm template`, which sees no cluster; all images from a registry; a NetworkPolicy; the status page
    at a name, for the pods of a controller.
    """
    project.tag(project_image, MIRRORED)
    cluster.import_images([MIRRORED])
    there = f"--namespace={namespace}"
    authority = trustme.CA()
    issued = authority.issue_cert(f"argo-epochgate-admin.{namespace}.svc", PAGE_HOST)
    secrets = {
        "argo-admin": {"token": PAGE_TOKEN},
        "argo-admin-tls": {
            "tls.crt": b"".join(one.bytes() for one in issued.cert_chain_pems).decode(),
            "tls.key": issued.private_key_pem.bytes().decode(),
            "ca.crt": authority.cert_pem.bytes().decode(),
        },
    }
    for name, texts in secrets.items():
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": texts}
        kubectl("apply", there, "--filename=-", feed=json.dumps(secret))
    controller = [{"podSelector": {"matchLabels": {"epochgate-test": "controller"}}}]
    values = {
        "global": {"imageRegistry": MIRRORED.rpartition("/")[0]},
        "image": {"tag": MIRRORED.rpartition(":")[2], "pullPolicy": "Never"},
        "upstream": {"bootstrap": [kafka.for_pods]},
        "policy": {"default": "translate"},
        "fleet": {"replication": 1, "topic": "argo-members"},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
        "networkPolicy": {"enabled": True},
        "admin": {
            "auth": {"existingSecret": "argo-admin", "metrics": False},
            "tls": {"existingSecret": "argo-admin-tls"},
        },
        "statusPage": {"host": PAGE_HOST, "from": controller, "ingress": {"enabled": True}},
    }
    manifests = render.documents(
        render.helm("template", "argo", str(CHART), there, "--values=-", feed=json.dumps(values))
    )
    before = [at for at in manifests if "pre-install" in hook_of(at)]
    kubectl("apply", there, "--filename=-", feed=yaml.safe_dump_all(before))
    try:
        kubectl(
            "wait", there, "job/argo-epochgate-install-check", "--for=condition=Complete", "--timeout=90s"
        )
        plain = [at for at in manifests if not hook_of(at)]
        kubectl("apply", there, "--filename=-", feed=yaml.safe_dump_all(plain))
        kubectl("rollout", "status", there, "deployment/argo-epochgate", "--timeout=120s")
        wait_until(
            lambda: expiring(namespace, "argo", "https") == [1.0, 1.0], "both pods expire silent members"
        )
        group = Group(namespace, "argo", 2, "range", "argo", "argo-epochgate-kafka:9092", project_image)
        make_topics(kafka, [group.topic])
        group.start()
        wait_until(lambda: everything_is_owned(group.seen()), "the group has its partitions")
        victim, survivor = group.pods
        killed = time.monotonic()
        group.kill(victim)
        wait_until(lambda: len(group.seen().assigned[survivor]) == PARTITIONS, "the other has them")
        assert time.monotonic() - killed < 20, "the client's session is 10 s, the broker's 45 s"
        for name in ("controller", "passer-by"):
            idle = pod(name, project_image, ["sleep", "infinity"])
            kubectl("apply", there, "--filename=-", feed=json.dumps(idle))
        kubectl("wait", "--for=condition=Ready", "pod/controller", "pod/passer-by", there)
        assert not connects(namespace, "pod/passer-by", "argo-epochgate-admin:9080")
        assert page(namespace, "controller", PAGE_TOKEN) == 200
        assert page(namespace, "controller", "another token") == 401
    finally:
        documents = yaml.safe_dump_all(manifests)
        kubectl("delete", there, "--ignore-not-found", "--wait=false", "--filename=-", feed=documents)


def test_a_first_upgrade_to_a_log_expires_members_when_the_last_pod_without_it_has_gone(
    release, namespace, project_image, kafka
):
    upgrade(release, {"fleet": {"expires": False}})
    wait_until(lambda: expiring(namespace, release) == [0.0] * 3, "only pods that expire nobody are left")
    upgrade(release, {"fleet": {"enabled": False, "expires": "auto"}})
    upgrade(release, {"fleet": {"enabled": True}})
    wait_until(lambda: expiring(namespace, release) == [1.0] * 3, "all pods expire silent members")


def test_a_quick_install_on_brokers_with_authentication_says_what_is_missing(namespace, project_image, kafka):
    """Before anything starts."""
    values = {
        "image": {"tag": project_image.rpartition(":")[2]},
        "upstream": {"bootstrap": [kafka.secured]},
    }
    try:
        done = run_helm(
            "install", "quick", str(CHART), "--timeout=90s", "--values=-", feed=json.dumps(values)
        )
        said = done.stdout + done.stderr
        assert done.returncode
        assert "error: the member log has no account: the brokers require SASL_PLAINTEXT by " in said
        assert "fleet.secretName" in said
        assert not succeeds("get", f"--namespace={namespace}", "deployment/quick-epochgate")
    finally:
        helm("uninstall", "quick", "--ignore-not-found")


@pytest.fixture(scope="module")
def watched(release, namespace, project_image, kafka, prometheus):
    """The release with all that the chart makes for Prometheus, which a NetworkPolicy names, and a group at work."""
    metrics = {
        "serviceMonitor": MONITOR | {"enabled": True},
        "prometheusRule": {"enabled": True, "labels": monitoring.LABELS},
        "dashboard": {"enabled": True},
    }
    policy = {
        "enabled": True,
        "clients": [],
        "brokers": [],
        "monitoring": [{"namespaceSelector": PROMETHEUS}],
    }
    upgrade(release, {"metrics": metrics, "networkPolicy": policy})
    make_topics(kafka, ["watched"])
    group = Group(namespace, "watched", 2, "range", "watched", f"{release}-kafka:9092", project_image)
    group.start()
    wait_until(lambda: everything_is_owned(group.seen()), "the group has its partitions")
    return prometheus


def test_prometheus_scrapes_every_pod_by_the_service_monitor(watched, release, namespace):
    pods = pods_of(namespace)
    scraped = targets(watched, f"serviceMonitor/{namespace}/{release}/0", pods)
    for one in scraped:
        assert one["labels"] == {
            "app_kubernetes_io_instance": release,
            "container": "epochgate",
            "endpoint": "admin",
            "instance": one["labels"]["instance"],
            "job": f"{release}-admin",
            "namespace": namespace,
            "pod": one["labels"]["pod"],
            "service": f"{release}-admin",
        }
    connections = watched.ask(CONNECTIONS_FOR_THE_ADAPTER)
    assert {one["metric"]["pod"] for one in connections} == pods


def test_prometheus_loads_the_rules_of_the_chart(watched):
    def groups():
        return [one for one in watched.get("rules")["groups"] if one["name"] == "epochgate"]

    def all_ran(found):
        return found and all(rule["health"] != "unknown" for rule in found[0]["rules"])

    (group,) = eventually(groups, all_ran, what="Prometheus has evaluated the rules", timeout_s=90)
    written = yaml.safe_load((FILES / "rules.yaml").read_text())["groups"][0]
    assert [rule["name"] for rule in group["rules"]] == [rule["alert"] for rule in written["rules"]]
    assert {(rule["health"], rule.get("lastError", "")) for rule in group["rules"]} == {("ok", "")}
    assert watched.alerts() == {}


def test_prometheus_answers_every_query_of_the_dashboard(watched, release, namespace):
    listed = [
        "get",
        "configmaps",
        f"--namespace={namespace}",
        "--selector=grafana_dashboard=1",
        "--output=json",
    ]
    (found,) = json.loads(kubectl(*listed))["items"]
    dashboard = json.loads(found["data"]["epochgate.json"])
    pods = pods_of(namespace)
    targets(watched, f"serviceMonitor/{namespace}/{release}/0", pods)
    (instance,) = [one for one in dashboard["templating"]["list"] if one["name"] == "instance"]
    assert instance["definition"] == "label_values(epochgate_build_info, instance)"
    assert len(watched.get("label/instance/values", **{"match[]": "epochgate_build_info"})) == len(pods)

    def silent() -> list[str]:
        queries = [
            target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")
            for panel in dashboard["panels"]
            for target in panel.get("targets", ())
        ]
        return [query for query in queries if not watched.ask(query)]

    eventually(silent, lambda queries: queries == [], what="every query gives data", between_s=1)


def test_prometheus_scrapes_every_pod_by_the_pod_monitor_instead(watched, release, namespace):
    monitors = {"serviceMonitor": {"enabled": False}, "podMonitor": MONITOR | {"enabled": True}}
    upgrade(release, {"metrics": monitors})
    for one in targets(watched, f"podMonitor/{namespace}/{release}/0", pods_of(namespace)):
        assert one["labels"] == {
            "app_kubernetes_io_instance": release,
            "container": "epochgate",
            "endpoint": "admin",
            "instance": one["labels"]["instance"],
            "job": f"{namespace}/{release}",
            "namespace": namespace,
            "pod": one["labels"]["pod"],
        }
    assert targets(watched, f"serviceMonitor/{namespace}/{release}/0", set()) == []


def test_every_command_of_the_walkthrough(tmp_path, kafka_in_pods):
    reader = Reader(tmp_path, kafka_in_pods)
    steps = pages.steps(PAGE)
    assert sum(isinstance(step, pages.Command) and step.until is not None for step in steps) == 4
    for step in steps:
        reader.do(step)
    assert not (tmp_path / "try").exists()
    (trial,) = (said for line, said in reader.said.items() if line.startswith("helm test"))
    assert "Phase: Succeeded" in trial, trial


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_the_pipeline_in_the_cluster_equals_one_outside(tmp_path, kafka_in_pods, pipeline_image):
    shutil.rmtree(RESULTS, ignore_errors=True)  # of a test that failed before its end
    reader = Reader(tmp_path, kafka_in_pods)
    walkthrough, cleaning_up = before_and_from(
        pages.steps(PAGE), "kubectl set env deployment/payments KAFKA=my-"
    )
    for step in walkthrough:
        reader.do(step)
    outside = Outside(tmp_path)
    stop_producing()  # whoever reads from now on finds the same
    outside.wait_until_nobody_commits()
    pipeline, cleaning_up_after_it = before_and_from(pages.steps(SPARK_PAGE), "kubectl delete job")
    for step in pipeline:
        reader.do(step)
    outside.run()
    for command, tables in TABLES.items():
        for table in tables:
            expected = rows(outside.results / command / table)
            assert rows(RESULTS / command / table) == expected, f"a Job's {command}: {table}"
            for mode in ("spark", "client"):
                assert rows(RESULTS / mode / command / table) == expected, (
                    f"spark-submit's {mode}/{command}: {table}"
                )
    for step in (*cleaning_up_after_it, *cleaning_up):
        reader.do(step)


def before_and_from(steps: Sequence[Step], line: str) -> tuple[Sequence[Step], Sequence[Step]]:
    """The steps before a command that begins like this, and those from it on."""
    (at,) = (
        number
        for number, step in enumerate(steps)
        if isinstance(step, pages.Command) and step.line.startswith(line)
    )
    return steps[:at], steps[at:]


def stop_producing() -> None:
    there = f"--namespace={install.NAMESPACE}"
    kubectl("scale", "deployment", "shop", "--replicas=0", there)
    kubectl("wait", "pod", "--selector=app=shop", "--for=delete", "--timeout=90s", there)


def connects(namespace: str, source: str, target: str) -> bool:
    """Whether a connection from a pod comes about."""
    host, _, port = target.rpartition(":")
    script = f"import socket; socket.create_connection(({host!r}, {port}), 3)"
    return succeeds("exec", "--namespace", namespace, source, "--", "python", "-c", script)


def hook_of(manifest: render.Manifest) -> str:
    """When helm makes it, if not with the others."""
    hook: str = manifest["metadata"].get("annotations", {}).get("helm.sh/hook", "")
    return hook


def expiring(namespace: str, release: str, scheme: str = "http") -> list[float]:
    """Whether each pod of a release that answers expires silent members, as its metrics have it."""
    selector = f"--selector={PROXY},app.kubernetes.io/instance={release}"
    script = (
        "import ssl, urllib.request as r; context = ssl._create_unverified_context();"
        f"print(r.urlopen('{scheme}://127.0.0.1:9080/metrics', context=context).read().decode())"
    )
    found = []
    for name in kubectl("get", "pods", f"--namespace={namespace}", "--output=name", selector).split():
        try:
            text = kubectl("exec", f"--namespace={namespace}", name, "--", "python", "-c", script)
        except ClusterError:  # it is starting or ending
            continue
        lines = [line for line in text.splitlines() if line.startswith("epochgate_fleet_expires ")]
        found += [float(line.split()[1]) for line in lines]
    return found


def page(namespace: str, source: str, token: str) -> int:
    """What a pod is answered that asks for the status page as a controller does, by the name of the page."""
    script = (
        "import http.client, ssl;"
        "c = http.client.HTTPSConnection('argo-epochgate-admin', 9080, context=ssl._create_unverified_context());"
        f"c.request('GET', '/', headers={{'Host': {PAGE_HOST!r}, 'Authorization': 'Bearer {token}'}});"
        "print(c.getresponse().status)"
    )
    return int(kubectl("exec", f"--namespace={namespace}", source, "--", "python", "-c", script))


def pods_of(namespace: str) -> set[str]:
    listing = ["get", "pods", "--namespace", namespace, "--selector", PROXY, "--output=name"]
    return {name.removeprefix("pod/") for name in kubectl(*listing).split()}


def upgrade(release: str, values: dict[str, object]) -> None:
    """Change values of the release, and wait until its pods are ready."""
    words = ["--reuse-values", "--wait", "--timeout=90s", "--values=-"]
    helm("upgrade", release, str(CHART), *words, feed=json.dumps(values))


def everything_is_owned(seen: Seen) -> bool:
    return seen.owners == dict.fromkeys(range(PARTITIONS), 1)


def make_topics(kafka: Kafka, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        made.result(30)


@contextmanager
def producing(kafka: Kafka, topics: list[str]) -> Iterator[None]:
    """Write records to each topic, around the clock and round the partitions, straight at the broker."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0})
    ended = Event()

    def write() -> None:
        number = 0
        while not ended.wait(1 / RECORDS_A_SECOND):
            for topic in topics:
                producer.produce(topic, b"record", partition=number % PARTITIONS)
            number += 1

    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        assert producer.flush(30) == 0


def written(kafka: Kafka, topic: str) -> set[tuple[int, int]]:
    """Partition and offset of every record."""
    reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "watermarks"})
    try:
        return {
            (number, offset)
            for number in range(PARTITIONS)
            for offset in range(*reader.get_watermark_offsets(TopicPartition(topic, number), 30))
        }
    finally:
        reader.close()


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 90) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s in vain until {what}"
        time.sleep(0.5)
