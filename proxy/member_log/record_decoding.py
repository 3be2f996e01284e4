"""Decides what a record of the member log's topic is, and why one is skipped. Whoever may write the topic can put
anything there.

Nothing in a record ends the reading of the log: what is none of ours, or says what no writer of ours says, is an event
that names why, is counted, shown and skipped. All replicas of a release decide alike, by the record and its place.

* Its key, value and header are decoded by bounded decoders (:mod:`protocol_codecs.foreign`); each field has a range.
* Its ``version`` names a place in the partition before its own: a writer has not seen what comes after its record.
* Its timestamp is the broker's (LogAppendTime), so nobody makes others forget what is young, and times in it are not
  later than that by more than clocks of brokers differ.
* **A format of a later release.** What such a record says is not known, but whose it is: keys are the same in all
  formats. A member's stands for ``ended``: it is served here no longer, epoch -1 is sent for it by nobody here, and its
  client joins anew if it comes here. The moves of a group stay as they are for a while
  (:meth:`~translation.member_log.group_log.GroupLog.read_unknown`).
"""

from collections.abc import Mapping
from typing import NamedTuple

import structlog

from proxy.member_log.log_events import GroupRecordRead, ReadEvent, RecordIgnored, RecordRead, RecordUnknown
from translation.member_log.counting import CLOCK_SKEW_MS, Stored
from translation.member_log.formats import FORMAT_HEADER, Format, format_of, known_formats
from translation.member_log.group_records import (
    GroupRecord,
    StoredGroup,
    decode_group_key,
    decode_group_value,
    is_group_key,
    times_of,
)
from translation.member_log.records import (
    PROBE,
    Ignored,
    InvalidRecord,
    Kind,
    MemberKey,
    MemberRecord,
    Writer,
    decode_key,
    partition_of,
)
from translation.member_log.replicas import LONGEST_HEADER, REPLICA_HEADER

LOG_APPEND_TIME = 2
"""The type of a timestamp that the broker has set, as librdkafka numbers it."""

_LONGEST_WHY = 300
_BYTES_OF_RECORD = 1_000

_logger = structlog.get_logger()


class RawRecord(NamedTuple):
    """A record as the topic has it. ``timestamp`` is its type and milliseconds since 1970."""

    partition: int
    offset: int
    timestamp: tuple[int, int]
    headers: Mapping[str, object]
    key: object
    value: object


def decode_record(raw: RawRecord, partitions: int) -> ReadEvent:
    """Return what a record is, in a topic of so many partitions. One that meets a bug here is skipped too."""
    try:
        return _decoded(raw, partitions)
    except InvalidRecord as invalid:
        return RecordIgnored(raw.partition, raw.offset, invalid.reason, str(invalid)[:_LONGEST_WHY])
    except Exception as error:
        _logger.exception("a record met an unexpected error")
        return RecordIgnored(raw.partition, raw.offset, Ignored.ERROR, repr(error)[:_LONGEST_WHY])


def _prober(raw: RawRecord) -> Writer | None:
    """Return the writer of a record, if it is a probe."""
    try:
        key, writer = decode_key(_bytes(raw.key, Ignored.KEY))
    except InvalidRecord:
        return None
    return writer if key == PROBE else None


def _decoded(raw: RawRecord, partitions: int) -> ReadEvent:
    kind, appended_ms = raw.timestamp
    if kind != LOG_APPEND_TIME:
        why = "its timestamp is not the broker's (message.timestamp.type)"
        return RecordIgnored(raw.partition, raw.offset, Ignored.TIME, why, _prober(raw))
    written_in = format_of(raw.headers.get(FORMAT_HEADER))
    key = _bytes(raw.key, Ignored.KEY)
    if is_group_key(key):
        return _group_record(raw, key, written_in, partitions)
    member, writer = decode_key(key)
    if member == PROBE:
        replica = raw.headers.get(REPLICA_HEADER)
        name = replica if isinstance(replica, bytes) and len(replica) <= LONGEST_HEADER else None
        return RecordRead(raw.partition, member, writer, None, raw.offset, appended_ms, name)
    _check_partition(member, raw.partition, partitions)
    if written_in is None:
        stored = Stored(raw.offset, appended_ms, writer, MemberRecord(Kind.ENDED, raw.offset))
        return RecordUnknown(raw.partition, member, stored, raw.offset, appended_ms, _unknown(raw))
    record = written_in.decode(_bytes(raw.value, Ignored.VALUE))
    _check_version(record.version, raw.offset)
    stored = Stored(raw.offset, appended_ms, writer, record)
    return RecordRead(raw.partition, member, writer, stored, raw.offset, appended_ms)


def _group_record(raw: RawRecord, data: bytes, written_in: Format | None, partitions: int) -> ReadEvent:
    _, appended_ms = raw.timestamp
    key, writer = decode_group_key(data)
    _check_partition(key.member, raw.partition, partitions)
    if written_in is None:
        return RecordUnknown(raw.partition, key, None, raw.offset, appended_ms, _unknown(raw))
    value = _bytes(raw.value, Ignored.VALUE)
    record = decode_group_value(value)
    _check_version(record.version, raw.offset)
    _check_times(record, appended_ms)
    stored = StoredGroup(raw.offset, appended_ms, writer, record, _BYTES_OF_RECORD + 3 * len(value))
    return GroupRecordRead(raw.partition, key, stored, value)


def _check_partition(key: MemberKey, partition: int, partitions: int) -> None:
    if not key.group_id:
        raise InvalidRecord("no group id", Ignored.KEY)
    if partition_of(key, partitions) != partition:
        raise InvalidRecord("in another partition than its group", Ignored.PLACE)


def _check_version(version: int, offset: int) -> None:
    if version > offset:
        raise InvalidRecord(f"at offset {offset}, its version is {version}", Ignored.PLACE)


def _check_times(record: GroupRecord, appended_ms: int) -> None:
    latest = max(times_of(record), default=0)
    if latest > appended_ms + CLOCK_SKEW_MS:
        raise InvalidRecord(f"it speaks of {latest}, and was appended at {appended_ms} ms", Ignored.TIME)


def _unknown(raw: RawRecord) -> str:
    return f"format {raw.headers.get(FORMAT_HEADER)!r:.64}; this release reads {known_formats()}"


def _bytes(data: object, reason: Ignored) -> bytes:
    if not isinstance(data, bytes):
        raise InvalidRecord(f"it has no {reason}, or one that is too long", reason)
    return data
