"""Measures how fast a share consumer of Kafka's Java client reads (KIP-932): direct, and through the proxy.

Both ways take turns in one process of the client, and the median of the ratios of neighbours counts, as in
:mod:`benchmarks.throughput`. It is slower than a consumer on either way: a broker gives out no more than 2000 records
of a partition before some of them are acknowledged (``group.share.partition.max.record.locks``).
"""

import json
import os
import statistics
import subprocess
from typing import Any
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.lib.test_bed import BUILD, cpu_s, kafka_version
from benchmarks.throughput import RECORD, produce
from tools.java_client import compiled

RUNS = 9
RECORDS = 40_000
TARGET = 0.90


def measure(
    direct: str, proxied: str, pid: int, *, runs: int = RUNS, records: int = RECORDS
) -> dict[str, Any]:
    """Return the MB/s of both ways, and their ratio; ``pid`` is the proxy's."""
    topic = f"share-throughput-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": direct})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    produce(direct, topic, records)
    mb = records * RECORD / 1e6
    speeds: dict[str, list[float]] = {"direct": [], "proxied": []}
    before = cpu_s(pid)
    for line in _read({"direct": direct, "proxied": proxied}, topic, records, runs):
        speeds[line["way"]].append(mb / line["seconds"])
        if line["way"] == "proxied":
            print(
                f"  share fetch {line['run']}/{runs}: {_last(speeds)}, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    ratios = [
        through / straight for straight, through in zip(speeds["direct"], speeds["proxied"], strict=True)
    ]
    ratio = round(statistics.median(ratios), 3)
    return {
        "direct_mb_s": round(statistics.median(speeds["direct"]), 1),
        "proxied_mb_s": round(statistics.median(speeds["proxied"]), 1),
        "proxied_ratio": ratio,
        "proxied_quartiles": [round(quartile, 2) for quartile in statistics.quantiles(ratios)[::2]],
        "proxied_cpu_s_per_gb": round((cpu_s(pid) - before) / (mb * (runs + 1) / 1000), 3),
        "target": TARGET,
        "met": ratio >= TARGET,
    }


def _read(ways: dict[str, str], topic: str, records: int, runs: int) -> Any:
    compiled.ensure_compiled(kafka_version(), compiled.SHARE_THROUGHPUT)
    spec = {"ways": ways, "topic": topic, "records": records, "runs": runs}
    command = compiled.command(kafka_version(), BUILD / "share-throughput.log", compiled.SHARE_THROUGHPUT)
    with subprocess.Popen([*command, json.dumps(spec)], stdout=subprocess.PIPE, text=True) as client:
        for line in client.stdout or ():
            yield json.loads(line)
    if client.returncode:
        raise RuntimeError(
            f"the share consumer ended with {client.returncode}; see {BUILD / 'share-throughput.log'}"
        )


def _last(speeds: dict[str, list[float]]) -> str:
    return ", ".join(f"{way} {those[-1]:.0f} MB/s" for way, those in speeds.items() if those)
