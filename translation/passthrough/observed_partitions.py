"""Partitions as the calls of observed members name them: classic calls by topic name, the new protocol by topic id."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from protocol_codecs import CodecError, Uuid
from protocol_codecs.messages.consumer_protocol import decode_assignment, decode_subscription
from protocol_codecs.messages.join_group import JoinGroupRequest
from protocol_codecs.uuids import uuid_to_text
from translation.partitions import TopicPartitions, TopicPartitionSet

Owned = frozenset[tuple[str, Uuid | None, int]]
"""(topic name or empty, topic id or None, partition index)."""

NOTHING: Owned = frozenset()

CONSUMER = "consumer"
"""The protocol type whose subscriptions and assignments are Kafka's own."""


def in_heartbeat(topics: Iterable[Any]) -> Owned:
    """Return the partitions of a ConsumerGroupHeartbeat: an owned list, or an assignment."""
    return frozenset(("", topic.topic_id, index) for topic in topics for index in topic.partitions)


def in_join_group(message: JoinGroupRequest) -> Owned:
    """Return the owned partitions that a JoinGroup reports; all its protocols carry the same list."""
    if message.protocol_type != CONSUMER or not message.protocols:
        return NOTHING
    reported_owned: set[tuple[str, Any, int]] = set()
    for protocol in message.protocols:
        try:
            _, subscription = decode_subscription(protocol.metadata)
        except CodecError:
            continue
        reported_owned.update(
            (owned.topic, None, index)
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
        (topic.topic, None, index) for topic in message.assigned_partitions for index in topic.partitions
    )


def to_topic_partitions(partitions: Owned, name_of: Callable[[Uuid], str]) -> TopicPartitions:
    """Return the set for people and the journal; ``name_of`` returns the names of topics that are known by id."""
    indexes: defaultdict[tuple[str, bytes], list[int]] = defaultdict(list)
    for name, topic_id, index in partitions:
        indexes[name, topic_id or b""].append(index)
    named = sorted(
        (name or (name_of(Uuid(topic_id)) if topic_id else ""), topic_id, index)
        for (name, topic_id), index in indexes.items()
    )
    return tuple(
        TopicPartitionSet(name, uuid_to_text(Uuid(topic_id)) if topic_id else None, tuple(sorted(index)))
        for name, topic_id, index in named
    )
