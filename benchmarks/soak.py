"""Runs for a long time under traffic, churn of clients and restarts of the broker: nothing may grow.

    python -m benchmarks.soak --minutes 60

Memory, descriptors and tasks of the proxy vary with the clients that come and go. So the churn pauses from time to
time, until the sessions of all clients that vanished have ended; producer and consumers continue. What the proxy uses
then is permanent. If that has grown beyond its bound from the first pause to the last, the soak has failed: exit code
1.
"""

import argparse
import json
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.test_bed import BUILD, Gateway, gateway, kafka, resident_bytes
from benchmarks.wire import ClassicMember, Line, coordinator
from tools.kafka.cluster import Cluster

REPORT = BUILD / "soak.json"
CONSUMERS = 4
PARTITIONS = 8
BOUNDS = {"memory_mib": 6.0, "descriptors": 6.0, "tasks": 6.0}
"""By how much each may rise from the first rest to the last."""

ROUND_S = 180.0
LEAST_ROUNDS = 3
RESTART_AFTER = 0.3
"""The broker restarts after this part of a round, in every second one; clients have come back when the round ends."""

SESSION_MS = 6000
REST_S = 12.0
"""Longer than a session, so that nobody is waited for any more."""

_QUIET = {"log_level": 0, "error_cb": lambda _error: None}


class Traffic:
    """Clients as threads: producers, consumers of a translated group, and clients that come and go."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = f"translated-{topic}"
        self._over = threading.Event()
        self.resting = threading.Lock()
        """While somebody else holds it, no client comes or goes."""
        self.produced = self.consumed = self.came_and_went = 0
        self._threads = [
            threading.Thread(target=self._consume, name=f"consumer-{n}") for n in range(CONSUMERS)
        ]
        self._threads += [threading.Thread(target=self._produce), threading.Thread(target=self._churn)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5, **_QUIET})
        value = bytes(1024)
        while not self._over.wait(0.01):
            with suppress(BufferError, KafkaException):
                for _ in range(20):
                    producer.produce(self._topic, value)
                    self.produced += 1
            producer.poll(0)
        producer.flush(5)

    def _consume(self) -> None:
        consumer = self._consumer()
        while not self._over.is_set():
            with suppress(KafkaException):
                self.consumed += len(consumer.consume(500, timeout=0.5))
        consumer.close()

    def _consumer(self) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._group,
                "auto.offset.reset": "latest",
                "session.timeout.ms": 10_000,
                **_QUIET,
            }
        )
        consumer.subscribe([self._topic])
        return consumer

    def _churn(self) -> None:
        """Run members that join and leave or vanish, and useless connections."""
        while not self._over.wait(0.2):
            with self.resting, suppress(OSError, RuntimeError, ConnectionError):
                group = f"translated-churn-{self.came_and_went % 20}"
                with Line(coordinator(self._bootstrap, group)) as line:
                    ClassicMember(line, group, self._topic, session_ms=SESSION_MS).join()
                Line(self._bootstrap).close()
                with Line(self._bootstrap) as nonsense:
                    nonsense.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            self.came_and_went += 1


def sample(proxy: Gateway) -> dict[str, float]:
    pid = proxy.process.pid
    tasks = next(line for line in proxy.get("metrics").splitlines() if line.startswith("epochgate_tasks "))
    return {
        "memory_mib": resident_bytes(pid) / 2**20,
        "descriptors": float(len(list(Path(f"/proc/{pid}/fd").iterdir()))),
        "tasks": float(tasks.split()[1]),
    }


def soak(minutes: float) -> dict[str, Any]:
    with kafka() as cluster, gateway(cluster.bootstrap, "soak") as proxy:
        topic = f"soak-{uuid4().hex[:6]}"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        config = {"retention.bytes": str(64 * 2**20), "segment.bytes": str(16 * 2**20)}
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result(30)
        traffic = Traffic(proxy.bootstrap, topic)
        traffic.start()
        try:
            rests = _live(proxy, cluster, traffic, minutes * 60)
        finally:
            traffic.stop()
        report = judged(rests) | {"minutes": minutes}
        report["traffic"] = {
            "produced": traffic.produced,
            "consumed": traffic.consumed,
            "came and went": traffic.came_and_went,
        }
        return report


def _live(proxy: Gateway, cluster: Cluster, traffic: Traffic, seconds: float) -> list[dict[str, float]]:
    """Run rounds of traffic with a pause after each; return the proxy's usage in the pauses."""
    rounds = max(LEAST_ROUNDS, round(seconds / ROUND_S))
    rests = []
    for number in range(1, rounds + 1):
        time.sleep(seconds / rounds * RESTART_AFTER)
        if number % 2:  # the first too: clients that have come back keep more connections than at their start
            print("  the broker restarts", flush=True)
            cluster.stop_broker(1)
            cluster.start_broker(1)
        time.sleep(seconds / rounds * (1 - RESTART_AFTER))
        with traffic.resting:
            rests.append(_rest(proxy))
        print(f"  round {number} of {rounds}, at rest: {rests[-1]}", flush=True)
    return rests


def _rest(proxy: Gateway) -> dict[str, float]:
    """Return the minimum of each measure within a pause."""
    ends = time.monotonic() + REST_S
    least = sample(proxy)
    while time.monotonic() < ends:
        time.sleep(1.0)
        least = {what: min(value, least[what]) for what, value in sample(proxy).items()}
    return least


def judged(rests: list[dict[str, float]]) -> dict[str, Any]:
    """Return the report: for each of :data:`BOUNDS` whether the last pause is within its bound of the first."""
    rows = {
        what: {
            "rests": [round(rest[what], 1) for rest in rests],
            "may rise by": bound,
            "flat": rests[-1][what] - rests[0][what] <= bound,
        }
        for what, bound in BOUNDS.items()
    }
    return {"rows": rows, "flat": all(row["flat"] for row in rows.values())}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    report = soak(parser.parse_args().minutes)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return 0 if report["flat"] else 1


if __name__ == "__main__":
    sys.exit(main())
