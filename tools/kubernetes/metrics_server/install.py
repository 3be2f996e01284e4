"""Puts the metrics server into a cluster that runs, and takes it out again."""

import time
from pathlib import Path

from tools.kubernetes import bare, binaries, cluster
from tools.kubernetes.kubectl import kubectl

MANIFEST = Path(__file__).with_name("server.yaml")
IMAGE = "docker.io/library/epochgate-metrics-server:v0.8.0"
_API = "apiservice/v1beta1.metrics.k8s.io"
_START_S = 120


def up() -> None:
    """Build what is missing, start the server, and wait until the API server passes questions on to it.

    :raises ClusterError: no cluster is up, it can't be built, or it does not come up in time.
    """
    binaries.build(binaries.AUTOSCALING)
    bare.make(IMAGE, ["metrics-server"])
    cluster.import_images([IMAGE])
    began = time.monotonic()
    print("== starting the metrics server in the namespace kube-system", flush=True)
    kubectl("apply", f"--filename={MANIFEST}")
    kubectl("wait", _API, "--for=condition=Available", f"--timeout={_START_S}s")
    print(f"== ready in {time.monotonic() - began:.0f} s", flush=True)


def down() -> None:
    """Take it out; does nothing if there is nothing."""
    kubectl("delete", "--ignore-not-found", f"--filename={MANIFEST}")
