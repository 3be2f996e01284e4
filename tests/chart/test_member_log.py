"""When the chart lets pods expire members by the log: never beside a pod of the release that does not write it.

helm's `lookup` asks a server here that answers as the API server of a cluster does.
"""

import json
from typing import Any

import pytest
import yaml

from tests.chart import cluster
from tools.chart import render

pytestmark = pytest.mark.usefixtures("helm")

LOG = "__epochgate_members"
DEPLOYMENT = "/apis/apps/v1/namespaces/kafka/deployments/epochgate"
NAMESPACE = {
    "/api/v1/namespaces/kafka/configmaps/kube-root-ca.crt": {"kind": "ConfigMap", "apiVersion": "v1"}
}
NO_NAMESPACE_YET = {"/api/v1/namespaces/kube-system": {"kind": "Namespace", "apiVersion": "v1"}}
NO_CLUSTER: dict[str, Any] = {}


def pods(
    annotations: dict[str, str] | None,
    *,
    updated: int = 3,
    generation: int = 7,
    own: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A Deployment with three pods; it is rolled out if all are updated, in its generation 7. ``own``: annotations."""
    template = {} if annotations is None else {"annotations": annotations}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "epochgate", "generation": generation, "annotations": own or {}},
        "spec": {"template": {"metadata": template}},
        "status": {"observedGeneration": 7, "replicas": 3, "updatedReplicas": updated},
    }
    return {DEPLOYMENT: deployment, **NAMESPACE}


def writing(topic: str = LOG, *, expires: bool = False) -> dict[str, str]:
    return {"member-log/topic": topic, "member-log/expires": str(expires).lower()}


def rendered(objects: dict[str, Any], *arguments: str) -> tuple[bool, str]:
    """Whether the pods expire members, and what the notes say."""
    notes = {
        "apiVersion": "v1",
        "kind": "Notes",
        "metadata": {"name": "shown"},
        "said": '{{ include "epochgate/templates/NOTES.txt" . | toJson }}',
    }
    with cluster.running(objects) as running:
        documents = render.documents(
            render.ci(
                "minimal",
                "--dry-run=server",
                "--kube-apiserver",
                running.url,
                "--set-json",
                f"extraObjects=[{json.dumps(notes)}]",
                *arguments,
            )
        )
    config = yaml.safe_load(render.one(documents, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"])
    deployment = render.one(documents, "Deployment", "epochgate")
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    expires = config["fleet"]["expires"]
    assert annotations["member-log/topic"] == config["fleet"]["topic"]
    assert annotations["member-log/expires"] == str(expires).lower()
    assert running.asked.count(DEPLOYMENT) == 1, "a rollout may end between two looks"
    return expires, json.loads(render.one(documents, "Notes", "shown")["said"])


SAFE = {
    "a new installation": (NAMESPACE, ()),
    "a new installation that makes its namespace": (NO_NAMESPACE_YET, ()),
    "all pods write the log": (pods(writing()), ("--is-upgrade",)),
    "they expire by it already": (pods(writing(expires=True)), ("--is-upgrade",)),
    "they do, and the rollout of that has not ended": (
        pods(writing(expires=True), updated=1),
        ("--is-upgrade",),
    ),
}

UNSAFE = {
    "helm template": (NO_CLUSTER, (), "It could not be seen whether"),
    "an upgrade that finds no Deployment of its name": (NAMESPACE, ("--is-upgrade",), "It could not be seen"),
    "pods of a chart without a log": (pods(None), ("--is-upgrade",), "same `helm upgrade` once more"),
    "pods with other annotations": (
        pods({"checksum/config": "a"}),
        ("--is-upgrade",),
        "do not write this log",
    ),
    "pods that an installation finds": (pods(None), (), "do not write this log"),
    "pods that write another log": (pods(writing("members")), ("--is-upgrade",), "do not write this log"),
    "a rollout that has not ended": (
        pods(writing(), updated=2),
        ("--is-upgrade",),
        "The rollout before had not ended",
    ),
    "a rollout that has not begun": (
        pods(writing(), generation=8),
        ("--is-upgrade",),
        "The rollout before had not ended",
    ),
}


@pytest.mark.parametrize("case", SAFE)
def test_members_are_expired_where_all_pods_write_the_log(case: str) -> None:
    objects, arguments = SAFE[case]
    expires, notes = rendered(objects, *arguments)
    assert expires
    assert "after its own session timeout" in notes
    assert "NOTE: the pods write" not in notes


@pytest.mark.parametrize("case", UNSAFE)
def test_nobody_is_expired_where_a_pod_may_not_write_the_log(case: str) -> None:
    objects, arguments, reason = UNSAFE[case]
    expires, notes = rendered(objects, *arguments)
    assert not expires
    assert "expire nobody yet" in notes
    assert reason in notes


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("objects", [NO_CLUSTER, NAMESPACE, pods(None), pods(writing(expires=True))])
def test_who_says_it_gets_it(objects: dict[str, Any], said: bool) -> None:
    expires, _notes = rendered(objects, "--set", f"fleet.expires={str(said).lower()}")
    assert expires is said


@pytest.mark.parametrize(
    "change", ["fleet.enabled=false", "fleet.topic=members", "fleet.topic=members,fleet.expires=false"]
)
def test_pods_that_expire_members_are_not_replaced_by_pods_without_their_log(change: str) -> None:
    with pytest.raises(render.HelmError, match=f"expire members by the log in the topic {LOG}"):
        rendered(pods(writing(expires=True)), "--is-upgrade", "--set", change)
    with cluster.running(pods(writing())) as running:
        render.ci("minimal", "--dry-run=server", "--kube-apiserver", running.url, "--set", change)


def deployment(objects: dict[str, Any], *arguments: str) -> dict[str, Any]:
    with cluster.running(objects) as running:
        server = ("--is-upgrade", "--dry-run=server", "--kube-apiserver", running.url)
        return render.one(
            render.documents(render.ci("minimal", *server, *arguments)), "Deployment", "epochgate"
        )


@pytest.mark.parametrize("change", ["fleet.enabled=false", "fleet.topic=members"])
def test_nor_while_they_are_still_being_replaced_by_pods_that_expire_nobody(change: str) -> None:
    before, silent = pods(writing(expires=True)), "fleet.expires=false"
    own = deployment(before, "--set", silent)["metadata"].get("annotations")
    with pytest.raises(render.HelmError, match="expire members by the log"):
        deployment(pods(writing(), updated=2, own=own), "--set", change)
    again = deployment(pods(writing(), updated=2, own=own), "--set", silent)["metadata"].get("annotations")
    with pytest.raises(render.HelmError, match="expire members by the log"):
        deployment(pods(writing(), updated=2, own=again), "--set", change)
    deployment(pods(writing(), own=own), "--set", change)


def test_a_first_rollout_of_the_log_that_is_stuck_may_be_taken_back() -> None:
    own = deployment(pods(None))["metadata"].get("annotations")
    deployment(pods(writing(), updated=1, own=own), "--set", "fleet.enabled=false")


def test_a_plaintext_cluster_needs_no_account() -> None:
    assert account() == {"bootstrap.servers": "kafka-bootstrap.kafka:9092"}


def test_the_log_is_reached_with_the_tls_of_the_proxy() -> None:
    tls = ("--set", "upstream.tls.enabled=true,upstream.tls.ca.secretName=ca")
    found = account(*tls)
    assert (found["security.protocol"], found["ssl.ca.location"]) == (
        "SSL",
        "/etc/epochgate/tls/upstream-ca/ca.crt",
    )
    assert (
        account(*tls, "--set", "fleet.kafka.security\\.protocol=SASL_SSL")["security.protocol"] == "SASL_SSL"
    )
    assert account(*tls, "--set", "fleet.kafka.bootstrap\\.servers=other:9092") == {
        "bootstrap.servers": "other:9092"
    }


def account(*arguments: str) -> dict[str, Any]:
    documents = render.documents(render.ci("minimal", *arguments))
    config = render.one(documents, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    return yaml.safe_load(config)["fleet"]["kafka"]


def test_without_the_log_no_pod_counts_as_the_only_process() -> None:
    documents = render.documents(render.ci("single", "--set", "fleet.enabled=false"))
    (config,) = [at["data"]["epochgate.yaml"] for at in documents if "epochgate.yaml" in at.get("data", {})]
    assert yaml.safe_load(config)["sole_process"] is False


def test_a_format_is_written_only_if_it_is_said() -> None:
    def config(*arguments: str) -> str:
        documents = render.documents(render.ci("minimal", *arguments))
        return render.one(documents, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]

    assert "record_format" not in config(), "an older release does not know the key"
    assert "record_format: 1" in config("--set", "fleet.recordFormat=1")
