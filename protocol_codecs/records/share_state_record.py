"""The records of ``__share_group_state``: which key belongs to which value, and how both are encoded.

Their type numbers mean something else in ``__consumer_offsets`` (:mod:`coordinator_record`).
"""

from enum import IntEnum

from protocol_codecs.message import Message
from protocol_codecs.records import share_state
from protocol_codecs.records.record_types import (
    CoordinatorRecord,
    Declared,
    RecordTypes,
    TopicCodec,
    number_of,
)


class ShareStateRecordType(IntEnum):
    """The record types of the topic, by Kafka's numbers."""

    SHARE_SNAPSHOT = 0
    SHARE_UPDATE = 1


_TYPES = RecordTypes(
    {
        ShareStateRecordType.SHARE_SNAPSHOT: Declared(
            share_state.ShareSnapshotKey, share_state.ShareSnapshotValue
        ),
        ShareStateRecordType.SHARE_UPDATE: Declared(share_state.ShareUpdateKey, share_state.ShareUpdateValue),
    }
)


def encode_share_state_key(key: Message) -> bytes:
    """Encode a record's key. Raises KeyError for a message that is no key of this topic."""
    return _TYPES.encode_key(key)


def encode_share_state_value(record: CoordinatorRecord) -> bytes | None:
    """Encode a record's value in the version that Kafka writes; None for a tombstone."""
    return _TYPES.encode_value(record)


def decode_share_state_record(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """Decode a record; None if its type is not declared here.

    Raises MalformedMessage and UnsupportedVersion.
    """
    return _TYPES.decode(number_of(key), key, value)


SHARE_STATE = TopicCodec(encode_share_state_key, encode_share_state_value, decode_share_state_record)
"""``__share_group_state``."""
