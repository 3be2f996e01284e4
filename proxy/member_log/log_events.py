"""What the client of the member log reports: events, most of which its process sends as they are.

A record comes from there as bytes (:class:`proxy.member_log.log_messages.Record`) and is decoded here, in the proxy
(:mod:`proxy.member_log.record_decoding`).
"""

from typing import NamedTuple

import msgspec

from translation.member_log.counting import Stored
from translation.member_log.group_records import GroupKey, StoredGroup
from translation.member_log.records import Ignored, MemberKey, Writer


class RecordRead(NamedTuple):
    """The next record of a partition; ``stored`` is None for a probe."""

    partition: int
    key: MemberKey
    writer: Writer
    stored: Stored | None
    offset: int
    appended_ms: int
    replica: bytes | None = None
    """Of a probe: which process wrote it (:data:`translation.member_log.replicas.REPLICA_HEADER`)."""


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
    """The next record of a partition is none of the member log; ``why`` is for people.

    ``prober`` wrote it as a probe, whose time is not the broker's.
    """

    partition: int
    offset: int
    reason: Ignored
    why: str
    prober: Writer | None = None


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True, forbid_unknown_fields=True):
    """What the process sends, or is sent."""


class EndReached(Message, frozen=True):
    """Everything before this offset of a partition has been read."""

    partition: int
    position: int


class PartitionLost(Message, frozen=True):
    """What was read of the partition may not be so any more; it is read again, up to ``end`` at least."""

    partition: int
    end: int


class WriteFailed(Message, frozen=True):
    """The outcome of a write of this writer is unknown."""

    writer: Writer
    reason: str


class AccessLost(Message, frozen=True):
    """The log can't be used: a right is missing, or the topic is another.

    It is tried again ``pause_s`` seconds later at the earliest.
    """

    reason: str
    pause_s: float = 0.0


class SettingsRead(Message, frozen=True):
    """The topic's settings were looked up; ``wrong`` says which differ and what mends them, None if none does."""

    wrong: str | None


class PolicyRead(Message, frozen=True):
    """The brokers' ``group.consumer.migration.policy``; None if the account may not know it."""

    policy: str | None


class Noted(Message, frozen=True):
    """Something for the log: librdkafka has reported an error from which it recovers."""

    what: str
    reason: str


ReadEvent = RecordRead | GroupRecordRead | RecordUnknown | RecordIgnored
"""What a record of the topic is."""

LogEvent = (
    ReadEvent | EndReached | PartitionLost | WriteFailed | AccessLost | SettingsRead | PolicyRead | Noted
)
