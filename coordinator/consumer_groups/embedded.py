"""Converts between topic ids and the embedded consumer protocol, which has topic names."""

from collections.abc import Iterable

import msgspec

from coordinator.image import MetadataImage
from coordinator.partitions import Partitions
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartition,
    decode_assignment,
    encode_assignment,
)
from protocol_codecs.uuids import Uuid

_HIGHEST_VERSION = 3


class OwnedTopic(msgspec.Struct, frozen=True):
    """Partitions of one topic that a classic member reports as owned, by topic id."""

    topic_id: Uuid
    partitions: tuple[int, ...]


def embedded_version(content: bytes) -> int:
    """Return the version of an embedded message, which the answer uses too."""
    return min(int.from_bytes(content[:2], "big", signed=True), _HIGHEST_VERSION)


def embedded_assignment(
    partitions: Partitions, image: MetadataImage, version: int, user_data: bytes = b""
) -> bytes:
    """Encode an assignment in the embedded protocol; deleted topics are left out.

    ``user_data`` is what a client-side assignor says to a classic member.
    """
    topics = tuple(
        ConsumerProtocolTopicPartition(topic=topic.name, partitions=tuple(numbers))
        for topic_id, numbers in partitions.items()
        if (topic := image.by_id(topic_id)) is not None
    )
    assignment = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data or None)
    return encode_assignment(assignment, version)


def assigned_partitions(content: bytes, image: MetadataImage) -> tuple[Partitions, bytes]:
    """Return the partitions of an embedded assignment, and its user data. Raises MalformedMessage."""
    _, assignment = decode_assignment(content)
    partitions = {
        # A recreated topic may have fewer partitions, and assignors fail on those that no longer exist.
        topic.topic_id: tuple(number for number in assigned.partitions if number < topic.partitions)
        for assigned in assignment.assigned_partitions
        if (topic := image.by_name(assigned.topic)) is not None
    }
    return partitions, assignment.user_data or b""


def owned_topics(
    owned: Iterable[ConsumerProtocolTopicPartition], image: MetadataImage
) -> tuple[OwnedTopic, ...]:
    """Return the owned partitions of a subscription; deleted topics are left out."""
    return tuple(
        OwnedTopic(topic.topic_id, claimed.partitions)
        for claimed in owned
        if (topic := image.by_name(claimed.topic)) is not None
    )
