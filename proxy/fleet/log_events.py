"""What the threads of the member log's client have found: events for the thread of trio."""

from typing import NamedTuple

from translation.fleet.counting import Stored
from translation.fleet.group_records import GroupKey, StoredGroup
from translation.fleet.records import MemberKey, Writer


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


class EndReached(NamedTuple):
    """Everything before this offset of a partition has been read. Also after a record that is none of ours."""

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
    """The account may not read or write the topic, or a record has a format that is not known here."""

    reason: str


LogEvent = RecordRead | GroupRecordRead | EndReached | PartitionLost | WriteFailed | AccessLost
