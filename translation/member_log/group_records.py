"""Records of whole groups in the member log: how far a move by steps is, who has a slot of it, and what is proven.

They lie in the partition of their group, in one order with the records of its members, and which of two counts is
decided as for these (:mod:`translation.member_log.counting`). A key has a name beside the group, ``move``, ``slot 3``,
``proof`` or ``mend``, and the writer, so that compaction keeps the record that counts. While a move with gates goes on,
each writer has one more for what it reports of the group (:mod:`translation.member_log.signals`): ``report`` and the
first writer of its replica.

A key of four elements can be none of a member's, which has three. So this needs no other format: a release before these
records ignores them, says so in its log, and loses nothing, because nothing that it does looks at them. It does not
know the policy's ``steps`` either, and refuses such a file.
"""

from enum import StrEnum
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from protocol_codecs.foreign import MsgpackDecoder, Undecodable
from translation.member_log.records import (
    LONGEST_KEY,
    Count,
    Ignored,
    InvalidRecord,
    MemberKey,
    Name,
    Writer,
    WriterName,
    shortened,
)
from translation.member_log.signals import Baseline, Report

LONGEST_VALUE = 4096
"""Bytes of a value: ids are at most 255 characters each."""

LONGEST_WORDS = 200
"""Characters of a text for people in a record."""

MOST_MENDS = 5
"""Tries to mend a group. After the last one, a quarter of an hour after the first, somebody has to look why it does not
help."""
MOST_HOOK_CALLS = 1_000
"""Tries of a hook are counted so far: the pauses between them grow no more long before that."""

MOVE = "move"
"""The name of the record that says how far a group's move is."""

PROOF = "proof"
"""The name of the record that says what a replica has proven of the group."""

MEND = "mend"
"""The name of the record that says when something was last done about partitions that nobody has."""

HOST = "host"
"""The name of the record that says which replica hosts the group (``mode: host``, an experiment)."""

_KIND = "group"
_REPORT = "report "
_ARRAY_OF_FOUR = b"\x94"
"""The first byte of a key: how msgpack begins an array of four."""


class GroupKey(NamedTuple):
    """Names a record of a group; the group id is shortened as in :func:`~translation.member_log.records.member_key`."""

    group_id: str
    name: str

    @property
    def member(self) -> MemberKey:
        """As whoever waits for a record is woken by it (:class:`~translation.member_log.outputs.Settled`)."""
        return MemberKey(self.group_id, self.name)


class Phase(StrEnum):
    """What a move does. A reader takes any word that it does not know for ``held``."""

    AWAITING = "awaiting"
    """The first step has not begun: it waits for an approval, a window of time or a hook."""
    MOVING = "moving"
    """Members are told to join the new protocol, as many as the step allows."""
    HELD = "held"
    """Nobody is, and newcomers stay classic; who is translated stays so. Somebody has to say how it goes on."""
    PAUSED = "paused"
    """As ``held``, because somebody has said so."""
    ABORTED = "aborted"
    """As ``rolled_back``, because the move has done harm."""
    ROLLED_BACK = "rolled_back"
    """Every translated member goes back to the classic protocol, one after another, and the group stays classic until
    somebody says how it goes on, or the policy has other steps for it."""
    OVER = "over"
    """The policy has no steps for the group any more: the next move begins anew."""


class LastCommand(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last command about a move."""

    act: str
    """The command."""
    by: str
    """Who: the subject of a certificate, or a user id of this machine; at most :data:`LONGEST_WORDS` characters."""
    at_ms: Count
    """When, by the log's clock."""
    id: str
    """Names the command, so that whoever gave it finds out that it counts."""
    step: Count = 0
    """The step that was approved, counted from 1."""


class HookCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """The hook is asked whether a step may begin. One process asks: that whose record counts."""

    step: Count
    """The index of the step."""
    by: str
    """Which process asks."""
    asked_ms: Count
    tries: Annotated[int, Meta(ge=1, le=MOST_HOOK_CALLS)] = 1
    why: str = ""
    """Why it may not, for people; empty while there is no answer."""


class Move(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the move of a group is. Times are milliseconds by the log's clock (LogAppendTime)."""

    steps: str
    """The policy's steps, as text: with others the move begins anew."""
    number: Count = 0
    """Names this move among those of the group: slots say which it was that filled them."""
    step: Count = 0
    """The index of the step that it is at."""
    phase: str = Phase.MOVING
    since_ms: Count = 0
    """Since when it is at this step, or in this phase."""
    settled_ms: Count = 0
    """When the step had settled: as many members were translated as it allows. 0: not yet."""
    converted: bool = False
    """Whether the group has been a consumer group with translated members in this move."""
    why: str = ""
    """Why it is held, for people."""
    approved: Count = 0
    """So many of its steps are approved, from the first on."""
    said: LastCommand | None = None
    hook: HookCall | None = None
    baseline: Baseline | None = None
    """What the group was like before the first step, if the move has gates."""
    unproven: str = ""
    """Who let it go on although the step before was not proven, and why; empty if nobody had to."""
    proven: bool = False
    """Whether the last step is proven, if the rule asks for that."""
    judged: bool = False
    """Whether its last step was held, and the gates were clear then: they judge no more."""

    @property
    def is_moving(self) -> bool:
        """Whether members may take slots."""
        return self.phase == Phase.MOVING

    @property
    def is_rolled_back(self) -> bool:
        """Whether nobody of the group is to be translated any more."""
        return self.phase in (Phase.ABORTED, Phase.ROLLED_BACK)


class Slot(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who has a slot: a member that is translated, or will be in a moment."""

    member_id: str = ""
    """Empty: the slot is free. At first it may be the classic member that is made to rejoin."""
    leaves: str = ""
    """The classic membership that the member leaves behind."""
    instance_id: str | None = None
    begun: bool = False
    """Whether the broker has had this member as one of the new protocol."""
    number: Count = 0
    """The move in which the slot was filled last, by this member or another; 0: in none."""


class Proof(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the live verification found in a group, when the record was written.

    It has lengths of time, not times: with the record's LogAppendTime they say since when by the log's clock, which no
    replica's clock disturbs.
    """

    clean_ms: Count = 0
    """For how long nothing had spoken against the group, up to the last look."""
    ago_ms: Count = 0
    """How long before the writing that look was."""
    violated: bool = False
    """Whether two owners are found in all that has been read."""
    why: str = ""
    """What spoke against it last, for people."""


class Mend(msgspec.Struct, frozen=True, omit_defaults=True):
    """What replicas tell each other of partitions that nobody has (:mod:`translation.moving.mend`)."""

    moved_back: bool = False
    """Whether members of it were translated, and were told to go back to the classic protocol."""
    tries: Annotated[int, Meta(ge=0, le=MOST_MENDS)] = 0
    """How often something was done about the same partitions; the last time is when the record was appended."""
    unowned: Count = 0
    """Names these partitions (:func:`translation.mending.findings.digest_of`)."""


class Host(msgspec.Struct, frozen=True, omit_defaults=True):
    """The replica that wrote this hosts the group."""

    is_over: bool = False
    """Nobody hosts it any more: it had no members here when this was written."""
    is_takeover: bool = False
    """The host before did not say that it was over: its members may not have heard that they are none any more."""


class GroupRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of a record: ``move``, ``slot``, ``report``, ``proof``, ``mend`` or ``host``, by its name.

    ``version`` and ``first`` are as in a member's record.
    """

    version: Count
    first: bool = False
    server: Name = ""
    move: Move | None = None
    slot: Slot | None = None
    report: Report | None = None
    proof: Proof | None = None
    mend: Mend | None = None
    host: Host | None = None
    signed_ms: Count = 0
    """When it was signed, by the log's clock."""
    mac: Annotated[bytes, Meta(max_length=32)] = b""
    """Empty without a key (:mod:`translation.member_log.group_mac`). It stays the last field."""


class StoredGroup(NamedTuple):
    """A record with its place in the log. ``appended_ms`` is its LogAppendTime."""

    offset: int
    appended_ms: int
    writer: Writer
    record: GroupRecord
    size: int = 1_000
    """About how much memory it takes, in bytes."""
    is_trusted: bool = True
    """Whether it is authenticated, where the replicas have a key for that."""


_key_decoder = MsgpackDecoder(tuple[Name, Name, Name, WriterName], LONGEST_KEY)
_value_decoder = MsgpackDecoder(GroupRecord, LONGEST_VALUE)
_encoder = msgspec.msgpack.Encoder()


def times_of(record: GroupRecord) -> list[int]:
    """The times that a record speaks of, by the log's clock, in milliseconds since 1970."""
    move = record.move
    if move is None:
        return []
    said = () if move.said is None else (move.said.at_ms,)
    asked = () if move.hook is None else (move.hook.asked_ms,)
    taken = () if move.baseline is None else (move.baseline.at_ms,)
    return [move.since_ms, move.settled_ms, *said, *asked, *taken]


def group_key(group_id: str, name: str) -> GroupKey:
    """The key of a record of this group."""
    return GroupKey(shortened(group_id), name)


def slot_name(number: int) -> str:
    """The name of the record that says who has a slot, from 1."""
    return f"slot {number}"


def slot_number(name: str) -> int | None:
    """The number of the slot that a record of this name is about; None if it is about no slot."""
    kind, _, number = name.partition(" ")
    return int(number) if kind == "slot" and number.isdecimal() else None


def report_name(first: Writer) -> str:
    """The name of the record that has the report of the replica whose first writer this is."""
    return f"{_REPORT}{first.hex()}"


def is_finding(name: str) -> bool:
    """Whether a record with this name says what a replica has found out or does: others do not renew it."""
    return name in (PROOF, MEND, HOST) or is_report_name(name)


def is_report_name(name: str) -> bool:
    """Whether a record of this name has the report of a replica."""
    return name.startswith(_REPORT)


def is_group_key(data: bytes) -> bool:
    """Whether this is the key of a group's record, and not of a member's."""
    return data[:1] == _ARRAY_OF_FOUR


def encode_group_key(key: GroupKey, writer: Writer) -> bytes:
    """The key of a record as bytes."""
    return _encoder.encode((_KIND, *key, writer))


def decode_group_key(data: bytes) -> tuple[GroupKey, Writer]:
    """Return the group, the name and the writer of a record.

    :raises InvalidRecord: it is no key of a group's record.
    """
    try:
        kind, group_id, name, writer = _key_decoder.decode(data)
    except Undecodable as error:
        raise InvalidRecord(f"not the key of a group's record: {error}", Ignored.KEY) from None
    if kind != _KIND:
        raise InvalidRecord(f"not the key of a group's record: {kind!r}", Ignored.KEY)
    return GroupKey(group_id, name), Writer(writer)


def encode_group_value(record: GroupRecord) -> bytes:
    """The value of a record as bytes.

    :raises InvalidRecord: longer than :data:`LONGEST_VALUE`.
    """
    data = _encoder.encode(record)
    if len(data) > LONGEST_VALUE:
        raise InvalidRecord(f"a record of {len(data)} bytes; {LONGEST_VALUE} is the limit")
    return data


def decode_group_value(data: bytes) -> GroupRecord:
    """Return the value of a record.

    :raises InvalidRecord: it is none of a group.
    """
    try:
        return _value_decoder.decode(data)
    except Undecodable as error:
        raise InvalidRecord(f"not the value of a group's record: {error}") from None
