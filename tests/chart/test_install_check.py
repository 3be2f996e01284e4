"""The check before an installation: it needs nothing of the release, and says what is missing."""

import json

import pytest

from proxy.runtime.exit_codes import ExitCode
from tests.chart.pod import Pod, empty
from tools.chart import render
from tools.chart.binaries import ROOT

pytestmark = pytest.mark.usefixtures("helm")

PODS = ROOT / "build" / "chart" / "install-check"
BROKER = ("--set-json", 'upstream.bootstrap=["kafka:9092"]')
HOOK = "helm.sh/hook"


def rendered(*arguments: str) -> tuple[list[render.Manifest], render.Manifest]:
    manifests = render.documents(render.template("--skip-tests", *arguments))
    (job,) = [at for at in manifests if at["kind"] == "Job"]
    return manifests, job


def test_it_runs_before_an_installation_and_before_a_preflight():
    manifests = render.documents(
        render.template("--skip-tests", *BROKER, "--set", "preflight.enabled=true,preflight.hook=true")
    )
    hooks = [at for at in manifests if HOOK in at["metadata"].get("annotations", {})]
    order = sorted(hooks, key=lambda at: int(at["metadata"]["annotations"]["helm.sh/hook-weight"]))
    assert [(at["kind"], at["metadata"]["name"]) for at in order] == [
        ("ConfigMap", "epochgate-install-check"),
        ("Job", "epochgate-install-check"),
        ("ConfigMap", "epochgate-preflight"),
        ("Job", "epochgate-preflight"),
    ]
    assert (
        order[0]["metadata"]["annotations"][HOOK]
        == order[1]["metadata"]["annotations"][HOOK]
        == "pre-install"
    )


def test_it_needs_nothing_of_the_release():
    manifests, job = rendered(*BROKER)
    spec = job["spec"]["template"]["spec"]
    assert "serviceAccountName" not in spec
    ours = render.one(manifests, "ConfigMap", "epochgate-install-check")
    assert HOOK in ours["metadata"]["annotations"]
    assert [at["configMap"]["name"] for at in spec["volumes"] if "configMap" in at] == [
        "epochgate-install-check"
    ]
    assert ours["data"] == {
        "epochgate.yaml": render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    }


def test_it_does_not_wait_for_a_secret_that_is_missing():
    manifests = render.documents(render.ci("fleet", "--skip-tests"))
    (job,) = [at for at in manifests if at["kind"] == "Job"]
    spec = job["spec"]["template"]["spec"]
    assert all(at["secret"]["optional"] for at in spec["volumes"] if "secret" in at)
    variables = [at["valueFrom"]["secretKeyRef"] for at in spec["containers"][0]["env"] if "valueFrom" in at]
    assert variables
    assert all(one["optional"] for one in variables)


def test_it_may_be_left_out():
    manifests = render.documents(
        render.template("--skip-tests", *BROKER, "--set", "installCheck.enabled=false")
    )
    assert not [at for at in manifests if at["kind"] == "Job"]


@pytest.mark.kafka
def test_its_command_says_what_is_missing(kafka, image):
    brokers = ("--set-json", f"upstream.bootstrap={json.dumps(kafka.bootstrap.split(','))}")
    manifests, job = rendered(*brokers)
    done = Pod(manifests, job, image, empty(PODS / "good")).run()
    assert done.returncode == ExitCode.SUCCESS, done.stderr
    manifests, job = rendered(*brokers, "--set", "fleet.kafka.security\\.protocol=SASL_PLAINTEXT")
    done = Pod(manifests, job, image, empty(PODS / "bad")).run()
    assert done.returncode == ExitCode.PROBLEM_FOUND
    assert done.stderr.splitlines()[0].startswith("error: the brokers require PLAINTEXT at ")
