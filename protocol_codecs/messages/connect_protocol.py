"""The embedded protocol of Kafka Connect: what workers send inside JoinGroup and SyncGroup (protocol type ``connect``).

Each embedded message is an int16 version and a body. Never flexible.

- v0 (``default``): where the worker's REST API listens, and how far it has read the topic of configurations. An
  assignment is all that the worker runs from then on.
- v1 (``compatible``, KIP-415): the metadata carries what the worker runs now, itself an embedded assignment. An
  assignment is a difference: what the worker takes up, what it gives up, and when it joins again by itself.
- v2 (``sessioned``, KIP-507): the same as v1.
"""

from typing import TypeVar

from protocol_codecs.codec import Buffer, decode_bounded, encode
from protocol_codecs.errors import MalformedMessage
from protocol_codecs.fields import array, binary, int16, int32, int64, string
from protocol_codecs.message import Message

CONNECTOR = -1
"""Stands among the tasks of a connector for the connector itself."""

FIRST_INCREMENTAL_VERSION = 1
"""The version since which an assignment is a difference."""

M = TypeVar("M", bound=Message)

_VERSION_SIZE = 2
_V0, _V1 = 0, 1
_ANY_NUMBER = 2**31 - 1
"""As a bound of elements: none."""
_NULL, _ZERO = b"\xff\xff\xff\xff", b"\0\0\0\0"
_IF_IT_ENDS_BEFORE = {
    "ConnectProtocolMetadata.allocation": _NULL,
    "ConnectProtocolAssignment.assignment": _NULL + _NULL + _ZERO,
    "ConnectProtocolAssignment.revoked": _NULL + _ZERO,
    "ConnectProtocolAssignment.delay": _ZERO,
}
"""The defaults of what a message of v1 lacks, by its first field that has no bytes (KIP-415: tolerated)."""


class ConnectProtocolConnector(Message):
    """Tasks of one connector, and :data:`CONNECTOR` for the connector itself."""

    connector: str = string()
    tasks: tuple[int, ...] = array(int32)


class ConnectProtocolMetadata(Message, versions="0-2"):
    """A worker as it joins. ``allocation`` is what it runs, an embedded assignment; None if it runs nothing."""

    url: str = string()
    config_offset: int = int64()
    allocation: bytes | None = binary("1+", nullable="1+", default=None, ignorable=True)


class ConnectProtocolAssignment(Message, versions="0-2"):
    """What a worker has to run. ``leader`` is the member id of the worker that has assigned it.

    ``error`` is 1 if workers have read different configurations; then they read on and join again. ``delay`` is after
    how many milliseconds the workers join again by themselves, 0 if they do not: what a lost worker ran, or is to be
    revoked, waits until then.
    """

    error: int = int16()
    leader: str = string()
    leader_url: str = string()
    config_offset: int = int64()
    assignment: tuple[ConnectProtocolConnector, ...] | None = array(
        ConnectProtocolConnector, nullable="1+", default=()
    )
    revoked: tuple[ConnectProtocolConnector, ...] | None = array(
        ConnectProtocolConnector, "1+", nullable="1+", default=None, ignorable=True
    )
    delay: int = int32("1+", ignorable=True)


def encode_metadata(message: ConnectProtocolMetadata, version: int) -> bytes:
    """Encode metadata with its version before it, as JoinGroup carries it. Raises as ``encode`` does."""
    return version.to_bytes(_VERSION_SIZE, "big") + encode(message, version)


def encode_assignment(message: ConnectProtocolAssignment, version: int) -> bytes:
    """Encode an assignment with its version before it, as SyncGroup carries it. Raises as ``encode`` does."""
    return version.to_bytes(_VERSION_SIZE, "big") + encode(message, version)


def decode_metadata(buffer: Buffer, max_elements: int = _ANY_NUMBER) -> tuple[int, ConnectProtocolMetadata]:
    """Return the version that the embedded metadata claims, and its content, read as Kafka's workers do.

    A version newer than 2 is read as 2, and bytes after the message are ignored. Metadata of v1 that ends behind the
    fields of v0 is of a worker that runs nothing. Raises MalformedMessage and TooManyElements.
    """
    return _decode(ConnectProtocolMetadata, buffer, max_elements)


def decode_assignment(
    buffer: Buffer, max_elements: int = _ANY_NUMBER
) -> tuple[int, ConnectProtocolAssignment]:
    """Return the version that the embedded assignment claims, and its content, as :func:`decode_metadata` does.

    An assignment of v1 may end behind any field from ``config_offset`` on: it assigns or revokes nothing then, and has
    no delay. ``max_elements`` bounds connectors and tasks together, as in ``decode_bounded``.
    """
    return _decode(ConnectProtocolAssignment, buffer, max_elements)


def _decode(message_type: type[M], buffer: Buffer, max_elements: int) -> tuple[int, M]:
    name = message_type.__name__
    if len(buffer) < _VERSION_SIZE:
        raise MalformedMessage(name, 0, f"{name}.(version)", 0, f"{len(buffer)} bytes in all")
    claimed = int.from_bytes(buffer[:_VERSION_SIZE], "big", signed=True)
    if claimed < 0:
        raise MalformedMessage(name, claimed, f"{name}.(version)", 0, "negative version")
    version = min(claimed, message_type.__schema__.versions.high)
    try:
        message, _ = decode_bounded(message_type, version, buffer, _VERSION_SIZE, max_elements)
    except MalformedMessage as error:
        rest = _IF_IT_ENDS_BEFORE.get(error.field)
        if version < _V1 or rest is None or error.offset != len(buffer):
            raise
        whole = bytes(buffer) + rest
        message, _ = decode_bounded(message_type, version, whole, _VERSION_SIZE, max_elements)
    return claimed, message
