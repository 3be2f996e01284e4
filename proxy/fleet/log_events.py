"""What the threads of the member log's client have found: events for the thread of trio."""

from typing import NamedTuple

from translation.fleet.counting import Stored
from translation.fleet.group_records import GroupKey, StoredGroup
from translation.fleet.records import Ignored, MemberKey, Writer


class RecordRead(NamedTuple):
    """The next record of a partition; ``stored`` is None for a probe."""

    partition: int
    key: MemberKey
    writer: Writer
    stored: Stored | None
    offset: int
    appended_ms: int
    replica: bytes | None = None
    """Of a probe: which process wrote it (:data:`translation.fleet.replicas.REPLICA_HEADER`)."""


class GroupRecordRead(NamedTuple):
    """The next record of a partition is one of a whole group."""

    partition: int
    key: GroupKey
    stored: StoredGroup
    value: bytes = b""
    """The record as it was written, for its MAC."""


class RecordUnknown(NamedTuple):
    """The next record of a partition has a format that this release does not know; ``stored`` is what it stands for.

    For a record of a whole group, ``stored`` is None and ``key`` names the group.
    """

    partition: int
    key: MemberKey | GroupKey
    stored: Stored | None
    offset: int
    appended_ms: int
    why: str


class RecordIgnored(NamedTuple):
    """The next record of a partition is none of the member log; ``why`` is for people."""

    partition: int
    offset: int
    reason: Ignored
    why: str


class EndReached(NamedTuple):
    """Everything before this offset of a partition has been read."""

    partition: int
    position: int


class PartitionLost(NamedTuple):
    """What was read of the partition may not be so any more; it is read again, up to ``end`` at least."""

    partition: int
    end: int


class WriteFailed(NamedTuple):
    """The outcome of a write of this writer is unknown."""

    writer: Writer
    reason: str


class AccessLost(NamedTuple):
    """The account may not read or write the topic."""

    reason: str


ReadEvent = RecordRead | GroupRecordRead | RecordUnknown | RecordIgnored
"""What a record of the topic is."""

LogEvent = ReadEvent | EndReached | PartitionLost | WriteFailed | AccessLost
