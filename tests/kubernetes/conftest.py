"""A cluster with the image and a Kafka that its pods reach, until the last test that needs it.

Everything that needs it is in one module: `--dist loadfile` gives that to one worker, and a machine has one cluster.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.prometheus import Prometheus
from support.secured import sasl_settings

from tests.kubernetes.monitoring import forwarded
from tests.skips import Need, not_here, without
from tools.chart.binaries import NoGoError
from tools.chart.binaries import binary as chart_tool
from tools.chart.render import CHART
from tools.image import packages, project
from tools.image.paths import ImageError
from tools.kafka import jars
from tools.kafka.cluster import RUN, Cluster, ExtraListener
from tools.kafka.settings import GROUP_DEFAULTS
from tools.kubernetes import binaries, cluster, custom_resources, network
from tools.kubernetes.kafka import install
from tools.kubernetes.kubectl import kubectl, succeeds
from tools.kubernetes.metrics_server import install as metrics
from tools.kubernetes.paths import KUBECONFIG, ClusterError
from tools.kubernetes.prometheus import install as monitoring

BUILD = "EPOCHGATE_KUBERNETES"
HINT = f"python -m tools.kubernetes build, or {BUILD}=build"
NAMESPACE = "epochgate-test"
NODES_LISTENER, SECURED_LISTENER = "NODES", "SECURED"


@dataclass(frozen=True)
class Kafka:
    """A broker, as this machine reaches it and as pods do, without and with authentication."""

    bootstrap: str
    for_pods: str
    secured: str


@pytest.fixture(scope="package")
def kubernetes() -> Iterator[None]:
    """A cluster of one node. One that is up already is taken, and left."""
    if reason := _why_not():
        not_here(reason)
    was_up = KUBECONFIG.exists()
    try:
        cluster.up(1)
    except (ClusterError, ImageError) as reason:
        if os.environ.get(BUILD):
            raise
        not_here(f"no cluster: {reason}")
    yield
    if not was_up:
        cluster.down()


@pytest.fixture(scope="package")
def project_image(kubernetes: None) -> str:
    """This tree's image, on the node."""
    name = project.build()
    cluster.import_images([name])
    return name


@pytest.fixture(scope="module")
def pipeline_image(kubernetes: None) -> str:
    """The image with Spark, on the node."""
    name = project.build(target="pipeline")
    cluster.import_images([name])
    return name


@pytest.fixture(scope="package")
def kafka(kubernetes: None) -> Iterator[Kafka]:
    """A real broker of this machine's, on the bridge too."""
    listeners = [
        ExtraListener(NODES_LISTENER, "PLAINTEXT", host=network.GATEWAY),
        ExtraListener(SECURED_LISTENER, "SASL_PLAINTEXT", sasl_settings(), host=network.GATEWAY),
    ]
    # So that a client's own session timeout is shorter.
    session = {"group.consumer.session.timeout.ms": GROUP_DEFAULTS["group.consumer.session.timeout.ms"]}
    broker = Cluster(RUN / f"kubernetes-{os.getpid()}", listeners=listeners, overrides=session)
    broker.save(owner_pid=os.getpid())
    try:
        with broker:
            reached = map(broker.bootstrap_of, (NODES_LISTENER, SECURED_LISTENER))
            yield Kafka(broker.bootstrap, *reached)
    except jars.KafkaUnavailableError as reason:
        without(Need.KAFKA, f"no Kafka: {reason}")
    finally:
        broker.remove()


@pytest.fixture(scope="module")
def kafka_in_pods(project_image: str) -> Iterator[dict[str, str]]:
    """Three brokers in pods; what a shell needs for the cluster."""
    try:
        install.up()
    except jars.KafkaUnavailableError as reason:
        without(Need.KAFKA, f"no Kafka: {reason}")
    folders = [chart_tool("helm").parent, binaries.BINARIES, Path(sys.executable).parent]
    programs = [*map(str, folders), os.environ["PATH"]]
    yield {"KUBECONFIG": str(KUBECONFIG), "PATH": os.pathsep.join(programs)}
    kubectl("delete", "namespace", install.NAMESPACE, "--wait=false")


@pytest.fixture(scope="package")
def namespace(kubernetes: None) -> Iterator[str]:
    """A namespace in which pods may do nothing special."""
    levels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": levels}}
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait")
    kubectl("apply", "--filename=-", feed=json.dumps(manifest))
    yield NAMESPACE
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture(scope="package")
def release(namespace: str, project_image: str, kafka: Kafka) -> str:
    """The chart, installed; every group is translated."""
    values = {
        "image": {"tag": project_image.rpartition(":")[2]},
        "replicaCount": 3,
        "upstream": {"bootstrap": [kafka.for_pods]},
        "policy": {"default": "translate"},
        "fleet": {"replication": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}},
        "tests": {"expectedType": "consumer"},
    }
    helm(
        "install",
        "epochgate",
        str(CHART),
        "--wait",
        "--timeout=90s",
        "--values=-",
        feed=json.dumps(values),
    )
    return "epochgate"


@pytest.fixture(scope="package")
def custom_kinds(kubernetes: None) -> Iterator[None]:
    """The kinds that the chart makes if it is told to, known to the cluster. Those that it knew before are left."""
    try:
        files = custom_resources.of_the_chart()
    except NoGoError as reason:
        not_here(f"no definitions of custom kinds: {reason}")
    before = custom_resources.known()
    custom_resources.define(files)
    yield
    custom_resources.forget(custom_resources.known() - before)


@pytest.fixture(scope="module")
def metrics_server(kubernetes: None) -> Iterator[None]:
    """What tells autoscalers how busy pods are."""
    if not os.environ.get(BUILD) and binaries.missing(binaries.AUTOSCALING):
        not_here(f"the metrics server is not built ({HINT})")
    metrics.up()
    yield
    metrics.down()


@pytest.fixture(scope="package")
def prometheus(custom_kinds: None) -> Iterator[Prometheus]:
    """The Prometheus operator and its Prometheus. Those that are there already are taken, and left."""
    if not os.environ.get(BUILD) and binaries.missing(binaries.MONITORING):
        not_here(f"the Prometheus operator is not built ({HINT})")
    was_there = succeeds("get", "namespace", monitoring.NAMESPACE)
    monitoring.up()
    with forwarded() as prometheus:
        yield prometheus
    if not was_there:
        monitoring.down()


def helm(*words: str, feed: str | None = None) -> str:
    """Run helm on the cluster."""
    done = run_helm(*words, feed=feed)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_helm(*words: str, feed: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm on the cluster, whatever comes of it."""
    command = [str(chart_tool("helm")), f"--kubeconfig={KUBECONFIG}", f"--namespace={NAMESPACE}", *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, input=feed)


def _why_not() -> str | None:
    """Say why there can be no cluster, in the order in which a person would mend it."""
    if os.geteuid() != 0:
        return "a Kubernetes needs root"
    if not os.environ.get(BUILD):
        if modules := binaries.missing():
            return f"Kubernetes is not built: {', '.join(modules)} ({HINT})"
        if wanted := packages.missing(cluster.PACKAGES | packages.NEEDED):
            return f"not installed: {', '.join(wanted)} ({HINT})"
    if subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], check=False).returncode:
        return "this root may make no namespaces"
    try:
        chart_tool("helm")
    except NoGoError as reason:
        return f"no helm: {reason}"
    return None
