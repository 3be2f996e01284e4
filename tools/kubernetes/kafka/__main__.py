"""``python -m tools.kubernetes.kafka``: three brokers in the cluster that is up."""

import sys

from tools.image.paths import ImageError
from tools.kafka.jars import KafkaUnavailableError
from tools.kubernetes.kafka import install
from tools.kubernetes.paths import KUBECONFIG, ClusterError

if __name__ == "__main__":
    try:
        if not KUBECONFIG.exists():
            raise ClusterError("no cluster is up: make cluster-up")
        install.up()
    except (ClusterError, ImageError, KafkaUnavailableError) as reason:
        sys.exit(f"error: {reason}")
