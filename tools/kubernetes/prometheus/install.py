"""Puts the operator and its Prometheus into a cluster that runs, and takes them out again."""

import json
import time
from pathlib import Path

from tools.chart.crds import PROMETHEUS_OPERATOR
from tools.kubernetes import bare, binaries, cluster, custom_resources
from tools.kubernetes.kubectl import kubectl

HERE = Path(__file__).parent
NAMESPACE = "monitoring"
IMAGE = f"docker.io/library/epochgate-prometheus:{PROMETHEUS_OPERATOR.version}"
POD = "prometheus-prometheus-0"
LABELS = {"release": "prometheus"}
"""What this Prometheus selects monitors and rules by, in all namespaces."""
_PROGRAMS = ("prometheus", "prometheus-config-reloader", "operator")
_DEFINITIONS = "example/prometheus-operator-crd"
_ROLE = "example/rbac/prometheus-operator/prometheus-operator-cluster-role.yaml"
_START_S = 120


def up() -> None:
    """Build what is missing, start the operator and have it start a Prometheus; wait until that answers.

    :raises ClusterError: no cluster is up, something can't be built, or they do not come up in time.
    :raises NoGoError: the operator's sources can't be had.
    """
    binaries.build(binaries.MONITORING)
    bare.make(IMAGE, _PROGRAMS)
    cluster.import_images([IMAGE])
    began = time.monotonic()
    print(f"== starting the Prometheus operator in the namespace {NAMESPACE}", flush=True)
    sources = PROMETHEUS_OPERATOR.folder
    custom_resources.define([sources / _DEFINITIONS])
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kubectl("apply", "--filename=-", feed=json.dumps(namespace))
    here = f"--namespace={NAMESPACE}"
    kubectl("apply", here, f"--filename={sources / _ROLE}", f"--filename={HERE / 'operator.yaml'}")
    kubectl("rollout", "status", here, "deployment/prometheus-operator", f"--timeout={_START_S}s")
    kubectl("apply", here, f"--filename={HERE / 'prometheus.yaml'}")
    kubectl("wait", here, "--for=condition=Available", "prometheus/prometheus", f"--timeout={_START_S}s")
    print(f"== ready in {time.monotonic() - began:.0f} s", flush=True)


def down() -> None:
    """Take it out; does nothing if there is nothing. The kinds stay."""
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    roles = ["prometheus-operator", "epochgate-prometheus"]
    kubectl("delete", "clusterrole,clusterrolebinding", *roles, "--ignore-not-found")
