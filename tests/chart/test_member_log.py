"""How the chart has pods expire members by the log: never beside a pod of the release that does not write it.

Pods learn that by themselves (tests/proxy/member_log/test_writer_watch.py). helm's `lookup`, by which some upgrades are
refused, asks a server here that answers as the API server of a cluster does.
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


def writing(topic: str = LOG, *, expires: str = "false") -> dict[str, str]:
    return {"epochgate.io/member-log-topic": topic, "epochgate.io/member-log-expires": expires}


EXPIRING = writing(expires="auto")
OF_BEFORE = {"member-log/topic": LOG, "member-log/expires": "true"}
"""How builds of the main branch wrote it."""


def documents_of(objects: dict[str, Any], *arguments: str) -> list[render.Manifest]:
    with cluster.running(objects) as running:
        server = ("--dry-run=server", "--kube-apiserver", running.url)
        found = render.documents(render.ci("minimal", *server, *arguments))
    assert running.asked.count(DEPLOYMENT) == 1, "a rollout may end between two looks"
    return found


def fleet_of(documents: list[render.Manifest]) -> dict[str, Any]:
    config = render.one(documents, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]
    return yaml.safe_load(config)["fleet"]


# -- by themselves, without a look at the cluster --


@pytest.mark.parametrize(
    ("objects", "arguments"),
    [
        (NO_CLUSTER, ()),
        (NAMESPACE, ()),
        (pods(None), ("--is-upgrade",)),
        (pods(EXPIRING), ("--is-upgrade",)),
        (pods(OF_BEFORE, updated=1), ("--is-upgrade",)),
    ],
    ids=["helm template", "a new one", "pods without a log", "pods with it", "a rollout under way"],
)
def test_whatever_helm_sees_pods_learn_it_by_themselves(
    objects: dict[str, Any], arguments: tuple[str, ...]
) -> None:
    """So `helm template`, and Argo CD by it, renders what an installation or an upgrade does."""
    fleet = fleet_of(documents_of(objects, *arguments))
    assert fleet["expires"] == "auto"
    assert fleet["replica_names"] == {
        "every": "epochgate-replicas.kafka.svc.cluster.local.",
        "writing": "epochgate-log-writers.kafka.svc.cluster.local.",
    }


def selectors(documents: list[render.Manifest]) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """What the Services of all pods and of those with the log select, and the labels of pods."""
    every, writing = [
        render.one(documents, "Service", f"epochgate-{name}")["spec"] for name in ("replicas", "log-writers")
    ]
    for service in (every, writing):
        assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    template = render.one(documents, "Deployment", "epochgate")["spec"]["template"]
    return every["selector"], writing["selector"], template["metadata"]["labels"]


def test_two_services_have_all_pods_and_those_that_write_the_log() -> None:
    every, writing, labels = selectors(render.documents(render.ci("minimal")))
    assert every.items() <= writing.items() <= labels.items()
    assert set(writing) - set(every) == {"epochgate.io/member-log"}


def test_pods_learn_their_own_address() -> None:
    deployment = render.one(render.documents(render.ci("minimal")), "Deployment", "epochgate")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [
        {
            "name": "EPOCHGATE_FLEET__REPLICA_NAMES__OWN_ADDRESS",
            "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
        }
    ]


@pytest.mark.parametrize(
    "change",
    [
        "fleet.topic=members",
        "fleet.kafka.bootstrap\\.servers=other:9092",
        "upstream.bootstrap={other:9092}",
        "fleet.secretName=a,fleet.secretFiles.bootstrap\\.servers=brokers",
    ],
)
def test_pods_with_another_log_are_none_of_those_that_write_this_one(change: str) -> None:
    _, _, before = selectors(render.documents(render.ci("minimal")))
    _, writing, _ = selectors(render.documents(render.ci("minimal", "--set", change)))
    assert not writing.items() <= before.items()


def test_pods_with_another_account_are() -> None:
    _, _, before = selectors(render.documents(render.ci("minimal")))
    account = "fleet.kafka.security\\.protocol=SASL_SSL,fleet.replication=1,fleet.resumes=false"
    _, writing, _ = selectors(render.documents(render.ci("minimal", "--set", account)))
    assert writing.items() <= before.items()


def test_pods_without_a_log_are_not() -> None:
    documents = render.documents(render.ci("minimal", "--set", "fleet.enabled=false"))
    labels = render.one(documents, "Deployment", "epochgate")["spec"]["template"]["metadata"]["labels"]
    assert "epochgate.io/member-log" not in labels
    assert not [
        at for at in documents if at["metadata"]["name"] in ("epochgate-replicas", "epochgate-log-writers")
    ]


# -- when it is said --


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("objects", [NO_CLUSTER, NAMESPACE, pods(None), pods(EXPIRING)])
def test_who_says_it_gets_it(objects: dict[str, Any], said: bool) -> None:
    documents = documents_of(objects, "--set", f"fleet.expires={str(said).lower()}")
    fleet = fleet_of(documents)
    assert fleet["expires"] is said
    assert "replica_names" not in fleet
    annotations = render.one(documents, "Deployment", "epochgate")["spec"]["template"]["metadata"][
        "annotations"
    ]
    assert annotations["epochgate.io/member-log-topic"] == fleet["topic"]
    assert annotations["epochgate.io/member-log-expires"] == str(said).lower()


@pytest.mark.parametrize(
    ("expires", "said"),
    [
        ("auto", "from when every pod of this release writes this log"),
        ("true", "after its own session timeout"),
        ("false", "expire no member (`fleet.expires: false`)"),
    ],
)
def test_the_notes_say_from_when_members_are_expired(expires: str, said: str) -> None:
    notes = {
        "apiVersion": "v1",
        "kind": "Notes",
        "metadata": {"name": "shown"},
        "said": '{{ include "epochgate/templates/NOTES.txt" . | toJson }}',
    }
    objects = ("--set-json", f"extraObjects=[{json.dumps(notes)}]", "--set", f"fleet.expires={expires}")
    documents = render.documents(render.ci("minimal", *objects))
    assert said in json.loads(render.one(documents, "Notes", "shown")["said"]).replace("\n", " ")


# -- where helm can look --


@pytest.mark.parametrize("before", [EXPIRING, writing(expires="true"), OF_BEFORE])
@pytest.mark.parametrize(
    "change", ["fleet.enabled=false", "fleet.topic=members", "fleet.topic=members,fleet.expires=false"]
)
def test_pods_that_expire_members_are_not_replaced_by_pods_without_their_log(
    change: str, before: dict[str, str]
) -> None:
    with pytest.raises(render.HelmError, match=f"expire members by the log in the topic {LOG}"):
        documents_of(pods(before), "--is-upgrade", "--set", change)
    documents_of(pods(writing()), "--set", change)


def deployment(objects: dict[str, Any], *arguments: str) -> dict[str, Any]:
    return render.one(documents_of(objects, "--is-upgrade", *arguments), "Deployment", "epochgate")


@pytest.mark.parametrize("change", ["fleet.enabled=false", "fleet.topic=members"])
def test_nor_while_they_are_still_being_replaced_by_pods_that_expire_nobody(change: str) -> None:
    before, silent = pods(EXPIRING), "fleet.expires=false"
    own = deployment(before, "--set", silent)["metadata"].get("annotations")
    with pytest.raises(render.HelmError, match="expire members by the log"):
        deployment(pods(writing(), updated=2, own=own), "--set", change)
    again = deployment(pods(writing(), updated=2, own=own), "--set", silent)["metadata"].get("annotations")
    with pytest.raises(render.HelmError, match="expire members by the log"):
        deployment(pods(writing(), updated=2, own=again), "--set", change)
    deployment(pods(writing(), own=own), "--set", change)


def test_a_first_rollout_of_the_log_that_is_stuck_may_be_taken_back() -> None:
    """With `auto` none of its pods expires members, since those that do not write the log are still there."""
    own = deployment(pods(None))["metadata"].get("annotations")
    deployment(pods(EXPIRING, updated=1, own=own), "--set", "fleet.enabled=false")


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
    config = render.one(documents, "ConfigMap", "kafka-migration-config")["data"]["epochgate.yaml"]
    assert yaml.safe_load(config)["sole_process"] is False


def test_a_format_is_written_only_if_it_is_said() -> None:
    def config(*arguments: str) -> str:
        documents = render.documents(render.ci("minimal", *arguments))
        return render.one(documents, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"]

    assert "record_format" not in config(), "an older release does not know the key"
    assert "record_format: 1" in config("--set", "fleet.recordFormat=1")
