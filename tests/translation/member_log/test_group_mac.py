"""With a key that the replicas share, nobody else who may write the topic lets a move go on."""

import msgspec
import pytest

from translation.member_log.group_mac import FRESH_MS, NOT_AUTHENTICATED, GroupMac
from translation.member_log.group_records import (
    MOVE,
    PROOF,
    GroupKey,
    GroupRecord,
    Move,
    Phase,
    Proof,
    Slot,
    StoredGroup,
    decode_group_value,
    encode_group_value,
    group_key,
)
from translation.member_log.member_log import MemberLog
from translation.member_log.outputs import WriteRecord
from translation.member_log.records import Writer
from translation.member_log.settings import FleetSettings

GROUP, KEY = "payments", group_key("payments", MOVE)
SECRET = b"k" * 32
OWN, THEIRS, SOMEBODY = Writer(b"own"), Writer(b"theirs"), Writer(b"somebody")
NOW_MS = 1_000_000_000
MOVING = Move("1,100%", 7, 1, Phase.MOVING, since_ms=5, approved=2)


class Log:
    """A member log of one partition with the key, that is ready, and records put into it by hand."""

    def __init__(self, secret: bytes | None = SECRET) -> None:
        self.log = MemberLog(
            FleetSettings(partitions=1), OWN, 0.0, None if secret is None else GroupMac(secret)
        )
        self.log.replay_to(0, 0, 0.0)
        self.log.outputs()
        self.now_ms = NOW_MS
        self.offset = 0
        self.log.read_probe(0, OWN, self.next(), self.now_ms, 0.0)
        assert self.log.groups.is_ready(GROUP)

    def next(self) -> int:
        self.offset += 1
        return self.offset

    def put(self, value: bytes, writer: Writer = SOMEBODY, key: GroupKey = KEY) -> bool:
        stored = StoredGroup(self.next(), self.now_ms, writer, decode_group_value(value))
        return self.log.read_group(0, key, stored, value)

    def forge(self, move: Move = MOVING, version: int | None = None) -> bool:
        record = GroupRecord(self.offset + 1 if version is None else version, move=move)
        return self.put(encode_group_value(record))

    def write(self, move: Move) -> bytes:
        """What this replica writes, read back; its value."""
        assert self.log.groups.write(GROUP, MOVE, 0.0, move=move) == KEY
        (written,) = [one for one in self.log.outputs() if isinstance(one, WriteRecord)]
        assert written.value is not None
        assert self.put(written.value, OWN)
        assert not self.log.groups.is_unresolved(KEY)
        return written.value

    @property
    def move(self) -> Move | None:
        stored = self.log.groups.of_group(GROUP).get(MOVE)
        return stored and stored.record.move


def test_what_a_replica_writes_is_authenticated_for_all_that_have_the_key() -> None:
    one, other = Log(), Log()
    value = one.write(MOVING)
    assert one.move == MOVING
    assert other.put(value, OWN)
    assert other.move == MOVING


def test_a_replica_without_the_key_reads_records_with_a_mac_as_any_other() -> None:
    value, plain = Log().write(MOVING), Log(None)
    assert plain.put(value)
    assert plain.move == MOVING
    assert plain.forge(msgspec.structs.replace(MOVING, approved=9))
    assert plain.move is not None
    assert plain.move.approved == 9, "whoever may write the topic can approve"


@pytest.mark.parametrize("phase", [one for one in Phase if one not in (Phase.ABORTED, Phase.ROLLED_BACK)])
def test_a_forged_move_approves_nothing_and_lets_nobody_move(phase: Phase) -> None:
    log = Log()
    assert not log.forge(msgspec.structs.replace(MOVING, phase=phase))
    assert log.move is not None
    assert (log.move.phase, log.move.approved, log.move.why) == (Phase.HELD, 0, NOT_AUTHENTICATED)


def test_what_was_rolled_back_before_there_was_a_key_stays_so() -> None:
    log = Log()
    log.forge(msgspec.structs.replace(MOVING, phase=Phase.ABORTED))
    assert log.move is not None
    assert (log.move.phase, log.move.approved) == (Phase.ABORTED, 0)


def test_a_forged_move_takes_no_place_of_one_that_is_authenticated_and_that_takes_its() -> None:
    log = Log()
    log.forge()
    aborted = msgspec.structs.replace(MOVING, phase=Phase.ABORTED)
    value = Log().write(aborted)  # of a replica that has not seen the forged one
    assert log.put(value, THEIRS) is False, "it is signed for another writer"
    assert log.put(value, OWN)
    assert log.move == aborted
    for move in (MOVING, msgspec.structs.replace(MOVING, steps="other"), Move("", phase=Phase.OVER)):
        log.forge(move)
        assert log.move == aborted


def test_a_record_that_is_written_again_loses_to_what_has_come_since_and_is_no_use_later() -> None:
    log = Log()
    moving = log.write(MOVING)
    aborted = msgspec.structs.replace(MOVING, phase=Phase.ABORTED)
    log.write(aborted)
    assert log.put(moving, OWN), "it is authenticated"
    assert log.move == aborted
    other = Log()
    other.now_ms += FRESH_MS + 1
    assert not other.put(moving, OWN)
    assert other.move is not None
    assert other.move.phase == Phase.HELD


def test_a_byte_more_or_less_or_another_place_is_not_authenticated() -> None:
    value = Log().write(MOVING)
    stored = StoredGroup(1, NOW_MS, OWN, decode_group_value(value))
    mac = GroupMac(SECRET)
    assert mac.is_valid(KEY, stored, value)
    for at in range(len(value)):
        changed = bytearray(value)
        changed[at] ^= 1
        assert not mac.is_valid(KEY, stored, bytes(changed))
    for key in (group_key("other", MOVE), group_key(GROUP, PROOF)):
        assert not mac.is_valid(key, stored, value)
    assert not mac.is_valid(KEY, stored._replace(writer=THEIRS), value)
    assert not GroupMac(b"K" * 32).is_valid(KEY, stored, value)
    assert not mac.is_valid(KEY, stored._replace(record=GroupRecord(1)), b"")
    assert "k" * 4 not in repr(mac)


def test_other_records_of_groups_without_a_mac_are_not_there() -> None:
    log = Log()
    for name, record in (
        ("slot 1", GroupRecord(1, slot=Slot("epochgate-1", begun=True))),
        (PROOF, GroupRecord(1, proof=Proof(clean_ms=9))),
        (MOVE, GroupRecord(1)),
    ):
        assert not log.put(encode_group_value(record), key=group_key(GROUP, name))
    assert log.log.groups.of_group(GROUP) == {}


def test_a_flood_of_forged_moves_drives_out_none_that_is_authenticated() -> None:
    log = Log()
    log.write(MOVING)
    log.log.groups.room.most = 10
    for number in range(100):
        log.put(encode_group_value(GroupRecord(1, move=MOVING)), key=group_key(f"g{number}", MOVE))
    assert log.log.groups.room.records == 10
    assert log.move == MOVING
