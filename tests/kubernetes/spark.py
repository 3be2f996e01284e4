"""Runs the pipeline outside the cluster on what the cluster's Jobs and drivers read, and compares the results."""

import base64
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from tools.kubernetes.control import DNS
from tools.kubernetes.kafka.install import NAMESPACE
from tools.kubernetes.kubectl import kubectl
from tools.kubernetes.node import Node

PAGE = Path("docs/tutorial/kubernetes-pipeline.md")
RESULTS = Path("/var/tmp/epochgate-reports")  # noqa: S108 - a folder of the page, which makes it
"""Where the page has its volume."""
BOOTSTRAP = "my-cluster-kafka-bootstrap.kafka.svc:9093"
TOPIC = "epochgate-journal"
RUN_S = 900.0
TABLES = {
    "readiness": ("groups", "members", "offsets", "verdicts", "waves", "quarantine"),
    "progress": ("transitions", "pauses", "stuck", "windows", "convergences", "quarantine"),
    "audit": ("overlaps", "gaps", "intervals", "losses", "processes", "clocks", "quarantine"),
}


class Outside:
    """A person's machine: the pipeline on `local[2]`, with the names and addresses that pods know."""

    def __init__(self, folder: Path) -> None:
        self.results = folder / "results"
        self._folder = folder
        self._resolver = folder / "resolv.conf"
        self._resolver.write_text(
            f"nameserver {DNS}\nsearch svc.cluster.local cluster.local\noptions ndots:5\n"
        )
        password, ca = folder / "password", folder / "ca.crt"
        password.write_bytes(secret("epochgate-pipeline", "password"))
        ca.write_bytes(secret("my-cluster-cluster-ca-cert", "ca.crt"))
        self._source = [
            f"--from={BOOTSTRAP}",
            "--kafka-conf=security.protocol=SASL_SSL",
            "--kafka-conf=sasl.mechanisms=SCRAM-SHA-512",
            "--kafka-conf=sasl.username=epochgate-pipeline",
            f"--kafka-conf-file=sasl.password={password}",
            f"--kafka-conf=ssl.ca.location={ca}",
        ]

    def run(self) -> None:
        """All commands, as the chart's Jobs call them."""
        at = self.results
        capture = self._folder / "capture"
        self._epochgate("capture", *self._source, f"--out={capture}")
        self._pipeline("readiness", f"--capture={capture}", f"--out={at}/readiness")
        self._pipeline("progress", *self._source, f"--topic={TOPIC}", f"--out={at}/progress")
        self._pipeline("audit", *self._source, f"--topic={TOPIC}", f"--out={at}/audit")

    def _pipeline(self, command: str, *arguments: str) -> None:
        few = "--conf=spark.sql.shuffle.partitions=4"
        self._epochgate("pipeline", command, "--master=local[2]", few, *arguments)

    def _epochgate(self, *arguments: str) -> None:
        """Run it with a node's network and the cluster's names."""
        node = Node(1).machine.pid()
        there = ["nsenter", f"--net=/proc/{node}/ns/net", "unshare", "--mount"]
        shell = ["sh", "-euc", 'mount --bind "$0" /etc/resolv.conf; exec "$@"', str(self._resolver)]
        done = subprocess.run(
            [*there, *shell, str(Path(sys.executable).parent / "epochgate"), *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
        assert done.returncode == 0, done.stdout + done.stderr


def secret(name: str, key: str) -> bytes:
    """What a Secret has under that key."""
    path = key.replace(".", "\\.")
    told = kubectl("get", "secret", name, f"--namespace={NAMESPACE}", f"--output=jsonpath={{.data.{path}}}")
    return base64.b64decode(told)


def rows(folder: Path) -> list[str]:
    """The rows of a table, in an order that does not depend on who wrote it."""
    table: Sequence[dict[str, Any]] = parquet.read_table(folder).to_pylist()
    return sorted(repr(sorted(row.items())) for row in table)
