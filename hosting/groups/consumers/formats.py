"""What consumers write into JoinGroup and SyncGroup, as a hosted group reads it and writes it anew."""

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from coordinator.partitions import Partitions
from protocol_codecs.codec import encode
from protocol_codecs.fields import array, int32
from protocol_codecs.message import Message
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.uuids import Uuid

MOST_ELEMENTS = 20_000
"""Topics and partitions that one subscription, or the assignments of a whole group, may name: as many as the proxy
decodes of a group call by default (``limits.group_call_max_elements``). Reading them holds up everything else."""

STICKY, COOPERATIVE_STICKY = "sticky", "cooperative-sticky"
_FIRST_WITH_OWNED = 1
_NEWEST = 3


class StickyUserData(Message, versions="0"):
    """What Java's StickyAssignor remembers of itself (its ``STICKY_ASSIGNOR_USER_DATA_V1``)."""

    previous_assignment: tuple[ConsumerProtocolTopicPartition, ...] = array(ConsumerProtocolTopicPartition)
    generation: int = int32()


class CooperativeStickyUserData(Message, versions="0"):
    """What Java's CooperativeStickyAssignor remembers of itself (its ``COOPERATIVE_STICKY_ASSIGNOR_USER_DATA_V0``)."""

    generation: int = int32()


class Subscription(msgspec.Struct, frozen=True):
    """A client's subscription for one of its assignors, and the version in which it came."""

    version: int
    message: ConsumerProtocolSubscription


def topic_id_of(name: str) -> Uuid:
    """Return the id of a topic in a hosted group. It means nothing to a broker."""
    return Uuid(blake2b(name.encode(), digest_size=16).digest())


def read_subscription(metadata: bytes) -> Subscription:
    """Read a subscription. Raises MalformedMessage and TooManyElements."""
    version, message = decode_subscription(metadata, MOST_ELEMENTS)
    return Subscription(min(version, _NEWEST), message)


def owned_in(subscription: Subscription) -> Partitions:
    """Return what a client says that it still owns."""
    owned: dict[Uuid, tuple[int, ...]] = {}
    for topic in subscription.message.owned_partitions:
        topic_id = topic_id_of(topic.topic)
        owned[topic_id] = (*owned.get(topic_id, ()), *topic.partitions)
    return {topic_id: numbers for topic_id, numbers in owned.items() if numbers}


def for_leader(
    assignor: str,
    subscription: Subscription,
    owned: tuple[ConsumerProtocolTopicPartition, ...],
    generation: int,
) -> bytes:
    """Return a member's subscription as the leader is told it: with these partitions as its own."""
    message = msgspec.structs.replace(subscription.message, owned_partitions=(), generation_id=-1)
    if assignor == STICKY:
        user_data = encode(StickyUserData(previous_assignment=owned, generation=generation), 0)
        message = msgspec.structs.replace(message, user_data=user_data)
    elif assignor == COOPERATIVE_STICKY:
        user_data = encode(CooperativeStickyUserData(generation=generation), 0)
        message = msgspec.structs.replace(message, user_data=user_data)
    if subscription.version >= _FIRST_WITH_OWNED:
        message = msgspec.structs.replace(message, owned_partitions=owned, generation_id=generation)
    return encode_subscription(message, subscription.version)


def topics_of(
    partitions: Partitions, names: Mapping[Uuid, str]
) -> tuple[ConsumerProtocolTopicPartition, ...]:
    """Return partitions by the names of their topics, in order."""
    named = sorted((names[topic_id], tuple(sorted(numbers))) for topic_id, numbers in partitions.items())
    return tuple(ConsumerProtocolTopicPartition(topic=name, partitions=numbers) for name, numbers in named)


def assignment(
    partitions: Partitions, names: Mapping[Uuid, str], user_data: bytes | None, version: int
) -> bytes:
    """Return the assignment of a member that has these partitions, in a version that its assignor has written."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=topics_of(partitions, names), user_data=user_data
    )
    return encode_assignment(message, min(version, _NEWEST))


def read_assignment(content: bytes) -> tuple[int, ConsumerProtocolAssignment]:
    """Read what a leader has computed for a member; nothing is nothing. Raises MalformedMessage, TooManyElements."""
    if not content:
        return 0, ConsumerProtocolAssignment()
    version, message = decode_assignment(content, MOST_ELEMENTS)
    return version, message


def read_assignments(contents: Mapping[str, bytes]) -> dict[str, ConsumerProtocolAssignment]:
    """Read what a leader has computed for all members. Raises MalformedMessage, and TooManyElements for all of it."""
    left = MOST_ELEMENTS
    decoded = {}
    for member_id, content in contents.items():
        message = ConsumerProtocolAssignment()
        if content:
            _, message = decode_assignment(content, left)
        left -= sum(1 + len(topic.partitions) for topic in message.assigned_partitions)
        decoded[member_id] = message
    return decoded


def partitions_of(message: ConsumerProtocolAssignment) -> Partitions:
    """Return the partitions of an assignment."""
    partitions: dict[Uuid, tuple[int, ...]] = {}
    for topic in message.assigned_partitions:
        topic_id = topic_id_of(topic.topic)
        partitions[topic_id] = (*partitions.get(topic_id, ()), *topic.partitions)
    return {topic_id: numbers for topic_id, numbers in partitions.items() if numbers}


def user_data_of(content: bytes) -> bytes | None:
    """Return the user data of an assignment that was read before."""
    return read_assignment(content)[1].user_data
