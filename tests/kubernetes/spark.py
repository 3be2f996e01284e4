"""Runs the pipeline outside the cluster on what the cluster's Jobs and drivers read, and compares the results."""

import base64
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
from support.waiting import eventually

from pipeline.table_files import files_of_table
from tools.kubernetes.control import DNS
from tools.kubernetes.kafka.install import NAMESPACE
from tools.kubernetes.kubectl import kubectl
from tools.kubernetes.node import Node
from tools.spark_connector.jars import ensure_connector

PAGE = Path("docs/tutorial/kubernetes-pipeline.md")
RESULTS = Path("/var/tmp/epochgate-reports")  # noqa: S108 - a folder of the page, which makes it
"""Where the page has its volume."""
BOOTSTRAP = "my-cluster-kafka-bootstrap.kafka.svc:9093"
TOPIC = "epochgate-journal"
RUN_S, UNTIL_S = 900.0, 120.0
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
        self._numbers = itertools.count()
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
        self._pipeline("readiness", f"--capture={self._capture()}", f"--out={at}/readiness")
        self._pipeline("progress", *self._source, f"--topic={TOPIC}", f"--out={at}/progress")
        self._pipeline("audit", *self._source, f"--topic={TOPIC}", f"--out={at}/audit")

    def wait_until_nobody_commits(self) -> None:
        """Return when `__consumer_offsets` has not grown for longer than clients' `auto.commit.interval.ms` of 5 s."""
        sizes = [-1]

        def has_not_grown() -> bool:
            folder = self._capture()
            sizes.append(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
            return sizes[-1] == sizes[-2]

        eventually(has_not_grown, what="nobody commits any more", timeout_s=UNTIL_S, between_s=6.0)

    def _capture(self) -> Path:
        folder = self._folder / f"capture-{next(self._numbers)}"
        self._epochgate("capture", *self._source, f"--out={folder}")
        return folder

    def _pipeline(self, command: str, *arguments: str) -> None:
        jars = ",".join(map(str, ensure_connector()))
        settings = [f"--conf=spark.jars={jars}", "--conf=spark.sql.shuffle.partitions=4"]
        self._epochgate("pipeline", command, "--master=local[2]", *settings, *arguments)

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


def rows(table_folder: Path) -> list[str]:
    """The rows of a table of the run that holds, in an order that does not depend on who wrote it."""
    folder = files_of_table(table_folder.parent, table_folder.name).folder
    table: Sequence[dict[str, Any]] = parquet.read_table(folder).to_pylist()
    return sorted(repr(sorted(row.items())) for row in table)
