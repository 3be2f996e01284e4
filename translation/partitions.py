"""Sets of partitions by topic id, and their forms in messages.

Assignments are compared by topic id, not by name: a topic that was deleted and created again keeps its
name, but its partitions are other partitions.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from itertools import groupby
from typing import Protocol

import msgspec

from protocol_codecs import Uuid
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions
from protocol_codecs.uuids import uuid_to_text

Partitions = frozenset[tuple[Uuid, int]]
"""(topic id, partition index) pairs."""

NONE: Partitions = frozenset()


class Role(StrEnum):
    """What a member has, if that is not partitions of a topic."""

    PARTITION = ""
    """Partitions of a topic."""

    ACTIVE = "active"
    """Tasks of a Streams application that process records."""

    STANDBY = "standby"
    """Tasks of a Streams application that keep a copy of a state store."""

    WARM_UP = "warm_up"
    """Tasks of a Streams application that read a state store in order to become active."""

    CONNECT = "connect"
    """Tasks of a connector of Kafka Connect; -1 among them is the connector itself."""


class TopicPartitionSet(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Partitions of one topic, as people and the journal read them.

    ``topic`` is empty if only the id is known, ``id`` (in Kafka's text form) is None if only the name is. With a
    ``role`` they are tasks of Kafka Streams or Kafka Connect: ``topic`` is the id of a subtopology, or a connector.
    """

    topic: str
    id: str | None
    partitions: tuple[int, ...]
    role: Role = Role.PARTITION


TopicPartitions = tuple[TopicPartitionSet, ...]
"""Partitions by topic; two topics of the same name, one of them deleted, are two of these."""


class TopicOffsets(msgspec.Struct, frozen=True, gc=False):
    """Offsets that a commit names for partitions of a topic, in their order, and those ``before`` (-1: not known)."""

    topic: str
    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    before: tuple[int, ...]


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


def visible_to_client(
    assigned: Partitions, names: Mapping[Uuid, str], subscription: Collection[str]
) -> Partitions:
    """The part of an assignment that a client can be told: of topics known by name and in its subscription.

    Clients break on partitions of topics that they did not subscribe to (aiokafka ends with an error).
    """
    return frozenset([pair for pair in assigned if names.get(pair[0]) in subscription])


def created_anew(owned: Partitions, assigned: Partitions, names: Mapping[Uuid, str]) -> Partitions:
    """The owned partitions that are assigned again under another topic id: their topic was deleted and created again.

    Clients know partitions by name. One that gets such an assignment goes on with the new partition, and has nothing
    to revoke.
    """
    if owned <= assigned:
        return NONE
    by_client = {(names.get(topic_id), index) for topic_id, index in assigned}
    return frozenset(
        [pair for pair in owned - assigned if pair[0] in names and (names[pair[0]], pair[1]) in by_client]
    )


def to_topic_partitions(partitions: Partitions, names: Mapping[Uuid, str]) -> TopicPartitions:
    """The set for people: sorted by name and index, with the topic's id."""
    return tuple(
        sorted(
            (
                TopicPartitionSet(
                    names.get(topic_id, ""), uuid_to_text(topic_id), tuple(index for _, index in pairs)
                )
                for topic_id, pairs in groupby(sorted(partitions), key=lambda pair: pair[0])
            ),
            key=lambda one: (one.topic, one.id or ""),
        )
    )
