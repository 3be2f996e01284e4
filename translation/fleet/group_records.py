"""Records of whole groups in the member log: how far a group's move by steps is, and which members have a slot of it.

They lie in the partition of their group, in one order with the records of its members, and which of two counts is
decided as for these (:mod:`translation.fleet.counting`). A key has a name beside the group, ``move`` or ``slot 3``, and
the writer, so that compaction keeps the record that counts. While a move with gates goes on, each writer has one more
for what it reports of the group (:mod:`translation.fleet.signals`): ``report`` and the first writer of its replica.

A key of four elements can be none of a member's, which has three. So this needs no other format: a release before these
records ignores them, says so in its log, and loses nothing, because nothing that it does looks at them. It does not
know the policy's ``steps`` either, and refuses such a file.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec

from translation.fleet.records import InvalidRecord, MemberKey, Writer, shortened
from translation.fleet.signals import Baseline, Report

LONGEST_VALUE = 4096
"""Bytes of a value: ids are at most 255 characters each."""

MOVE = "move"
"""The name of the record that says how far a group's move is."""

_KIND = "group"
_REPORT = "report "
_ARRAY_OF_FOUR = b"\x94"
"""The first byte of a key: how msgpack begins an array of four."""


class GroupKey(NamedTuple):
    """Names a record of a group; the group id is shortened as in :func:`~translation.fleet.records.member_key`."""

    group_id: str
    name: str

    @property
    def member(self) -> MemberKey:
        """As whoever waits for a record is woken by it (:class:`~translation.fleet.outputs.Settled`)."""
        return MemberKey(self.group_id, self.name)


class Phase(StrEnum):
    """What a move does. A reader takes any word that it does not know for ``held``."""

    MOVING = "moving"
    """Members are told to join the new protocol, as many as the step allows."""
    HELD = "held"
    """Nobody is, and newcomers stay classic; who is translated stays so. Somebody has to say how it goes on."""
    ABORTED = "aborted"
    """The move has done harm: who is translated is moved back, once, and nobody is translated any more."""
    OVER = "over"
    """The policy has no steps for the group any more: the next move begins anew."""


class Move(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the move of a group is. Times are milliseconds by the log's clock (LogAppendTime)."""

    steps: str
    """The policy's steps, as text: with others the move begins anew."""
    number: int = 0
    """Names this move among those of the group: slots say which it was that filled them."""
    step: int = 0
    """The index of the step that it is at."""
    phase: str = Phase.MOVING
    since_ms: int = 0
    """Since when it is at this step, or in this phase."""
    settled_ms: int = 0
    """When the step had settled: as many members were translated as it allows. 0: not yet."""
    converted: bool = False
    """Whether the group has been a consumer group with translated members in this move."""
    why: str = ""
    """Why it is held, for people."""
    baseline: Baseline | None = None
    """What the group was like before the first step, if the move has gates."""
    judged: bool = False
    """Whether its last step was held, and the gates were clear then: they judge no more."""

    @property
    def is_moving(self) -> bool:
        """Whether members may take slots."""
        return self.phase == Phase.MOVING


class Slot(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who has a slot: a member that is translated, or will be in a moment."""

    member_id: str = ""
    """Empty: the slot is free. At first it may be the classic member that is told to join anew."""
    leaves: str = ""
    """The classic membership that the member leaves behind."""
    instance_id: str | None = None
    begun: bool = False
    """Whether the broker has had this member as one of the new protocol."""
    number: int = 0
    """The move in which the slot was filled last, by this member or another; 0: in none."""


class GroupRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of a record: ``move``, ``slot`` or ``report``, by its name. ``version`` and ``first`` as in a member's
    record."""

    version: int
    first: bool = False
    server: str = ""
    move: Move | None = None
    slot: Slot | None = None
    report: Report | None = None


class StoredGroup(NamedTuple):
    """A record with its place in the log. ``appended_ms`` is its LogAppendTime."""

    offset: int
    appended_ms: int
    writer: Writer
    record: GroupRecord


_key_decoder = msgspec.msgpack.Decoder(tuple[str, str, str, bytes])
_value_decoder = msgspec.msgpack.Decoder(GroupRecord)
_encoder = msgspec.msgpack.Encoder()


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
    except msgspec.MsgspecError as error:
        raise InvalidRecord(f"not the key of a group's record: {data[:64]!r}: {error}") from None
    if kind != _KIND:
        raise InvalidRecord(f"not the key of a group's record: {kind!r}")
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
    except msgspec.MsgspecError as error:
        raise InvalidRecord(f"not the value of a group's record: {data[:64]!r}: {error}") from None
