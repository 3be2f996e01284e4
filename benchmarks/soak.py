"""Run for a long time under traffic, churn of clients and restarts of the broker: nothing may grow.

    python -m benchmarks.soak --minutes 60

Memory, descriptors and tasks of the proxy are looked at each second, but for half a minute after a restart. They go up
and down with the clients; what leaks lifts the floor under them. So the floors of the first and of the last third
after a warm-up are compared: if one has risen by more than its bound, the soak has failed, exit code 1.
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

from benchmarks.stand import BUILD, Gateway, gateway, kafka, resident_bytes
from benchmarks.wire import ClassicMember, Line, coordinator
from tools.kafka.cluster import Cluster

REPORT = BUILD / "soak.json"
CONSUMERS = 4
PARTITIONS = 8
RESTARTS_PER_MINUTE = 0.3
BOUNDS = {"memory_mib": 6.0, "descriptors": 6.0, "tasks": 6.0}
"""By how much a floor may rise."""

_FLOOR = 0.1
"""The floor is the value below which this part of the samples lies."""

_SAMPLE_S = 1.0
_WARM_UP = 0.15
_AFTER_RESTART_S = 30.0
"""So long after a restart clients come back, and members of those that vanished are still waited for."""
_QUIET = {"log_level": 0, "error_cb": lambda _error: None}


class Traffic:
    """Clients as threads: producers, consumers of a translated group, and clients that come and go."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = f"translated-{topic}"
        self._over = threading.Event()
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
        """Members that join and leave, that vanish, and connections that are no use."""
        while not self._over.wait(0.2):
            with suppress(OSError, RuntimeError, ConnectionError):
                group = f"translated-churn-{self.came_and_went % 20}"
                with Line(coordinator(self._bootstrap, group)) as line:
                    ClassicMember(line, group, self._topic, session_ms=6000).join()
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


def floor(values: list[float]) -> float:
    """What the values come down to again and again."""
    return sorted(values)[int(len(values) * _FLOOR)]


def soak(minutes: float) -> dict[str, Any]:
    with kafka() as cluster, gateway(cluster.bootstrap, "soak") as proxy:
        topic = f"soak-{uuid4().hex[:6]}"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        config = {"retention.bytes": str(64 * 2**20), "segment.bytes": str(16 * 2**20)}
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result(30)
        traffic = Traffic(proxy.bootstrap, topic)
        traffic.start()
        try:
            times, samples = _watch(proxy, cluster, minutes * 60)
        finally:
            traffic.stop()
        report = judged(times, samples, minutes)
        report["traffic"] = {
            "produced": traffic.produced,
            "consumed": traffic.consumed,
            "came and went": traffic.came_and_went,
        }
        return report


def _watch(proxy: Gateway, cluster: Cluster, seconds: float) -> tuple[list[float], list[dict[str, float]]]:
    started = time.monotonic()
    times: list[float] = []
    samples: list[dict[str, float]] = []
    # Restarts are in the middle, so that the line has an undisturbed beginning and end.
    count = max(1, round(seconds / 60 * RESTARTS_PER_MINUTE))
    restarts = [seconds * (0.3 + 0.4 * n / count) for n in range(count)]
    said = quiet_from = 0.0
    while (now := time.monotonic() - started) < seconds:
        if restarts and now >= restarts[0]:
            restarts.pop(0)
            print(f"  {now:.0f} s: the broker restarts", flush=True)
            cluster.stop_broker(1)
            cluster.start_broker(1)
            quiet_from = time.monotonic() - started + _AFTER_RESTART_S
        if now < quiet_from:
            time.sleep(_SAMPLE_S)
            continue
        times.append(time.monotonic() - started)
        samples.append(sample(proxy))
        if now - said >= 30:
            said = now
            print(f"  {now:.0f} s: {samples[-1]}", flush=True)
        time.sleep(_SAMPLE_S)
    return times, samples


def judged(times: list[float], samples: list[dict[str, float]], minutes: float) -> dict[str, Any]:
    """The report: for each of :data:`BOUNDS` whether its floor stayed where it was."""
    warm = next(n for n, at in enumerate(times) if at >= times[-1] * _WARM_UP)
    rows = {}
    for what, bound in BOUNDS.items():
        values = [one[what] for one in samples[warm:]]
        third = len(values) // 3
        before, after = floor(values[:third]), floor(values[-third:])
        rows[what] = {
            "floor of the first third": round(before, 1),
            "floor of the last third": round(after, 1),
            "highest": round(max(values), 1),
            "may rise by": bound,
            "flat": after - before <= bound,
        }
    return {
        "minutes": minutes,
        "samples": len(samples),
        "rows": rows,
        "flat": all(r["flat"] for r in rows.values()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    report = soak(parser.parse_args().minutes)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return 0 if report["flat"] else 1


if __name__ == "__main__":
    sys.exit(main())
