"""Runs for a long time under traffic, churn of clients and restarts of the broker: nothing may grow.

    python -m benchmarks.soak --minutes 60

Memory, descriptors and tasks of the proxy vary with the clients that come and go. So the churn pauses from time to
time, until the sessions of all clients that vanished have ended; producer and consumers continue. What the proxy uses
then is permanent. If that has grown beyond its bound from the first pause to the last, the soak has failed: exit code
1. It has failed too if the proxy has not answered a call: one of its clients waited in vain, or the proxy itself still
has a client or a call to a broker when all clients have ended. A consumer that does not close because librdkafka lost
all its brokers (`benchmarks.lib.soak_clients`) is reported, and ended.
"""

import argparse
import json
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.lib.soak_clients import (
    CLOSE_S,
    ConsumerProcess,
    Unclosed,
    last_lines,
    start_consumer,
    timed_out,
    why_rejoined,
)
from benchmarks.lib.test_bed import BUILD, Gateway, gateway, kafka, resident_bytes
from benchmarks.lib.wire import ClassicMember, Line, coordinator
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

GONE_S = 30.0
"""How long the proxy may take to notice that all clients have ended."""

LEFT_OVER = ("epochgate_client_to_proxy_active_connections", "epochgate_upstream_calls_in_flight")
"""Metrics that are 0 when no client is left and no call waits for an answer."""

HIDDEN = "epochgate_hidden_nodes_total"

_QUIET = {"log_level": 0, "error_cb": lambda _error: None}


class Traffic:
    """A producer, consumers of a translated group (processes), and clients that come and go."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        logs: Path,
        *,
        group: str = "",
        records_a_turn: int = 20,
        churns: bool = True,
        consumers: int = CONSUMERS,
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self.group = group or f"translated-{topic}"
        self._records_a_turn = records_a_turn
        self._wanted = consumers
        self._over = threading.Event()
        self.resting = threading.Lock()
        """While somebody else holds it, no client comes or goes."""
        self.produced = self.consumed = self.came_and_went = 0
        self.unanswered = 0
        """Calls whose client has waited in vain for an answer."""
        self.assigned_at: list[list[float]] = []
        """When each consumer got an assignment (time.monotonic)."""
        self.why_rejoined: Counter[str] = Counter()
        """What the consumers' own logs name as reasons."""
        self._logs = logs
        self._consumers: list[ConsumerProcess] = []
        self._threads = [
            threading.Thread(target=target, name=target.__name__, daemon=True)
            for target in ((self._produce, self._churn) if churns else (self._produce,))
        ]

    def start(self) -> None:
        for number in range(self._wanted):
            name = f"consumer-{number}"
            self._consumers.append(start_consumer(name, self._bootstrap, self.group, self._topic, self._logs))
        for thread in self._threads:
            thread.start()

    def stop(self) -> list[Unclosed]:
        """Let all clients end in order; return the consumers that do not close. These still run."""
        self._over.set()
        for consumer in self._consumers:
            consumer.tell_to_close()
        deadline = time.monotonic() + CLOSE_S
        unclosed = [one.why_not() for one in self._consumers if not one.closed_by(deadline)]
        for thread in self._threads:
            thread.join(2 * CLOSE_S)  # the longest call of theirs gives up after a minute
        return unclosed

    def end(self) -> None:
        """End the clients that still run; then the counts are complete."""
        self._over.set()
        ends = [consumer.end() for consumer in self._consumers]
        self.consumed = sum(one.consumed for one in ends)
        self.assigned_at = [one.assigned_at for one in ends]
        self.unanswered += sum(timed_out(consumer.log) for consumer in self._consumers)
        self.why_rejoined = sum((why_rejoined(consumer.log) for consumer in self._consumers), Counter())

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5, **_QUIET})
        value = bytes(1024)
        while not self._over.wait(0.01):
            with suppress(BufferError, KafkaException):
                for _ in range(self._records_a_turn):
                    producer.produce(self._topic, value)
                    self.produced += 1
            producer.poll(0)
        producer.flush(5)

    def _churn(self) -> None:
        """Run members that join and leave or vanish, and useless connections."""
        while not self._over.wait(0.2):
            try:
                with self.resting:
                    self._come_and_go(f"translated-churn-{self.came_and_went % 20}")
            except TimeoutError:
                self.unanswered += 1
            except (OSError, RuntimeError):
                pass  # the broker restarts
            self.came_and_went += 1

    def _come_and_go(self, group: str) -> None:
        with Line(coordinator(self._bootstrap, group)) as line:
            ClassicMember(line, group, self._topic, session_ms=SESSION_MS).join()
        Line(self._bootstrap).close()
        with Line(self._bootstrap) as nonsense:
            nonsense.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")


def sample(proxy: Gateway) -> dict[str, float]:
    pid = proxy.process.pid
    return {
        "memory_mib": resident_bytes(pid) / 2**20,
        "descriptors": float(len(list(Path(f"/proc/{pid}/fd").iterdir()))),
        "tasks": metric(proxy, "epochgate_tasks"),
    }


def metric(proxy: Gateway, name: str) -> float:
    """Return a metric of the proxy, summed over its labels."""
    lines = (line for line in proxy.get("metrics").splitlines() if line.startswith((f"{name} ", f"{name}{{")))
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def soak(minutes: float) -> dict[str, Any]:
    with kafka() as cluster, gateway(cluster.bootstrap, "soak") as proxy:
        topic = f"soak-{uuid4().hex[:6]}"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        config = {"retention.bytes": str(64 * 2**20), "segment.bytes": str(16 * 2**20)}
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result(30)
        traffic = Traffic(proxy.bootstrap, topic, proxy.folder)
        try:
            traffic.start()
            rests = _live(proxy, cluster, traffic, minutes * 60)
            unclosed = traffic.stop()
            _explain(proxy, traffic.group, unclosed)
        finally:
            traffic.end()
        left_over = left_over_at(proxy)
        hidden = metric(proxy, HIDDEN)
        return {
            **judged(rests),
            "minutes": minutes,
            "unanswered calls": traffic.unanswered,
            "left over at the proxy": left_over,
            "consumers that did not close": [str(one) for one in unclosed],
            "brokers hidden by the proxy": hidden,
            "answered": answered(traffic.unanswered, left_over, hidden, unclosed),
            "traffic": {
                "produced": traffic.produced,
                "consumed": traffic.consumed,
                "came and went": traffic.came_and_went,
            },
        }


def left_over_at(proxy: Gateway) -> float:
    """Return how many connections and calls the proxy still has when no client is left."""
    deadline = time.monotonic() + GONE_S
    while True:
        left = sum(metric(proxy, name) for name in LEFT_OVER)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.5)


def _explain(proxy: Gateway, group: str, unclosed: list[Unclosed]) -> None:
    """Print what the proxy and the consumers' own logs say of consumers that do not close."""
    if not unclosed:
        return
    print(f"  {len(unclosed)} consumers have not closed within {CLOSE_S:.0f} s")
    print(f"  their group at the proxy: {proxy.get(f'api/groups?id={group}')}")
    for of, log in (("the proxy's log", proxy.log), *((f"{one}. Its log", one.log) for one in unclosed)):
        print(f"  {of} ends with:", *last_lines(log), sep="\n    ", flush=True)


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
            rests.append(rest(proxy))
        print(f"  round {number} of {rounds}, at rest: {rests[-1]}", flush=True)
    return rests


def rest(proxy: Gateway) -> dict[str, float]:
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


def answered(unanswered: int, left_over: float, hidden: float, unclosed: list[Unclosed]) -> bool:
    """Return whether the proxy has answered every call, and has hidden no broker from the consumers' metadata."""
    return not (unanswered or left_over or hidden) and all(one.excused for one in unclosed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    report = soak(parser.parse_args().minutes)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return 0 if report["flat"] and report["answered"] else 1


if __name__ == "__main__":
    sys.exit(main())
