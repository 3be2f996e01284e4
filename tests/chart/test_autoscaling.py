"""How many pods the chart asks for when an autoscaler decides that.

helm's `lookup` asks a server here that answers as the API server of a cluster does.
"""

from typing import Any

import pytest

from tests.chart import cluster
from tools.chart import render

pytestmark = pytest.mark.usefixtures("helm")

DEPLOYMENT = "/apis/apps/v1/namespaces/kafka/deployments/epochgate"
AUTOSCALED = "--set=autoscaling.enabled=true"


def replicas(objects: dict[str, Any], *arguments: str) -> int | None:
    with cluster.running(objects) as running:
        server = f"--kube-apiserver={running.url}"
        documents = render.documents(render.ci("minimal", "--dry-run=server", server, *arguments))
    return render.one(documents, "Deployment", "epochgate")["spec"].get("replicas")


def running(number: int) -> dict[str, Any]:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "epochgate", "generation": 1},
        "spec": {"replicas": number, "template": {"metadata": {}}},
        "status": {"observedGeneration": 1, "replicas": number, "updatedReplicas": number},
    }
    return {DEPLOYMENT: deployment}


def test_an_upgrade_keeps_the_number_that_the_autoscaler_has_set():
    assert replicas(running(5), "--is-upgrade", AUTOSCALED) == 5


def test_without_an_autoscaler_the_values_decide():
    assert replicas(running(5), "--is-upgrade", "--set=replicaCount=3") == 3


def test_an_installation_leaves_the_number_to_the_autoscaler():
    assert replicas({}, AUTOSCALED) is None
