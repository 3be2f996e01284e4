"""The records of ``__consumer_offsets``: which key belongs to which value, and how both are encoded.

A key is an int16 record type and a message; a value is an int16 version and a message, or null for a tombstone, which
deletes the entry of its key. Readers skip types that are not declared here (share groups, streams groups).
"""

from enum import IntEnum

import msgspec

from protocol_codecs.codec import decode, encode
from protocol_codecs.errors import MalformedMessage
from protocol_codecs.message import Message
from protocol_codecs.records import classic_group, consumer_group, offset_commit

_PREFIX_SIZE = 2
_KEY_VERSION = 0


class RecordType(IntEnum):
    """The record types that are declared here, by Kafka's numbers."""

    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16


_LEGACY_OFFSET_COMMIT = 0
"""Offsets as Kafka 0.8 wrote them; the same key and value as type 1."""


class CoordinatorRecord(msgspec.Struct, frozen=True, gc=False):
    """One record; without a value it is a tombstone."""

    key: Message
    value: Message | None = None


class _Declared(msgspec.Struct, frozen=True):
    key: type[Message]
    value: type[Message]
    value_version: int
    """The version that Kafka writes."""


_DECLARED: dict[int, _Declared] = {
    RecordType.OFFSET_COMMIT: _Declared(offset_commit.OffsetCommitKey, offset_commit.OffsetCommitValue, 4),
    RecordType.GROUP_METADATA: _Declared(classic_group.GroupMetadataKey, classic_group.GroupMetadataValue, 3),
    RecordType.CONSUMER_GROUP_METADATA: _Declared(
        consumer_group.ConsumerGroupMetadataKey, consumer_group.ConsumerGroupMetadataValue, 0
    ),
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: _Declared(
        consumer_group.ConsumerGroupPartitionMetadataKey,
        consumer_group.ConsumerGroupPartitionMetadataValue,
        0,
    ),
    RecordType.CONSUMER_GROUP_MEMBER_METADATA: _Declared(
        consumer_group.ConsumerGroupMemberMetadataKey, consumer_group.ConsumerGroupMemberMetadataValue, 0
    ),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _Declared(
        consumer_group.ConsumerGroupTargetAssignmentMetadataKey,
        consumer_group.ConsumerGroupTargetAssignmentMetadataValue,
        0,
    ),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _Declared(
        consumer_group.ConsumerGroupTargetAssignmentMemberKey,
        consumer_group.ConsumerGroupTargetAssignmentMemberValue,
        0,
    ),
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _Declared(
        consumer_group.ConsumerGroupCurrentMemberAssignmentKey,
        consumer_group.ConsumerGroupCurrentMemberAssignmentValue,
        0,
    ),
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: _Declared(
        consumer_group.ConsumerGroupRegularExpressionKey,
        consumer_group.ConsumerGroupRegularExpressionValue,
        0,
    ),
}
_TYPE_OF_KEY = {declared.key: number for number, declared in _DECLARED.items()}
_EXPIRING_OFFSET_VERSION = 1


def encode_key(key: Message) -> bytes:
    """Encode a record's key. Raises KeyError for a message that is no key."""
    return _TYPE_OF_KEY[type(key)].to_bytes(_PREFIX_SIZE, "big") + encode(key, _KEY_VERSION)


def encode_value(record: CoordinatorRecord) -> bytes | None:
    """Encode a record's value in the version that Kafka writes; None for a tombstone."""
    value = record.value
    if value is None:
        return None
    version = _DECLARED[_TYPE_OF_KEY[type(record.key)]].value_version
    if isinstance(value, offset_commit.OffsetCommitValue) and value.expire_timestamp >= 0:
        version = _EXPIRING_OFFSET_VERSION
    return version.to_bytes(_PREFIX_SIZE, "big") + encode(value, version)


def decode_record(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """Decode a record; None if its type is not declared here.

    Raises MalformedMessage and UnsupportedVersion.
    """
    number = _prefix(key, "CoordinatorRecord.key")
    declared = _DECLARED.get(RecordType.OFFSET_COMMIT if number == _LEGACY_OFFSET_COMMIT else number)
    if declared is None:
        return None
    decoded = decode(declared.key, _KEY_VERSION, key, _PREFIX_SIZE)
    if value is None:
        return CoordinatorRecord(decoded)
    version = _prefix(value, "CoordinatorRecord.value")
    return CoordinatorRecord(decoded, decode(declared.value, version, value, _PREFIX_SIZE))


def _prefix(content: bytes, field: str) -> int:
    if len(content) < _PREFIX_SIZE:
        raise MalformedMessage("CoordinatorRecord", 0, field, 0, f"{len(content)} bytes in all")
    return int.from_bytes(content[:_PREFIX_SIZE], "big", signed=True)
