"""Bytes a second that real clients (librdkafka) consume and produce, straight and through the proxy.

Direct and proxied runs take turns, each in a fresh process of its own pinned to one core with everything else left to
the scheduler, and the median of the ratios of neighbours counts: whatever else the machine does hits both alike.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.stand import Gateway, switches, waited_s

RECORD = 1024
RECORDS = 400_000
FETCH = 1024 * 1024
RUNS = 7
TARGET = 0.90
TARGET_ON_TLS = 0.5


def _security(ca: str) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.ca.location": ca} if ca else {}


def produce(bootstrap: str, topic: str, records: int, ca: str = "") -> float:
    """Seconds to produce so many records and have them acknowledged (acks=1: the leader's own speed)."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "1",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 200_000,
            "compression.type": "none",
            **_security(ca),
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


def consume(bootstrap: str, topic: str, records: int, ca: str = "") -> float:
    """Seconds to consume so many records from the beginning, in fetches of 1 MiB."""
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
            **_security(ca),
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


def measure(
    bootstrap: str, proxy: Gateway, *, runs: int = RUNS, records: int = RECORDS, ca: str = ""
) -> dict[str, Any]:
    """Both ways; on TLS, on both sides of the proxy, if there is a file ``ca`` of authorities."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **_security(ca)})
    topics = {name: f"throughput-{name}-{uuid4().hex[:8]}" for name in ("consume", "produce")}
    for topic in topics.values():
        config = {"retention.bytes": str(2 * records * RECORD), "segment.bytes": str(256 * 1024 * 1024)}
        admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    produce(bootstrap, topics["consume"], records, ca)
    return {
        "consumer": _compare("consume", bootstrap, proxy, topics["consume"], runs, records, ca),
        "producer": _compare("produce", bootstrap, proxy, topics["produce"], runs, records, ca),
    }


def _compare(
    what: str, bootstrap: str, proxy: Gateway, topic: str, runs: int, records: int, ca: str
) -> dict[str, Any]:
    mb = records * RECORD / 1e6
    direct: list[float] = []
    proxied: list[float] = []
    pid = proxy.process.pid
    _apart(what, bootstrap, topic, records, ca)  # the page cache and the broker's compiler are warm after it
    cpu_before, waited_before, switches_before = proxy.cpu_s(), waited_s(pid), switches(pid)
    for run in range(runs):
        ways: list[tuple[str, Callable[[float], None]]] = [
            (bootstrap, direct.append),
            (proxy.bootstrap, proxied.append),
        ]
        for address, keep in ways if run % 2 else reversed(ways):
            keep(mb / _apart(what, address, topic, records, ca))
        print(
            f"  {what} {run + 1}/{runs}: direct {direct[-1]:.0f} MB/s, proxied {proxied[-1]:.0f} MB/s, "
            f"load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    ratio = statistics.median(p / d for d, p in zip(direct, proxied, strict=True))
    gb = mb * runs / 1000
    target = TARGET_ON_TLS if ca else TARGET
    return {
        "direct_mb_s": round(statistics.median(direct), 1),
        "proxied_mb_s": round(statistics.median(proxied), 1),
        "ratio": round(ratio, 3),
        "ratio_of_the_best": round(max(proxied) / max(direct), 3),
        "proxy_cpu_s_per_gb": round((proxy.cpu_s() - cpu_before) / gb, 3),
        "proxy_waited_for_a_core_s_per_gb": round((waited_s(pid) - waited_before) / gb, 3),
        "proxy_switches_per_gb": round((switches(pid) - switches_before) / gb),
        "target": target,
        "met": ratio >= target,
    }


def _apart(what: str, address: str, topic: str, records: int, ca: str) -> float:
    """One run in a process of its own; its seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.throughput", what, address, topic, str(records), ca],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(done.stdout))


if __name__ == "__main__":
    _what, _address, _topic, _records, _ca = sys.argv[1:]
    print(json.dumps((produce if _what == "produce" else consume)(_address, _topic, int(_records), _ca)))
