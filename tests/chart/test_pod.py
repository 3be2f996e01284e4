"""What the chart starts works: the container is started as its manifest says, and a group goes through it."""

import functools
import json
import re
import shlex
import signal
import socket
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator

import pytest
import yaml
from support.waiting import eventually

from proxy.reload.config_plan import Kind, effects, reloaded_keys
from tests.chart.pod import Pod, empty
from tests.chart.test_image import health_check
from tools.chart import render
from tools.chart.binaries import ROOT
from tools.kafka.ports import free_port_block, free_ports

pytestmark = pytest.mark.usefixtures("helm")

PODS = ROOT / "build" / "chart" / "pods"
END_S = 8
"""What ending takes besides the drain: less than terminationGracePeriodSeconds has for it."""


@pytest.fixture(params=render.variants())
def manifests(request):
    return request.param, render.documents(render.ci(request.param))


def deployment(manifests):
    """The one of the proxies; an exporter has another."""
    (found,) = [
        at
        for at in manifests
        if at["kind"] == "Deployment" and at["metadata"]["labels"]["app.kubernetes.io/component"] == "proxy"
    ]
    return found


def config(manifests):
    """The configuration of the proxies; an exporter has another."""
    (found,) = [
        at["data"]["epochgate.yaml"]
        for at in manifests
        if "epochgate.yaml" in at.get("data", {})
        and at["metadata"]["labels"]["app.kubernetes.io/component"] == "proxy"
    ]
    return yaml.safe_load(found)


def test_the_configuration_is_good(manifests, image):
    variant, documents = manifests
    pod = Pod(documents, deployment(documents), image, empty(PODS / f"check-{variant}"))
    file = pod.container["args"][-1]
    checked = pod.run("config", "check", file)
    if variant == "policy-set":  # the ConfigMaps are somebody else's, and not there yet
        assert checked.returncode == 2
        assert "manifest.json" in checked.stderr
        return
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.splitlines()[0].endswith("epochgate.yaml: good")


def test_services_lead_to_the_ports_that_clients_are_told(manifests):
    _variant, documents = manifests
    pods = {
        at["name"]: at["containerPort"]
        for at in deployment(documents)["spec"]["template"]["spec"]["containers"][0]["ports"]
    }
    services = [
        port
        for at in documents
        if at["kind"] == "Service" and at["metadata"]["labels"]["app.kubernetes.io/component"] != "exporter"
        for port in at["spec"]["ports"]
    ]
    assert {port["port"]: pods[port["targetPort"]] for port in services} == {
        number: number for number in pods.values()
    }
    told = {listener["port"] for listener in config(documents)["listeners"]} | {
        first + number
        for listener in config(documents)["listeners"]
        for ids, first in listener.get("nodes", {}).items()
        for number in range(span(ids))
    }
    assert told | {config(documents)["admin"]["port"]} == set(pods.values())


def span(ids: str) -> int:
    low, _, high = str(ids).partition("-")
    return int(high or low) - int(low) + 1


def test_there_is_time_to_drain(manifests):
    _variant, documents = manifests
    spec = deployment(documents)["spec"]["template"]["spec"]
    hook = (
        spec["containers"][0]
        .get("lifecycle", {})
        .get("preStop", {})
        .get("exec", {})
        .get("command", ["sleep", "0"])
    )
    needed = int(hook[1]) + config(documents)["drain"]["grace_s"] + END_S
    assert spec["terminationGracePeriodSeconds"] >= needed


RELOADED = (
    "policy.default=translate",
    "config.limits.idle_timeout_s=5",
    "config.upstream.connect_timeout_s=5",
    "listeners.kafka.advertisedHost=elsewhere.example",
    "log.level=debug",
)
REPLACED = (
    "workers=2",
    "upstream.bootstrap={other:9092}",  # of the member log too, which a label names
    "fleet.topic=other",
    "fleet.partitions=8",
    "fleet.kafka.client\\.id=other",
    "config.visibility.groups=5",
    "listeners.kafka.port=9093",
    "listeners.kafka.nodes.0-9=9200",
    "drain.graceSeconds=21",  # terminationGracePeriodSeconds follows from it
    "fleet.enabled=false",
)


def pod_template(*values: str) -> dict:
    sets = [word for one in ("upstream.bootstrap={kafka:9092}", *values) for word in ("--set", one)]
    return deployment(render.documents(render.template(*sets)))["spec"]["template"]


@pytest.mark.parametrize("value", RELOADED)
def test_pods_are_not_replaced_for_what_they_reload(value):
    assert pod_template(value) == pod_template()


@pytest.mark.parametrize("value", REPLACED)
def test_pods_are_replaced_for_what_needs_a_restart(value):
    assert pod_template(value) != pod_template()


@pytest.mark.parametrize("value", RELOADED[1:])
def test_pods_are_replaced_for_every_change_of_the_configuration_where_that_is_chosen(value):
    assert pod_template(value, "reload=false") != pod_template("reload=false")


@pytest.mark.parametrize(
    ("value", "is_replaced"),
    [
        ("identity.allow={a}", False),
        ("identity.account.username=other", False),
        ("config.identity.max_lifetime_ms=60000", False),
        ("config.identity.principals=5", True),
        ("config.limits.in_flight_requests=64", False),
        ("config.limits.session_timeout_min_ms=1000", True),
    ],
)
def test_of_one_section_some_keys_are_reloaded(value, is_replaced):
    def of_pods(*values: str) -> dict:
        return deployment(render.documents(render.ci("client-certificates", *values)))["spec"]["template"]

    assert (of_pods("--set", value) != of_pods()) is is_replaced


def test_the_chart_reloads_what_the_proxy_reloads():
    text = (render.CHART / "templates" / "_config.tpl").read_text(encoding="utf-8")

    def words(name: str) -> list[str]:
        found = re.search(rf'define "epochgate.{name}" -}}}}\n(.*)\n', text)
        assert found is not None
        return sorted(found[1].split())

    assert words("reloadedKeys") == sorted(reloaded_keys())
    restarts = (key for key, (kind, _) in effects().items() if kind is Kind.RESTART)
    below = [key for key in restarts if any(key.startswith(f"{name}.") for name in reloaded_keys())]
    assert [f"limits.{word}" for word in words("restartLimits")] == sorted(below)


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def container(request, kafka, image) -> Iterator["Container"]:
    started = Container(kafka, image, request.param)
    yield started
    started.end()


class Container:
    """The chart's release in front of a real Kafka, with ports that are free here, on loopback."""

    def __init__(self, kafka, image, workers):
        self.image = image
        self.group = f"trial-{uuid.uuid4().hex[:8]}"
        bootstrap, admin = free_ports(2)
        values = {
            "upstream": {"bootstrap": kafka.bootstrap.split(",")},
            "admin": {"port": admin},
            "workers": workers,
            "fleet": {"topic": f"members-{self.group}", "replication": 1, "expires": True},
            "listeners": {
                "kafka": {
                    "port": bootstrap,
                    "advertisedHost": "127.0.0.1",
                    "nodes": {"0-3": free_port_block(4)},
                }
            },
            "drain": {"graceSeconds": 10, "preStopSeconds": 1},
            "extraEnv": [
                {"name": "EPOCHGATE_LISTENERS__0__BIND", "value": "127.0.0.1"},
                {"name": "EPOCHGATE_ADMIN__BIND", "value": "127.0.0.1"},
            ],
            "tests": {"topic": self.group, "group": self.group},
        }
        arguments = [
            word for key, value in values.items() for word in ("--set-json", f"{key}={json.dumps(value)}")
        ]
        self.manifests = render.documents(render.template(*arguments))
        self.pod = Pod(self.manifests, deployment(self.manifests), image, empty(PODS / "proxy"))
        self.log = PODS / "proxy.log"
        self.log.unlink(missing_ok=True)
        self.process = self.pod.start(self.log)
        eventually(self.ready, what="the readiness probe is content", timeout_s=60)

    def ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return self.pod.probe("readinessProbe") == 200

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def metric(self, name: str) -> float:
        url = f"http://127.0.0.1:{self.pod.port('admin')}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", answer.read().decode(), re.MULTILINE)
        return sum(map(float, found))

    def trial(self, **environment: str) -> list[str]:
        """`helm test`: what the pod of the Job with the hook says."""
        hook = render.one(self.manifests, "Job", "epochgate-test")
        for variable in hook["spec"]["template"]["spec"]["containers"][0]["env"]:
            variable["value"] = environment.get(variable["name"], variable["value"])
        pod = Pod(self.manifests, hook, self.image, empty(PODS / "trial"))
        done = pod.run()
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()


@pytest.mark.kafka
def test_a_group_goes_through_and_the_policy_changes_without_a_restart(container):
    pod = container.pod
    assert [pod.probe(kind) for kind in ("startupProbe", "livenessProbe")] == [200, 200]
    health = [word.replace("'9080'", f"'{pod.port('admin')}'") for word in health_check()]
    assert pod.execute(health) == 0

    assert "ok: the broker shows the group as classic" in container.trial(EXPECTED_TYPE="classic")

    pod.update(
        "epochgate-policy", {"policy.yaml": f"rules: [{{group: {container.group}, mode: translate}}]\n"}
    )
    eventually(
        lambda: container.metric("epochgate_policy_reloads_total") == 1,
        what="the policy is read again",
    )
    assert container.metric("epochgate_policy_is_current") >= 1
    assert "ok: the broker shows the group as consumer" in container.trial(EXPECTED_TYPE="consumer")
    assert container.metric("epochgate_fleet_log_away") == 0
    assert container.metric('epochgate_fleet_records_total{[^}]*"served"[^}]*}') > 0
    assert container.process.poll() is None


@pytest.mark.kafka
def test_it_ends_within_its_grace_period_while_a_client_is_connected(container):
    pod = container.pod
    with socket.create_connection(("127.0.0.1", pod.port("kafka"))):
        assert pod.execute(pod.container["lifecycle"]["preStop"]["exec"]["command"]) == 0
        assert pod.probe("livenessProbe") == 200
        container.process.send_signal(signal.SIGTERM)
        left = pod.spec["terminationGracePeriodSeconds"] - 1
        assert container.process.wait(timeout=left) == 0, container.log.read_text()


@pytest.mark.parametrize("variant", ["pipeline", "journal-topic"])
def test_the_cron_jobs_call_commands_that_are_there(variant, image):
    jobs = [at for at in render.documents(render.ci(variant)) if at["kind"] == "CronJob"]
    assert jobs
    for job in jobs:
        container = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
        script, _name, *extra = container["args"]
        assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
        for line in script.splitlines():
            if line.startswith("epochgate "):
                words = shlex.split(line.split("||")[0], comments=True)
                options = [
                    word for word in [*words, *(extra if "$@" in words else [])] if word.startswith("--")
                ]
                names = [word for word in words[1:3] if not word.startswith("--")]
                known = help_of(image, *names)
                assert not [option for option in options if option not in known], line


@functools.cache
def help_of(image, *names: str) -> set[str]:
    """The options of a command of the image."""
    command = [f"{image.prefix}/bin/epochgate", *names, "--help"]
    done = subprocess.run(
        command,
        env=image.environment(COLUMNS="200", NO_COLOR="1"),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(re.findall(r"--[a-z][a-z-]+", done.stdout))
