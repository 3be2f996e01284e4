"""The embedded consumer protocol: what consumers send inside JoinGroup and SyncGroup, opaque to classic brokers.

Each embedded message is an int16 version and a body. Never flexible.

- v0: topics and user data; the assigned partitions.
- v1: a subscription lists the partitions that the member still owns (KIP-429).
- v2: a subscription names the generation in which it owned them.
- v3: a subscription names the member's rack (KIP-881).

Assignments are the same in all four.
"""

from protocol_codecs.codec import Buffer, decode_bounded, decode_prefix, encode
from protocol_codecs.errors import MalformedMessage
from protocol_codecs.fields import array, binary, int32, string
from protocol_codecs.message import Message

NEWEST_EMBEDDED_VERSION = 3
"""The newest version that is written here. A client that claims a newer one reads it too."""

_VERSION_SIZE = 2
_V0, _V1 = 0, 1
_ANY_NUMBER = 2**31 - 1
"""As a bound of elements: none."""


class ConsumerProtocolTopicPartition(Message):
    """Partitions of one topic."""

    topic: str = string()
    partitions: tuple[int, ...] = array(int32)


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """The topics that a consumer subscribes to, and the partitions that it still owns."""

    topics: tuple[str, ...] = array(string)
    user_data: bytes | None = binary(nullable="0+", default=None)
    owned_partitions: tuple[ConsumerProtocolTopicPartition, ...] = array(
        ConsumerProtocolTopicPartition, "1+", ignorable=True
    )
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """The partitions that a consumer is assigned."""

    assigned_partitions: tuple[ConsumerProtocolTopicPartition, ...] = array(ConsumerProtocolTopicPartition)
    user_data: bytes | None = binary(nullable="0+", default=None)


def encode_subscription(message: ConsumerProtocolSubscription, version: int) -> bytes:
    """Encode a subscription with its version before it, as JoinGroup carries it. Raises as ``encode`` does."""
    body = encode(message, version)
    return version.to_bytes(_VERSION_SIZE, "big") + body


def encode_assignment(message: ConsumerProtocolAssignment, version: int) -> bytes:
    """Encode an assignment with its version before it, as SyncGroup carries it. Raises as ``encode`` does."""
    body = encode(message, version)
    return version.to_bytes(_VERSION_SIZE, "big") + body


def decode_subscription(
    buffer: Buffer, max_elements: int = _ANY_NUMBER
) -> tuple[int, ConsumerProtocolSubscription]:
    """Return the version that the embedded subscription claims, and its content, read as Kafka's clients do.

    A version newer than 3 is read as 3, and bytes after the message are ignored: newer versions only append. A v1 that
    ends before its owned partitions (kafka-go writes such) owns nothing. ``max_elements`` bounds the topics and owned
    partitions together, as in ``decode_bounded``. Raises MalformedMessage and TooManyElements.
    """
    claimed, version = _version(ConsumerProtocolSubscription, buffer)
    message, end = decode_bounded(ConsumerProtocolSubscription, _V0, buffer, _VERSION_SIZE, max_elements)
    if version > _V1 or (version == _V1 and end < len(buffer)):
        message, _ = decode_bounded(
            ConsumerProtocolSubscription, version, buffer, _VERSION_SIZE, max_elements
        )
    return claimed, message


def lacks_owned_partitions(buffer: Buffer) -> bool:
    """Whether a subscription says v1 and ends before its owned partitions, as kafka-go writes it.

    :func:`decode_subscription` reads it as owning nothing; brokers can't read it. Raises MalformedMessage.
    """
    _, version = _version(ConsumerProtocolSubscription, buffer)
    _, end = decode_prefix(ConsumerProtocolSubscription, _V0, buffer, _VERSION_SIZE)
    return version == _V1 and end == len(buffer)


def has_user_data(buffer: Buffer) -> bool:
    """Whether a subscription carries user data of its assignor. Raises MalformedMessage."""
    _version(ConsumerProtocolSubscription, buffer)
    message, _ = decode_prefix(ConsumerProtocolSubscription, _V0, buffer, _VERSION_SIZE)
    return bool(message.user_data)


def decode_assignment(
    buffer: Buffer, max_elements: int = _ANY_NUMBER
) -> tuple[int, ConsumerProtocolAssignment]:
    """Return the version that the embedded assignment claims, and its content, read as Kafka's clients do.

    A version newer than 3 is read as 3, and bytes after the message are ignored. ``max_elements`` bounds topics and
    partitions together, as in ``decode_bounded``. Raises MalformedMessage and TooManyElements.
    """
    claimed, version = _version(ConsumerProtocolAssignment, buffer)
    message, _ = decode_bounded(ConsumerProtocolAssignment, version, buffer, _VERSION_SIZE, max_elements)
    return claimed, message


def _version(message_type: type[Message], buffer: Buffer) -> tuple[int, int]:
    """Return the version in front of an embedded message, and the version in which to read it."""
    if len(buffer) < _VERSION_SIZE:
        raise MalformedMessage(
            message_type.__name__, 0, f"{message_type.__name__}.(version)", 0, f"{len(buffer)} bytes in all"
        )
    claimed = int.from_bytes(buffer[:_VERSION_SIZE], "big", signed=True)
    if claimed < 0:
        raise MalformedMessage(
            message_type.__name__, claimed, f"{message_type.__name__}.(version)", 0, "negative version"
        )
    return claimed, min(claimed, message_type.__schema__.versions.high)
