"""Sets of partitions of groups, members and requests: plain dicts, never modified once they are shared."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from protocol_codecs.uuids import Uuid

Partitions = Mapping[Uuid, tuple[int, ...]]
"""Partitions by topic id; no topic without partitions."""
EpochedPartitions = Mapping[Uuid, Mapping[int, int]]
"""Partitions by topic id, each with the epoch at which its owner got it (KIP-1251)."""


class TopicPartitionsMessage(Protocol):
    """The partitions of one topic, as heartbeats carry them."""

    @property
    def topic_id(self) -> Uuid: ...  # noqa: D102
    @property
    def partitions(self) -> tuple[int, ...]: ...  # noqa: D102


def same_partitions(some: Partitions, other: Partitions) -> bool:
    """Whether both contain the same partitions, in any order."""
    return some.keys() == other.keys() and all(set(some[t]) == set(other[t]) for t in some)


def with_epoch(partitions: Partitions, epoch: int) -> EpochedPartitions:
    """Return the partitions with this assignment epoch for each."""
    return {topic_id: dict.fromkeys(numbers, epoch) for topic_id, numbers in partitions.items()}


def is_subset(owned: Iterable[TopicPartitionsMessage] | None, assigned: EpochedPartitions) -> bool:
    """Whether all owned partitions are assigned. False if the member does not report what it owns (None)."""
    if owned is None:
        return False
    return all(
        topic.topic_id in assigned and set(topic.partitions) <= assigned[topic.topic_id].keys()
        for topic in owned
    )


def intersects(owned: Iterable[TopicPartitionsMessage] | None, partitions: EpochedPartitions) -> bool:
    """Whether any of these may still be owned. A member that does not report what it owns (None) may own all."""
    if owned is None:
        return True
    return any(number in partitions.get(topic.topic_id, {}) for topic in owned for number in topic.partitions)


def heartbeat_assignment(assigned: EpochedPartitions) -> ConsumerGroupHeartbeatResponseAssignment:
    """Return the partitions that the member may own, for the answer to a heartbeat."""
    return ConsumerGroupHeartbeatResponseAssignment(topic_partitions=heartbeat_topics(assigned))


def heartbeat_topics(
    partitions: Partitions | EpochedPartitions,
) -> tuple[ConsumerGroupHeartbeatResponseTopicPartitions, ...]:
    """Return the partitions in the form of a heartbeat's answer."""
    return tuple(
        ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=tuple(numbers))
        for topic_id, numbers in partitions.items()
    )
