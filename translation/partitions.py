"""Sets of partitions by topic id, and their forms in messages.

Assignments are compared by topic id, not by name: a topic that was deleted and created again keeps its
name, but its partitions are other partitions.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Protocol

from protocol_codecs import Uuid
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions

Partitions = frozenset[tuple[Uuid, int]]
"""(topic id, partition index) pairs."""

NONE: Partitions = frozenset()


class _HasTopicPartitions(Protocol):
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def partitions(self) -> tuple[int, ...]: ...


def from_topics(topics: Iterable[_HasTopicPartitions]) -> Partitions:
    """The set for the topic partitions of a ConsumerGroupHeartbeat answer."""
    return frozenset((topic.topic_id, index) for topic in topics for index in topic.partitions)


def to_topics(partitions: Partitions) -> tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...]:
    """The owned list of a ConsumerGroupHeartbeat request, in a stable order."""
    return tuple(
        ConsumerGroupHeartbeatRequestTopicPartitions(
            topic_id=topic_id, partitions=tuple(index for _, index in pairs)
        )
        for topic_id, pairs in groupby(sorted(partitions), key=lambda pair: pair[0])
    )


def by_name(partitions: Partitions, names: Mapping[Uuid, str]) -> dict[str, tuple[int, ...]]:
    """Partition indexes by topic name, sorted; topics whose name is not known are left out."""
    out: dict[str, list[int]] = {}
    for topic_id, index in sorted(partitions):
        name = names.get(topic_id)
        if name is not None:
            out.setdefault(name, []).append(index)
    return {name: tuple(sorted(indexes)) for name, indexes in sorted(out.items())}
