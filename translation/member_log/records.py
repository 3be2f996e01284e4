"""The records of the member log: keys, values, partitions, and how they are written as bytes.

A record says what one *writer* wants to be true of one member of a group. Whether it counts is decided by
:mod:`translation.member_log.counting`. Keys and values are msgpack; this is format 1 of
:mod:`translation.member_log.formats`, which says what may change in it.
"""

import sys
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, NamedTuple, NewType

import msgspec
from msgspec import Meta

from protocol_codecs.foreign import MsgpackDecoder, Undecodable
from translation.member_log.snapshots import LONGEST_SNAPSHOT, NO_SNAPSHOT

Writer = NewType("Writer", bytes)
"""Names one producer object: 16 random bytes. A process that replaces its producer has had several.

Never a host or a pod: a record of an earlier producer may still land after its successor has read the log.
"""

LONGEST_NAME = 255
"""Characters of a group or member id that is written as it is; of a longer one its hash is."""
LENGTH_OF_HASH = 64

LONGEST_KEY = 4096
"""Bytes of a key: a group's has three texts."""

LONGEST_VALUE = 4096 + LONGEST_SNAPSHOT
"""Bytes of a value. A record that the broker refuses for its size would be refused for ever."""

NO_GENERATION = -1
"""Which generation a client has is not known."""

_PROBE = "probe"

Name = Annotated[str, Meta(max_length=LONGEST_NAME)]
"""A text that is shortened before it is written (:func:`shortened`)."""
WriterName = Annotated[bytes, Meta(min_length=1, max_length=16)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""As in the client's own call."""
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A number that is never negative: of a record's place, of members, of milliseconds."""


class Kind(StrEnum):
    """What a record says of its member."""

    SERVED = "served"
    """The writer serves the member: its session and rebalance timeouts run there and nowhere else."""
    EXPIRING = "expiring"
    """The member id is dead: anybody may send member epoch -1 for it, or may have sent it."""
    ENDED = "ended"
    """The member id is dead, and the broker is known to have no such member any more."""
    RELAYED = "relayed"
    """The broker itself serves the id, as a classic member."""

    @property
    def is_dead(self) -> bool:
        """Whether nobody may serve or relay the member id any more."""
        return self is Kind.EXPIRING or self is Kind.ENDED


class MemberKey(NamedTuple):
    """Names a member. Both ids are shortened to :data:`LONGEST_NAME` characters (:func:`member_key`)."""

    group_id: str
    member_id: str


class MemberRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of a record.

    ``version`` and ``first`` say what its writer had read (:mod:`translation.member_log.counting`). The
    timeouts are those of the client's JoinGroup: another process that takes the member over goes by them until the
    client has joined there. ``generation`` is the client's as of its last SyncGroup (-1: not known): commits with an
    older one are refused also where the member is not served. ``snapshot`` is what another process needs to go on
    without a rejoin (:mod:`translation.member_log.snapshots`); it stays bytes until it is needed. ``server`` names the
    process for people; no rule looks at it.
    """

    kind: Kind
    version: Count
    first: bool = False
    server: Name = ""
    instance_id: Name | None = None
    session_timeout_ms: Int32 = 45_000
    rebalance_timeout_ms: Int32 = 300_000
    generation: Annotated[int, Meta(ge=NO_GENERATION, le=2**31 - 1)] = NO_GENERATION
    snapshot: Annotated[bytes, Meta(max_length=LONGEST_SNAPSHOT)] = NO_SNAPSHOT


class Ignored(StrEnum):
    """Why a record of the topic is skipped: a closed list, for metrics."""

    KEY = "key"
    """Its key is none of the member log."""
    VALUE = "value"
    """Its value is none, or a field is out of range."""
    FORMAT = "format"
    """It names no format, or one that this release does not know."""
    PLACE = "place"
    """It says that its writer has seen what comes after it, or lies in another partition than its group."""
    TIME = "time"
    """Its timestamp is not the broker's, or it speaks of the future."""
    MAC = "mac"
    """It is not authenticated by the key that the replicas share."""
    ERROR = "error"
    """It met a bug of this release; the log has it."""


class InvalidRecord(Exception):
    """A record is none of the member log. All readers ignore it; ``reason`` says why."""

    def __init__(self, why: str, reason: Ignored = Ignored.VALUE) -> None:
        super().__init__(why)
        self.reason = reason


_key_decoder = MsgpackDecoder(tuple[Name, Name, WriterName], LONGEST_KEY)
_value_decoder = MsgpackDecoder(MemberRecord, LONGEST_VALUE)
_encoder = msgspec.msgpack.Encoder()


def member_key(group_id: str, member_id: str) -> MemberKey:
    """The key of a member. An id that is too long is replaced by its hash, so that a record stays small."""
    return MemberKey(shortened(group_id), shortened(member_id))


def shortened(name: str) -> str:
    """The name itself, or its hash if it is longer than :data:`LONGEST_NAME`."""
    if len(name) <= LONGEST_NAME:
        return name
    return sha256(name.encode()).hexdigest()


def partition_of(key: MemberKey, partitions: int) -> int:
    """The partition of all records of this group, which therefore have one order."""
    import crc32c  # noqa: PLC0415 - with importlib.metadata, for a member log

    return crc32c.crc32c(key.group_id.encode()) % partitions


def encode_key(key: MemberKey, writer: Writer) -> bytes:
    """The key of a record, by which the topic is compacted: each writer has its own of a member."""
    return _encoder.encode((key.group_id, key.member_id, writer))


def decode_key(data: bytes) -> tuple[MemberKey, Writer]:
    """Return the member and the writer of a record.

    :raises InvalidRecord: it is no key of the member log.
    """
    try:
        group_id, member_id, writer = _key_decoder.decode(data)
    except Undecodable as error:
        raise InvalidRecord(f"not the key of a member: {error}", Ignored.KEY) from None
    # Thousands of dead members of one group are kept: their group's id is one text.
    return MemberKey(sys.intern(group_id), member_id), Writer(writer)


def encode_value(record: MemberRecord) -> bytes:
    """The value of a record, as bytes.

    :raises InvalidRecord: longer than :data:`LONGEST_VALUE`; an instance id may be.
    """
    data = _encoder.encode(record)
    if len(data) > LONGEST_VALUE:
        raise InvalidRecord(f"a record of {len(data)} bytes; {LONGEST_VALUE} is the limit")
    return data


def decode_value(data: bytes) -> MemberRecord:
    """Return the value of a record.

    :raises InvalidRecord: it is none of the member log.
    """
    try:
        return _value_decoder.decode(data)
    except Undecodable as error:
        raise InvalidRecord(f"not the value of a member: {error}") from None


PROBE = MemberKey("", _PROBE)
"""Each process writes such a record to each partition now and then, with no value (a tombstone).

Reading it back shows that the partition can be written and read. No group of Kafka has an empty id.
"""
