"""Groups that are started as a whole while a step lets one of their members be translated.

Their client with a slot comes in the same moments as the classic ones. Its heartbeat must not reach the broker in the
first rebalance of these: it fails there, and may hold the group up for its rebalance timeout
(tests/integration/facts/test_facts_members.py).
"""

import contextlib
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from support.broker import Kafka
from support.entry import running_proxy

PARTITIONS = 24
CLIENTS = 8
STATIC = 3
AT_ONCE = 5
POLICY = """\
default: observe
rules:
  - {pattern: ".*", mode: translate, steps: [1, 50%], hold_s: 60}
"""


class Group:
    """Clients that are started in the same moment, by turns through each replica."""

    def __init__(self, name: str, topic: str, bootstraps: list[str]) -> None:
        self.name = name
        self._clients = [
            self._client(number, topic, bootstraps[number % len(bootstraps)]) for number in range(CLIENTS)
        ]

    def _client(self, number: int, topic: str, bootstrap: str) -> Consumer:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": self.name,
            "client.id": f"{self.name}-{number}",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 20_000,
            "heartbeat.interval.ms": 2_000,
            "max.poll.interval.ms": 60_000,
            "enable.auto.commit": False,
        }
        if number < STATIC:
            settings["group.instance.id"] = f"static-{number}"
        client = Consumer(settings)
        client.subscribe([topic])
        return client

    def poll(self) -> None:
        for client in self._clients:
            client.poll(0.002)

    @property
    def owned(self) -> list[int]:
        """How many partitions each client has. No callback tells it: with many clients in one process the library may
        wait in one for itself."""
        return [len(client.assignment()) for client in self._clients]

    def close(self) -> list[threading.Thread]:
        threads = [threading.Thread(target=client.close) for client in self._clients]
        for thread in threads:
            thread.start()
        return threads


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.parametrize("delay_ms", ["3000", "0"], ids=["a stock broker's delay", "without a delay"])
def test_no_group_is_held_up_when_it_starts(delay_ms: str, own_kafka, folder: Path) -> None:
    cluster = own_kafka(brokers=3, overrides={"group.initial.rebalance.delay.ms": delay_ms})
    kafka = Kafka(cluster.bootstrap, source="own", version=cluster.version)
    topic = kafka.new_topic(partitions=PARTITIONS)
    fleet = {
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "topic": "members",
        "partitions": 4,
        "replication": 3,
    }
    with contextlib.ExitStack() as stack:
        bootstraps = [
            stack.enter_context(
                running_proxy(kafka.bootstrap, folder / name, policy=POLICY, sole_process=False, fleet=fleet)
            ).bootstrap
            for name in "ab"
        ]
        for turn in range(8):
            groups = [Group(f"g-{turn}-{number}", topic, bootstraps) for number in range(AT_ONCE)]
            deadline = (
                time.monotonic() + 45
            )  # half of the clients' rebalance timeout, and what a busy machine takes
            while not all(all(group.owned) for group in groups):
                for group in groups:
                    group.poll()
                assert time.monotonic() < deadline, {group.name: group.owned for group in groups}
            for thread in [thread for group in groups for thread in group.close()]:
                thread.join(timeout=60)
                assert not thread.is_alive(), "a client does not close"
    log = "".join(
        (cluster.folder / f"node-{one.node_id}" / "kafka.log").read_text() for one in cluster.brokers
    )
    assert "Converted the classic group to a consumer group" in log, "the steps did begin"
    assert "hit an unexpected exception" not in log
    assert "could not complete rebalance" not in log
