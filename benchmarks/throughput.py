"""Measures the throughput of real clients (librdkafka), direct and through the proxy.

The ways take turns, each run in a new process, and the median of the ratios of neighbours counts: other load on the
machine hits all alike. Many short runs are better than few long ones, because the machine's speed varies from one
second to the next; the quartiles show how far the median can be trusted.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.lib.test_bed import cpu_s, switches, waited_s

RECORD = 1024
RECORDS = 200_000
FETCH = 1024 * 1024
RUNS = 15
TARGET = 0.90
TARGET_ON_TLS = 0.5
NONE: Mapping[str, str] = MappingProxyType({})


Security = Mapping[str, str]
"""librdkafka's properties for TLS and SASL; none for plaintext."""


def on_tls(ca: str) -> Security:
    """For a listener whose certificate this authority has issued."""
    return {"security.protocol": "SSL", "ssl.ca.location": ca}


def produce(bootstrap: str, topic: str, records: int, security: Security = NONE) -> float:
    """Return the seconds to produce so many records with acks=1, until they are acknowledged by the leader."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "1",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 200_000,
            "compression.type": "none",
            **security,
        }
    )
    value = bytes(RECORD)
    producer.list_topics(topic, timeout=30)
    started = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} records were not acknowledged")
    return time.perf_counter() - started


def consume(bootstrap: str, topic: str, records: int, security: Security = NONE) -> float:
    """Return the seconds to consume so many records from the beginning, in fetches of 1 MiB."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{uuid4().hex[:6]}",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": FETCH,
            "fetch.max.bytes": FETCH,
            "fetch.min.bytes": 1,
            "fetch.wait.max.ms": 100,
            "queued.max.messages.kbytes": 65_536,
            "check.crcs": False,
            **security,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = len(consumer.consume(1, timeout=30))
    started = time.perf_counter()
    while got < records:
        got += len(consumer.consume(min(5000, records - got), timeout=30))
    took = time.perf_counter() - started
    consumer.close()
    return took


class Way(msgspec.Struct):
    """One way from a client to the broker: direct, or through the process ``pid``."""

    bootstrap: str
    pid: int | None = None
    mb_s: list[float] = msgspec.field(default_factory=list)


def measure(
    ways: dict[str, Way], *, runs: int = RUNS, records: int = RECORDS, security: Security = NONE
) -> dict[str, Any]:
    """Measure both directions by each way, of which "direct" and "proxied" are two; all have the same ``security``."""
    topics = new_topics(ways["direct"].bootstrap, records, security)
    return {
        "consumer": _compare("consume", ways, topics["consume"], runs, records, security),
        "producer": _compare("produce", ways, topics["produce"], runs, records, security),
    }


def new_topics(bootstrap: str, records: int, security: Security = NONE) -> dict[str, str]:
    """Return a topic to "consume" so many records from, and one to "produce" them to."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **security})
    topics = {name: f"{name}-{uuid4().hex[:8]}" for name in ("consume", "produce")}
    for topic in topics.values():
        config = {"retention.bytes": str(2 * records * RECORD), "segment.bytes": str(256 * 1024 * 1024)}
        admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    produce(bootstrap, topics["consume"], records, security)
    return topics


def _compare(
    what: str, ways: dict[str, Way], topic: str, runs: int, records: int, security: Security
) -> dict[str, Any]:
    mb = records * RECORD / 1e6
    target = TARGET_ON_TLS if security else TARGET
    for way in ways.values():
        way.mb_s.clear()
    apart(
        what, ways["direct"].bootstrap, topic, records, security
    )  # page cache and compiler are warm after it
    before = {name: _used(way.pid) for name, way in ways.items() if way.pid}
    order = list(ways.items())
    for run in range(runs):
        for _, way in order:
            way.mb_s.append(mb / apart(what, way.bootstrap, topic, records, security))
        order.append(order.pop(0))
        speeds = ", ".join(f"{name} {way.mb_s[-1]:.0f} MB/s" for name, way in ways.items())
        print(f"  {what} {run + 1}/{runs}: {speeds}, load {os.getloadavg()[0]:.1f}", flush=True)
    direct = ways["direct"].mb_s
    gb = mb * runs / 1000
    found: dict[str, Any] = {"direct_mb_s": round(statistics.median(direct), 1), "target": target}
    for name, way in ways.items():
        if way.pid is None:
            continue
        ratios = [through / straight for straight, through in zip(direct, way.mb_s, strict=True)]
        used = [(after - then) / gb for then, after in zip(before[name], _used(way.pid), strict=True)]
        found |= {
            f"{name}_mb_s": round(statistics.median(way.mb_s), 1),
            f"{name}_ratio": round(statistics.median(ratios), 3),
            f"{name}_quartiles": [round(quartile, 2) for quartile in statistics.quantiles(ratios)[::2]],
            f"{name}_ratios": [round(ratio, 2) for ratio in sorted(ratios)],
            f"{name}_cpu_s_per_gb": round(used[0], 3),
            f"{name}_waited_for_a_core_s_per_gb": round(used[1], 3),
            f"{name}_switches_per_gb": round(used[2]),
        }
    return found | {"met": found["proxied_ratio"] >= target}


def _used(pid: int) -> tuple[float, float, float]:
    """Return seconds of processor time, seconds of waiting for a core, and context switches."""
    return cpu_s(pid), waited_s(pid), switches(pid)


def apart(what: str, address: str, topic: str, records: int, security: Security = NONE) -> float:
    """Run once in a new process; return its seconds."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.throughput",
            what,
            address,
            topic,
            str(records),
            json.dumps(dict(security)),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(done.stdout))


if __name__ == "__main__":
    _what, _address, _topic, _records, _security = sys.argv[1:]
    _work = produce if _what == "produce" else consume
    print(json.dumps(_work(_address, _topic, int(_records), json.loads(_security))))
