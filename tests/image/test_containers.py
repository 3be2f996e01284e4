"""The project's image as a container in front of a Kafka in a container, with consumers outside of both."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer
from support.broker import Kafka
from support.waiting import eventually

from tests.image.conftest import Proxy
from tools.image.paths import ROOT
from tools.image.podman import succeeds

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1200)]  # the first run builds both images and their base
PARTITIONS = 4
RECORDS = 100


class Member:
    """A classic consumer, and what it has read."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 500,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])
        self.read: list[str] = []

    def poll(self) -> None:
        """Read what is there."""
        for message in self._consumer.consume(RECORDS, timeout=0.1):
            assert not message.error()
            self.read.append((message.value() or b"").decode())

    @property
    def owned(self) -> set[int]:
        """The partitions that it has."""
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        """Commit, and leave the group."""
        self._consumer.close()


@contextmanager
def members(proxy: Proxy, group: str, topic: str, count: int) -> Iterator[list[Member]]:
    """So many consumers of a group, which have all partitions among them."""
    found = [Member(proxy.bootstrap, group, topic) for _ in range(count)]

    def shared() -> list[set[int]]:
        for one in found:
            one.poll()
        return [one.owned for one in found]

    eventually(
        shared,
        lambda owned: sum(map(len, owned)) == PARTITIONS == len(set().union(*owned)) and all(owned),
        what=f"{count} members share the partitions",
    )
    try:
        yield found
    finally:
        for one in found:
            one.close()


def test_a_group_reads_through_the_container_and_is_of_the_new_protocol(broker: Kafka, proxy: Proxy):
    topic = broker.new_topic("containers", partitions=PARTITIONS)
    written = sorted(one.value for one in broker.produce(topic, RECORDS))
    with members(proxy, "image", topic, 2) as pair:

        def read() -> list[str]:
            for one in pair:
                one.poll()
            return sorted(value for one in pair for value in one.read)

        assert eventually(read, lambda values: len(values) >= RECORDS, what="all is read") == written
        view = broker.describe("image")
        assert view is not None
        assert [one.member_type for one in view.members] == ["consumer", "consumer"]
    assert sum(broker.committed("image").values()) == RECORDS


def test_it_is_healthy_and_nobody_special_and_ends_in_order(proxy: Proxy):
    assert succeeds("healthcheck", "run", proxy.container.name)
    _, user = proxy.container.exec_run(["id", "-u"])
    assert user.decode().strip() == "10001"
    _, version = proxy.container.exec_run(["epochgate", "version"])
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version.decode().split()[1] == pinned
    proxy.container.stop(timeout=30)
    assert proxy.container.wait()["StatusCode"] == 0, proxy.container.logs()
