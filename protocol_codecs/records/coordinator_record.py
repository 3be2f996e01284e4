"""The records of ``__consumer_offsets``: which key belongs to which value, and how both are encoded.

A key is an int16 record type and a message; a value is an int16 version and a message, or null for a tombstone, which
deletes the entry of its key. Readers skip types that are not declared here (streams groups).
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import partial

from protocol_codecs.message import Message
from protocol_codecs.records import classic_group, consumer_group, offset_commit, share_group
from protocol_codecs.records.record_types import (
    CoordinatorRecord,
    Declared,
    RecordTypes,
    TopicCodec,
    number_of,
)


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
    SHARE_GROUP_MEMBER_METADATA = 10
    SHARE_GROUP_METADATA = 11
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = 12
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = 13
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = 14
    SHARE_GROUP_STATE_PARTITION_METADATA = 15
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16


_LEGACY_OFFSET_COMMIT = 0
"""Offsets as Kafka 0.8 wrote them; the same key and value as type 1."""

_DECLARED: dict[int, Declared] = {
    RecordType.OFFSET_COMMIT: Declared(offset_commit.OffsetCommitKey, offset_commit.OffsetCommitValue, 4),
    RecordType.GROUP_METADATA: Declared(classic_group.GroupMetadataKey, classic_group.GroupMetadataValue, 3),
    RecordType.CONSUMER_GROUP_METADATA: Declared(
        consumer_group.ConsumerGroupMetadataKey, consumer_group.ConsumerGroupMetadataValue
    ),
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: Declared(
        consumer_group.ConsumerGroupPartitionMetadataKey,
        consumer_group.ConsumerGroupPartitionMetadataValue,
    ),
    RecordType.CONSUMER_GROUP_MEMBER_METADATA: Declared(
        consumer_group.ConsumerGroupMemberMetadataKey, consumer_group.ConsumerGroupMemberMetadataValue
    ),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Declared(
        consumer_group.ConsumerGroupTargetAssignmentMetadataKey,
        consumer_group.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Declared(
        consumer_group.ConsumerGroupTargetAssignmentMemberKey,
        consumer_group.ConsumerGroupTargetAssignmentMemberValue,
    ),
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Declared(
        consumer_group.ConsumerGroupCurrentMemberAssignmentKey,
        consumer_group.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    RecordType.SHARE_GROUP_MEMBER_METADATA: Declared(
        share_group.ShareGroupMemberMetadataKey, share_group.ShareGroupMemberMetadataValue
    ),
    RecordType.SHARE_GROUP_METADATA: Declared(
        share_group.ShareGroupMetadataKey, share_group.ShareGroupMetadataValue
    ),
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: Declared(
        share_group.ShareGroupTargetAssignmentMetadataKey,
        share_group.ShareGroupTargetAssignmentMetadataValue,
    ),
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: Declared(
        share_group.ShareGroupTargetAssignmentMemberKey,
        share_group.ShareGroupTargetAssignmentMemberValue,
    ),
    RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: Declared(
        share_group.ShareGroupCurrentMemberAssignmentKey,
        share_group.ShareGroupCurrentMemberAssignmentValue,
    ),
    RecordType.SHARE_GROUP_STATE_PARTITION_METADATA: Declared(
        share_group.ShareGroupStatePartitionMetadataKey,
        share_group.ShareGroupStatePartitionMetadataValue,
    ),
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: Declared(
        consumer_group.ConsumerGroupRegularExpressionKey,
        consumer_group.ConsumerGroupRegularExpressionValue,
    ),
}
_TYPES = RecordTypes(_DECLARED)
_EXPIRING_OFFSET_VERSION = 1


def encode_key(key: Message) -> bytes:
    """Encode a record's key. Raises KeyError for a message that is no key."""
    return _TYPES.encode_key(key)


def encode_value(record: CoordinatorRecord) -> bytes | None:
    """Encode a record's value in the version that Kafka writes; None for a tombstone."""
    return _encode_value(_TYPES, record)


def decode_record(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """Decode a record; None if its type is not declared here.

    Raises MalformedMessage and UnsupportedVersion.
    """
    return _decode_record(_TYPES, key, value)


def consumer_offsets_codec(instead: Mapping[int, Declared]) -> TopicCodec:
    """Return a codec of the topic in which these types, by number, are declared otherwise."""
    types = RecordTypes({**_DECLARED, **instead})
    return TopicCodec(types.encode_key, partial(_encode_value, types), partial(_decode_record, types))


def _encode_value(types: RecordTypes, record: CoordinatorRecord) -> bytes | None:
    value = record.value
    if isinstance(value, offset_commit.OffsetCommitValue) and value.expire_timestamp >= 0:
        return types.encode_value(record, _EXPIRING_OFFSET_VERSION)
    return types.encode_value(record)


def _decode_record(types: RecordTypes, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    number = number_of(key)
    return types.decode(RecordType.OFFSET_COMMIT if number == _LEGACY_OFFSET_COMMIT else number, key, value)


CONSUMER_OFFSETS = TopicCodec(encode_key, encode_value, decode_record)
"""``__consumer_offsets``."""
