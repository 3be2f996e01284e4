"""Consumers that start together through the proxy get their final share with one callback each, as straight at Kafka.

Brokers wait `group.initial.rebalance.delay.ms` for the members of a new classic group. Here broker and proxy have
Kafka's own delay, and the broker all of Kafka's own settings for groups.
"""

import threading
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.broker import Kafka
from support.entry import running_proxy
from support.waiting import eventually

from tools.kafka.settings import GROUP_DEFAULTS

CLIENTS = 6
PARTITIONS = 12
QUIET_S = 4.0
"""Longer than a heartbeat interval: a client that is to rejoin hears of it within it."""


class Client:
    """One consumer with its thread, and what its callbacks were told."""

    def __init__(self, group: str, topic: str, bootstrap: str, begun: threading.Barrier) -> None:
        self.callbacks: list[tuple[str, int]] = []
        self.last_at = 0.0
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        self._topic, self._begun = topic, begun
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._begun.wait()
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)
        while not self._ends.is_set():
            self._consumer.poll(0.1)
        self._consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.last_at = time.monotonic()
        self.callbacks.append(("assigned", len(partitions)))

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if not self._ends.is_set():
            self.last_at = time.monotonic()
            self.callbacks.append(("revoked", len(partitions)))

    def end(self) -> None:
        self._ends.set()

    def join(self) -> None:
        self._thread.join(30)


def start(kafka: Kafka, bootstraps: list[str]) -> tuple[list[list[tuple[str, int]]], float]:
    """Start the clients, by turns at each of ``bootstraps``; return their callbacks, and seconds until the last."""
    topic, group = kafka.new_topic(partitions=PARTITIONS), f"g-{uuid.uuid4().hex[:8]}"
    begun = threading.Barrier(CLIENTS + 1)
    clients = [Client(group, topic, bootstraps[n % len(bootstraps)], begun) for n in range(CLIENTS)]
    try:
        begun.wait()
        since = time.monotonic()
        eventually(
            lambda: time.monotonic() - max(one.last_at for one in clients),
            lambda quiet_s: all(one.callbacks for one in clients) and quiet_s > QUIET_S,
            what="every client has been assigned something, and nothing has changed since",
            timeout_s=60,
        )
        return [one.callbacks for one in clients], max(one.last_at for one in clients) - since
    finally:
        for one in clients:
            one.end()
        for one in clients:
            one.join()


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("replicas", [1, 2])
def test_clients_that_start_together_have_one_callback_each(replicas: int, own_kafka, folder: Path) -> None:
    cluster = own_kafka(overrides=GROUP_DEFAULTS)
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    once = [[("assigned", PARTITIONS // CLIENTS)]] * CLIENTS
    straight, straight_s = start(kafka, [kafka.bootstrap])
    assert straight == once
    fleet = {"kafka": {"bootstrap.servers": kafka.bootstrap}, "replication": 1, "expires": True}
    several = {} if replicas == 1 else {"sole_process": False, "fleet": fleet}
    more = {"initial_rebalance_delay_ms": 3_000}
    with running_proxy(kafka.bootstrap, folder / "one", more=more, **several) as one:
        if replicas == 1:
            proxied, proxied_s = start(kafka, [one.bootstrap])
        else:
            with running_proxy(kafka.bootstrap, folder / "other", more=more, **several) as other:
                proxied, proxied_s = start(kafka, [one.bootstrap, other.bootstrap])
    assert proxied == once
    # A second for a busy machine: straight it is two delays, and each delay more would be three seconds.
    assert proxied_s < straight_s + 1.0
