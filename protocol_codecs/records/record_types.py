"""The record types of one internal topic: how keys and values are encoded, and which belong together."""

from collections.abc import Callable, Mapping

import msgspec

from protocol_codecs.codec import decode, encode
from protocol_codecs.errors import MalformedMessage
from protocol_codecs.message import Message

_PREFIX_SIZE = 2
_KEY_VERSION = 0


class CoordinatorRecord(msgspec.Struct, frozen=True, gc=False):
    """One record; without a value it is a tombstone."""

    key: Message
    value: Message | None = None


class Declared(msgspec.Struct, frozen=True):
    """One record type: its key and its value."""

    key: type[Message]
    value: type[Message]
    value_version: int = 0
    """The version that Kafka writes."""


class TopicCodec(msgspec.Struct, frozen=True):
    """Encodes and decodes the records of one internal topic."""

    encode_key: Callable[[Message], bytes]
    encode_value: Callable[[CoordinatorRecord], bytes | None]
    decode: Callable[[bytes, bytes | None], CoordinatorRecord | None]


class RecordTypes:
    """All declared record types of a topic, by their numbers.

    A key is an int16 record type and a message; a value is an int16 version and a message, or null for a tombstone.
    """

    def __init__(self, declared: Mapping[int, Declared]) -> None:
        self._declared = dict(declared)
        self._number_of = {one.key: number for number, one in declared.items()}

    def encode_key(self, key: Message) -> bytes:
        """Encode a record's key. Raises KeyError for a message that is no key of this topic."""
        return self._number_of[type(key)].to_bytes(_PREFIX_SIZE, "big") + encode(key, _KEY_VERSION)

    def encode_value(self, record: CoordinatorRecord, version: int | None = None) -> bytes | None:
        """Encode a record's value, by default in the version that Kafka writes; None for a tombstone."""
        if record.value is None:
            return None
        if version is None:
            version = self._declared[self._number_of[type(record.key)]].value_version
        return version.to_bytes(_PREFIX_SIZE, "big") + encode(record.value, version)

    def decode(self, number: int, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """Decode a record as one of this type; None if the type is not declared.

        Raises MalformedMessage and UnsupportedVersion.
        """
        declared = self._declared.get(number)
        if declared is None:
            return None
        decoded = decode(declared.key, _KEY_VERSION, key, _PREFIX_SIZE)
        if value is None:
            return CoordinatorRecord(decoded)
        version = _prefix(value, "CoordinatorRecord.value")
        return CoordinatorRecord(decoded, decode(declared.value, version, value, _PREFIX_SIZE))


def number_of(key: bytes) -> int:
    """Return the number of a record's type. Raises MalformedMessage if the key is too short for one."""
    return _prefix(key, "CoordinatorRecord.key")


def _prefix(content: bytes, field: str) -> int:
    if len(content) < _PREFIX_SIZE:
        raise MalformedMessage("CoordinatorRecord", 0, field, 0, f"{len(content)} bytes in all")
    return int.from_bytes(content[:_PREFIX_SIZE], "big", signed=True)
