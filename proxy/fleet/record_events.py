"""Decodes the records of the member log that its process has read."""

import structlog

from proxy.fleet.log_events import AccessLost, EndReached, GroupRecordRead, RecordRead
from proxy.fleet.log_messages import Record
from translation.fleet.counting import Stored
from translation.fleet.formats import UnknownFormat, format_of
from translation.fleet.group_records import (
    StoredGroup,
    decode_group_key,
    decode_group_value,
    is_group_key,
)
from translation.fleet.records import PROBE, InvalidRecord, decode_key

_logger = structlog.get_logger()


def event_of(read: Record) -> RecordRead | GroupRecordRead | EndReached | AccessLost:
    """What a record of the topic means. One that is none of the log's only moves the position."""
    partition, offset, appended_ms = read.partition, read.offset, read.appended_ms
    try:
        written_in = format_of(read.format)
    except UnknownFormat as unknown:
        return AccessLost(f"partition {partition} has a record at offset {offset} of {unknown}")
    try:
        if is_group_key(_bytes(read.key)):
            group, writer = decode_group_key(_bytes(read.key))
            record = decode_group_value(_bytes(read.value))
            return GroupRecordRead(partition, group, StoredGroup(offset, appended_ms, writer, record))
        member, writer = decode_key(_bytes(read.key))
        if member == PROBE or read.value is None:
            return RecordRead(partition, member, writer, None, offset, appended_ms, read.replica)
        stored = Stored(offset, appended_ms, writer, written_in.decode(_bytes(read.value)))
    except InvalidRecord as invalid:
        _logger.warning(
            "a record of the member log is ignored", partition=partition, offset=offset, why=str(invalid)
        )
        return EndReached(partition, offset + 1)
    return RecordRead(partition, member, writer, stored, offset, appended_ms)


def _bytes(data: bytes | None) -> bytes:
    if data is None:
        raise InvalidRecord("no key, or no value")
    return data
