"""Records of the member log's topic as somebody could write them who may write it."""

from typing import Any

import msgspec

from proxy.member_log.log_events import ReadEvent
from proxy.member_log.record_decoding import LOG_APPEND_TIME, RawRecord, decode_record
from translation.member_log.formats import DEFAULT_FORMAT, FORMAT_HEADER, FORMATS
from translation.member_log.records import MemberKey, Writer, encode_key, member_key, partition_of

GROUP = "payments"
PARTITIONS = 4
PARTITION = partition_of(member_key(GROUP, ""), PARTITIONS)
OTHER = Writer(bytes(16))
APPENDED_MS = 1_000_000_000
OFFSET = 100
HEADER = FORMATS[DEFAULT_FORMAT].header


def raw(key: object, value: object, **changed: Any) -> RawRecord:
    """A record in the partition of the group; ``changed`` are fields of it."""
    made = RawRecord(PARTITION, OFFSET, (LOG_APPEND_TIME, APPENDED_MS), {FORMAT_HEADER: HEADER}, key, value)
    return made._replace(**changed)


def read(key: object, value: object, **changed: Any) -> ReadEvent:
    """What a replica makes of the record."""
    return decode_record(raw(key, value, **changed), PARTITIONS)


def key_of(member_id: str = "m", group_id: str = GROUP) -> bytes:
    """The key of a member's record."""
    return encode_key(MemberKey(group_id, member_id), OTHER)


def group_key_of(name: str, group_id: str = GROUP) -> bytes:
    """The key of a group's record."""
    return msgspec.msgpack.encode(("group", group_id, name, OTHER))


def packed(**fields: Any) -> bytes:
    """A value that has just these fields."""
    return msgspec.msgpack.encode(fields)
