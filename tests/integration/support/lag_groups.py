"""Groups with the same commits: a classic one, one that moved to the new protocol, and one without members."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from support.broker import Kafka
from support.entry import Entries
from support.waiting import eventually

PARTITIONS = 4
OFFSETS = {0: 3, 1: 10}
"""What is committed; in the other partitions nothing is. Each has ten records, so the lag is 7."""


@dataclass
class Groups:
    """The same in three ways: two members and these commits, but for the last."""

    topic: str
    classic: str
    moved: str
    empty: str
    """Only has the commits."""
    through_proxy: str

    @property
    def pattern(self) -> str:
        return f"{self.classic}|{self.moved}|{self.empty}"


@contextlib.contextmanager
def groups(kafka: Kafka, entries: Entries) -> Iterator[Groups]:
    """The groups; the members of the one that moved are connected to the proxy."""
    translate = entries["translate"]
    topic = kafka.new_topic(partitions=PARTITIONS)
    kafka.produce(topic, 10 * PARTITIONS)
    found = Groups(
        topic,
        entries["direct"].new_group(),
        translate.new_group(),
        entries["direct"].new_group(),
        translate.bootstrap,
    )
    kafka.commit(found.empty, {(topic, partition): offset for partition, offset in OFFSETS.items()})
    consumers = []
    for group, bootstrap in ((found.classic, kafka.bootstrap), (found.moved, translate.bootstrap)):
        pair = [
            Consumer(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": group,
                    "enable.auto.commit": False,
                    "max.poll.interval.ms": 600_000,
                    "auto.offset.reset": "latest",
                }
            )
            for _ in range(2)
        ]
        consumers += pair
        for one in pair:
            one.subscribe([topic])
        eventually(
            lambda pair=pair: [(one.poll(0.1) and None) or len(one.assignment()) for one in pair],
            lambda owned: owned == [PARTITIONS // 2] * 2,
            what=f"both members of {group} have their partitions",
        )
        for one in pair:
            places = [
                TopicPartition(topic, at.partition, OFFSETS[at.partition])
                for at in one.assignment()
                if at.partition in OFFSETS
            ]
            if places:
                one.commit(offsets=places, asynchronous=False)
    assert kafka.type_of(found.classic) == "classic"
    assert kafka.type_of(found.moved) == "consumer"
    try:
        yield found
    finally:
        for one in consumers:
            one.close()
