"""The preflight as a Job: what it needs is there when it runs, and its command does what the values say."""

import json
import re

import pytest

from tests.chart.pod import Pod, empty
from tools.chart import render
from tools.chart.binaries import ROOT
from tools.kafka.ports import free_port_block, free_ports

pytestmark = pytest.mark.usefixtures("helm")

PODS = ROOT / "build" / "chart" / "preflight"
ON = ("--set-json", 'upstream.bootstrap=["kafka:9092"]', "--set", "preflight.enabled=true")
HOOK = (*ON, "--set", "preflight.hook=true")
HOOK_KEY = "helm.sh/hook"


def rendered(*arguments: str) -> list[render.Manifest]:
    return render.documents(
        render.template("--skip-tests", "--set", "installCheck.enabled=false", *arguments)
    )


def the_job(manifests: list[render.Manifest]) -> render.Manifest:
    (job,) = [at for at in manifests if at["kind"] == "Job"]
    return job


def arguments(manifests: list[render.Manifest]) -> list[str]:
    words: list[str] = the_job(manifests)["spec"]["template"]["spec"]["containers"][0]["args"]
    return words


def test_without_it_there_is_no_job():
    assert not [at for at in rendered(*ON, "--set", "preflight.enabled=false") if at["kind"] == "Job"]


def test_a_hook_runs_before_anything_of_the_release_is_there():
    """helm makes the release's ConfigMaps and service account after these hooks, or has not changed them yet."""
    manifests = rendered(*HOOK)
    job = the_job(manifests)
    hooks = [at for at in manifests if HOOK_KEY in at["metadata"].get("annotations", {})]
    weights = {at["kind"]: int(at["metadata"]["annotations"]["helm.sh/hook-weight"]) for at in hooks}
    assert weights["ConfigMap"] < weights["Job"]
    assert {at["metadata"]["annotations"][HOOK_KEY] for at in hooks} == {"pre-install,pre-upgrade"}
    spec = job["spec"]["template"]["spec"]
    read = {at["configMap"]["name"] for at in spec["volumes"] if "configMap" in at}
    assert read == {at["metadata"]["name"] for at in hooks if at["kind"] == "ConfigMap"}
    assert "serviceAccountName" not in spec
    (own,) = [at["data"] for at in hooks if at["kind"] == "ConfigMap"]
    release = {
        key: text
        for at in manifests
        if at["kind"] == "ConfigMap" and at not in hooks
        for key, text in at["data"].items()
    }
    assert own == release
    assert job["metadata"]["annotations"]["helm.sh/hook-output-log-policy"] == "hook-succeeded,hook-failed"
    assert job["spec"]["ttlSecondsAfterFinished"] > 0


def test_with_a_hook_a_policy_of_ones_own_is_read_where_it_is():
    manifests = rendered(*HOOK, "--set", "policy.existingConfigMap=mine")
    volumes = {at["name"]: at for at in the_job(manifests)["spec"]["template"]["spec"]["volumes"]}
    assert volumes["policy"]["configMap"]["name"] == "mine"
    hooks = [at for at in manifests if HOOK_KEY in at["metadata"].get("annotations", {})]
    assert [set(at["data"]) for at in hooks if at["kind"] == "ConfigMap"] == [{"epochgate.yaml"}]


@pytest.mark.parametrize(
    "change",
    [
        "image.tag=newer",
        "policy.default=translate",
        "config.limits.in_flight_requests=64",
        "preflight.failOn=never",
    ],
)
def test_an_upgrade_that_changes_something_makes_another_job(change):
    """A Job can't be changed: with the same name the upgrade would fail."""
    before = the_job(rendered(*ON))
    assert the_job(rendered(*ON)) == before
    after = the_job(rendered(*ON, "--set", change))
    assert after["metadata"]["name"] != before["metadata"]["name"]


def test_no_name_is_too_long():
    long = "a" * 60
    for options in (ON, HOOK):
        job = the_job(rendered(*options, "--set", f"fullnameOverride={long}"))
        assert len(job["metadata"]["name"]) <= 63


def test_pods_are_asked_where_there_are_some():
    where = "epochgate-replicas.kafka.svc.cluster.local:9080"
    ask = ("--set", "preflight.askPods=true")
    assert "--replicas" not in arguments(rendered(*ON))
    assert arguments(rendered(*ON, *ask))[-2:] == ["--replicas", where]
    assert "--replicas" not in arguments(rendered(*HOOK, *ask))  # there is no pod before the installation
    assert arguments(rendered(*HOOK, *ask, "--is-upgrade"))[-2:] == ["--replicas", where]


def test_pods_ask_each_other_at_a_name_that_has_all_their_addresses():
    manifests = rendered(*ON, "--set", "preflight.askPods=true")
    service = render.one(manifests, "Service", "epochgate-replicas")["spec"]
    pods = render.one(manifests, "Deployment", "epochgate")["spec"]["template"]["metadata"]["labels"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    assert service["selector"].items() <= pods.items()
    config = render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    assert "replicas: epochgate-replicas.kafka.svc.cluster.local:9080" in config


def test_the_network_policy_lets_it_ask_the_pods():
    options = ("--set", "networkPolicy.enabled=true,preflight.askPods=true")
    manifests = rendered(*ON, *options)
    labels = the_job(manifests)["spec"]["template"]["metadata"]["labels"]
    policy = render.one(manifests, "NetworkPolicy", "epochgate")["spec"]
    assert (
        policy["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "proxy"
    )  # not what the Job may reach
    allowed = [
        rule
        for rule in policy["ingress"]
        for peer in rule.get("from", [])
        if peer["podSelector"]["matchLabels"].items() <= labels.items()
    ]
    assert [[port["port"] for port in rule["ports"]] for rule in allowed] == [[9080]]


def test_what_is_accepted_and_the_release_are_told_to_the_pods_too():
    options = ("--set", "preflight.accept={racks,acls},preflight.kafkaVersion=4.1.0")
    config = render.one(rendered(*ON, *options), "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    assert "preflight:\n  accept:\n  - racks\n  - acls\n  kafka_version: 4.1.0\n" in config


def test_the_values_on_the_page_are_good(tmp_path):
    page = (ROOT / "docs" / "how-to" / "preflight.md").read_text()
    (values,) = [
        one for one in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "failOn" in one
    ]
    (tmp_path / "values.yaml").write_text(values)
    job = the_job(rendered(*ON, "--values", str(tmp_path / "values.yaml")))
    assert job["metadata"]["name"] == "epochgate-preflight"


@pytest.mark.kafka
@pytest.mark.parametrize("hook", ["true", "false"])
def test_the_command_of_the_job_fails_by_what_it_finds(kafka, image, hook):
    port, admin = free_ports(2)
    values = (
        *("--set-json", f"upstream.bootstrap={json.dumps(kafka.bootstrap.split(','))}"),
        *(
            "--set",
            f"preflight.enabled=true,preflight.hook={hook},fleet.replication=1,policy.default=translate",
        ),
        *("--set", f"listeners.kafka.port={port},admin.port={admin}"),
        *("--set-json", f'listeners.kafka.nodes={{"7-9": {free_port_block(3)}}}'),
    )
    # The broker's id is 1, and the listener has ports for 7 to 9.
    codes = {}
    for fail_on in ("found", "never"):
        manifests = rendered(*values, "--set", f"preflight.failOn={fail_on}")
        pod = Pod(manifests, the_job(manifests), image, empty(PODS / f"{hook}-{fail_on}"))
        done = pod.run()
        codes[fail_on] = done.returncode
        assert "hidden_nodes" in done.stdout, done.stdout + done.stderr
        assert done.stderr == ""
    assert codes == {"found": 3, "never": 0}
    accepting = rendered(
        *values, "--set", "preflight.accept={hidden_nodes}", "--set", "preflight.failOn=found"
    )
    said = Pod(accepting, the_job(accepting), image, empty(PODS / f"{hook}-accepted")).run().stdout
    assert "hidden_nodes" in said
    assert "accepted" in said
