"""Partitions as the calls of observed members name them: classic calls by topic name, the new protocol by topic id.

Tasks of Streams applications are named by subtopology and partition.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from protocol_codecs import CodecError, Uuid
from protocol_codecs.messages.consumer_protocol import decode_assignment, decode_subscription
from protocol_codecs.messages.join_group import JoinGroupRequest
from protocol_codecs.uuids import uuid_to_text
from translation.partitions import Role, TopicPartitions, TopicPartitionSet

Owned = frozenset[tuple[str, Uuid | None, int, Role]]
"""(topic name or empty, topic id or None, partition index, role); of a task the subtopology stands for the topic."""

NOTHING: Owned = frozenset()

CONSUMER = "consumer"
"""The protocol type whose subscriptions and assignments are Kafka's own."""

_LONGEST_ID = 255
"""Characters of a subtopology's id. The application makes it up; Kafka Streams numbers them."""

# Bound once: Python 3.11 looks for a member of an enum for as long as a small message takes to be decoded.
_PARTITION = Role.PARTITION


def in_heartbeat(topics: Iterable[Any]) -> Owned:
    """Return the partitions of a ConsumerGroupHeartbeat: an owned list, or an assignment."""
    return frozenset(
        ("", topic.topic_id, index, _PARTITION) for topic in topics for index in topic.partitions
    )


def in_tasks(active: Iterable[Any], standby: Iterable[Any], warm_up: Iterable[Any]) -> Owned:
    """Return the tasks of a StreamsGroupHeartbeat; those of subtopologies with a long id are left out."""
    return frozenset(
        (one.subtopology_id, None, index, role)
        for role, listed in ((Role.ACTIVE, active), (Role.STANDBY, standby), (Role.WARM_UP, warm_up))
        for one in listed
        if len(one.subtopology_id) <= _LONGEST_ID
        for index in one.partitions
    )


def in_join_group(message: JoinGroupRequest) -> Owned:
    """Return the owned partitions that a JoinGroup reports; all its protocols carry the same list."""
    if message.protocol_type != CONSUMER or not message.protocols:
        return NOTHING
    reported_owned: set[tuple[str, Uuid | None, int, Role]] = set()
    for protocol in message.protocols:
        try:
            _, subscription = decode_subscription(protocol.metadata)
        except CodecError:
            continue
        reported_owned.update(
            (owned.topic, None, index, _PARTITION)
            for owned in subscription.owned_partitions
            for index in owned.partitions
        )
    return frozenset(reported_owned)


def in_assignment(assignment: bytes) -> Owned:
    """Return what SyncGroup assigned to a consumer; nothing if that can't be read."""
    try:
        _, message = decode_assignment(assignment)
    except CodecError:
        return NOTHING  # a leader may give a member zero bytes
    return frozenset(
        (topic.topic, None, index, _PARTITION)
        for topic in message.assigned_partitions
        for index in topic.partitions
    )


def to_topic_partitions(partitions: Owned, name_of: Callable[[Uuid], str]) -> TopicPartitions:
    """Return the set for people and the journal; ``name_of`` returns the names of topics that are known by id."""
    indexes: defaultdict[tuple[Role, str, bytes], list[int]] = defaultdict(list)
    for name, topic_id, index, role in partitions:
        indexes[role, name, topic_id or b""].append(index)
    named = sorted(
        (role, name or (name_of(Uuid(topic_id)) if topic_id else ""), topic_id, index)
        for (role, name, topic_id), index in indexes.items()
    )
    return tuple(
        TopicPartitionSet(
            name, uuid_to_text(Uuid(topic_id)) if topic_id else None, tuple(sorted(index)), role
        )
        for role, name, topic_id, index in named
    )
