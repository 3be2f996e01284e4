"""``python -m tools.kubernetes.prometheus``: the Prometheus operator, and a Prometheus, in the cluster that is up."""

import sys

from tools.chart.binaries import NoGoError
from tools.image.paths import ImageError
from tools.kubernetes.paths import KUBECONFIG, ClusterError
from tools.kubernetes.prometheus import install

if __name__ == "__main__":
    try:
        if not KUBECONFIG.exists():
            raise ClusterError("no cluster is up: make cluster-up")
        install.up()
    except (ClusterError, ImageError, NoGoError) as reason:
        sys.exit(f"error: {reason}")
