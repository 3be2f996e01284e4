"""Records of whole groups in the member log: as bytes, which counts, and what a release without them makes of them."""

import msgspec
import pytest
from msgspec.structs import replace

from translation.member_log.counting import FORGET_MS, Stored
from translation.member_log.group_log import (
    ALIVE_MS,
    ALIVE_SINCE_START_S,
    LOCAL_GROUPS,
    RENEW_MS,
    GroupLog,
    GroupView,
    local_group_log,
    slots_of,
)
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
    decode_group_key,
    decode_group_value,
    encode_group_key,
    encode_group_value,
    group_key,
    is_group_key,
    report_name,
    slot_name,
    slot_number,
)
from translation.member_log.member_log import MemberLog
from translation.member_log.members import Members
from translation.member_log.outputs import Health, HealthChanged, Settled, WriteRecord
from translation.member_log.records import (
    InvalidRecord,
    Kind,
    MemberRecord,
    Writer,
    decode_key,
    encode_key,
    member_key,
)
from translation.member_log.settings import FleetSettings
from translation.member_log.signals import KEPT, LONGEST_REASON, Gate, Report, Window

A, B = Writer(b"writer a"), Writer(b"writer b")
KEY = group_key("payments", slot_name(1))


def test_a_record_is_read_as_it_was_written() -> None:
    record = GroupRecord(9, server="pod-1", move=Move("1, 10%", number=3, step=1, phase=Phase.HELD, why="w"))
    assert decode_group_key(encode_group_key(KEY, A)) == (KEY, A)
    assert decode_group_value(encode_group_value(record)) == record
    assert (slot_number("slot 12"), slot_number(MOVE), slot_number("slot x")) == (12, None, None)


def test_a_release_before_these_records_ignores_them_and_keys_of_members_are_none_of_a_group() -> None:
    """What reads members' keys is unchanged, and refuses this one: whoever reads on so ignores the record."""
    with pytest.raises(InvalidRecord):
        decode_key(encode_group_key(KEY, A))
    of_member = encode_key(member_key("payments", "slot 1"), A)
    assert not is_group_key(of_member)
    assert is_group_key(encode_group_key(KEY, A))
    with pytest.raises(InvalidRecord):
        decode_group_key(of_member)


def test_what_is_no_record_is_refused_and_what_a_later_release_adds_is_ignored() -> None:
    with pytest.raises(InvalidRecord):
        decode_group_value(b"junk")
    with pytest.raises(InvalidRecord):
        decode_group_key(msgspec.msgpack.encode(("other", "payments", "slot 1", b"w")))
    with pytest.raises(InvalidRecord):
        encode_group_value(GroupRecord(1, move=Move("1", why="x" * 5_000)))
    later = {"version": 1, "gate": "x", "move": {"steps": "1", "phase": "paused", "wave": 2}}
    read = decode_group_value(msgspec.msgpack.encode(later))
    assert read.move is not None
    assert read.move.phase == "paused"
    assert not read.move.is_moving


def stored(offset: int, record: GroupRecord, writer: Writer = A, at_ms: int = 0) -> StoredGroup:
    return StoredGroup(offset, at_ms, writer, record)


def test_of_two_that_saw_the_same_the_first_counts() -> None:
    view = GroupView()
    assert view.read(KEY, stored(3, GroupRecord(0, first=True, slot=Slot("a"))))
    assert not view.read(KEY, stored(4, GroupRecord(2, first=True, slot=Slot("b")), B))
    assert view.read(KEY, stored(5, GroupRecord(4, slot=Slot("c")), B))
    assert not view.read(KEY, stored(6, GroupRecord(4, slot=Slot("d"))))
    assert slots_of(view.of_group("payments"))[1].record.slot == Slot("c")


def test_what_is_too_old_is_forgotten() -> None:
    view = GroupView()
    view.read(KEY, stored(1, GroupRecord(0, first=True, slot=Slot("a"))))
    view.forget(FORGET_MS)
    assert view.get(KEY) is not None
    view.forget(FORGET_MS + 1)
    assert view.counted() == []
    assert view.of_group("payments") == {}


class OneReplica:
    """A member log, and a log of one partition that the test fills."""

    def __init__(self) -> None:
        self.log = MemberLog(FleetSettings(partitions=1), A, 0.0)
        self.offset = 0
        self.said: list[object] = []
        self.written: list[WriteRecord] = []
        self.log.replay_to(0, 0, 0.0)
        self.take(0.0)
        assert self.log.health(0) is Health.READY

    @property
    def groups(self) -> GroupLog:
        return self.log.groups

    def take(self, now: float, *, lands: bool = True) -> None:
        """Let what is written land and be read back, unless it does not."""
        for output in self.log.outputs():
            if not isinstance(output, WriteRecord):
                self.said.append(output)
            elif lands:
                self.land(output, now)
            else:
                self.written.append(output)

    def land(self, output: WriteRecord, now: float) -> None:
        offset, self.offset = self.offset, self.offset + 1
        if is_group_key(output.key):
            assert output.value is not None
            key, writer = decode_group_key(output.key)
            self.log.read_group(
                0, key, StoredGroup(offset, int(now * 1000), writer, decode_group_value(output.value))
            )
        else:
            self.log.read_probe(0, output.writer, offset, int(now * 1000), now)
        self.take(now)


def test_a_record_counts_when_it_is_read_back_and_who_waits_for_it_is_woken() -> None:
    one = OneReplica()
    key = one.groups.write("payments", "slot 1", 1.0, slot=Slot("a"))
    assert key == KEY
    assert one.groups.is_unresolved(KEY)
    assert one.groups.write("payments", "slot 1", 1.0, slot=Slot("b")) is None, "one at a time"
    one.take(1.0)
    assert not one.groups.is_unresolved(KEY)
    assert Settled(KEY.member) in one.said
    assert slots_of(one.groups.of_group("payments"))[1].record.slot == Slot("a")


def test_a_record_that_is_not_read_back_in_time_takes_the_log_away_until_a_probe_is() -> None:
    one = OneReplica()
    one.groups.write("payments", "slot 1", 1.0, slot=Slot("a"))
    one.take(1.0, lands=False)
    assert one.log.next_deadline() == 3.0
    one.log.handle_time(3.0)
    assert HealthChanged(0, Health.AWAY) in one.log._members.outputs
    assert not one.groups.is_ready("payments")
    assert one.groups.write("payments", MOVE, 3.0, move=Move("1")) is None


def test_a_record_that_is_skipped_when_it_is_read_is_given_up_once_a_later_probe_is_read() -> None:
    one = OneReplica()
    one.groups.write("payments", "slot 1", 1.0, slot=Slot("a"))
    one.take(1.0, lands=False)
    one.log.handle_time(3.0)
    one.take(3.0)
    assert not one.groups.is_unresolved(KEY)
    assert Settled(KEY.member) in one.said
    assert one.groups.is_ready("payments")


def test_when_the_producer_is_replaced_the_outcome_is_unknown_and_nobody_waits_for_it() -> None:
    one = OneReplica()
    one.groups.write("payments", "slot 1", 1.0, slot=Slot("a"))
    one.take(1.0, lands=False)
    one.log.replace_writer(B, 1.5)
    assert not one.groups.is_unresolved(KEY)
    assert Settled(KEY.member) in one.log._members.outputs
    assert not one.groups.is_ready("payments")


def test_a_log_that_is_read_again_has_no_record_until_it_is_read() -> None:
    one = OneReplica()
    one.groups.write("payments", MOVE, 1.0, move=Move("1"))
    one.take(1.0)
    one.log.lose(0, B, 2.0)
    assert one.groups.of_group("payments") == {}


def test_a_record_in_the_partition_of_others_does_not_count() -> None:
    log = MemberLog(FleetSettings(partitions=16), A, 0.0)
    wrong = (log._members.number(KEY.member) + 1) % 16
    log.read_group(wrong, KEY, stored(0, GroupRecord(0, first=True, slot=Slot("a"))))
    assert log.groups.of_group("payments") == {}


def test_what_is_an_hour_old_is_written_anew_unless_the_move_is_over() -> None:
    one = OneReplica()
    one.groups.write("payments", MOVE, 1.0, move=Move("1", number=5))
    one.groups.write("payments", "slot 1", 1.0, slot=Slot("a", begun=True))
    one.groups.write("payments", PROOF, 1.0, proof=Proof(clean_ms=60_000))
    one.groups.write("orders", MOVE, 1.0, move=Move("1", phase=Phase.OVER))
    one.take(1.0)
    proven = one.groups.of_group("payments")[PROOF]
    before = one.groups.of_group("payments")[MOVE].offset
    later = 1.0 + RENEW_MS / 1000 + 600
    one.log.read_probe(0, B, one.offset, int(later * 1000), later)
    one.offset += 1
    one.log.outputs()
    one.groups.use("payments", later - 3_600)
    one.groups.handle_time(later)
    one.take(later)
    payments = one.groups.of_group("payments")
    assert payments[MOVE].offset > before
    assert payments[MOVE].record.move == Move("1", number=5)
    assert payments["slot 1"].record.slot == Slot("a", begun=True)
    assert payments[PROOF] == proven, "it grows old, unless somebody has looked again"
    assert proven.record.proof == Proof(clean_ms=60_000)
    assert one.groups.of_group("orders")[MOVE].offset < before + 4


def test_a_process_without_a_log_reads_back_at_once_what_it_writes() -> None:
    own = local_group_log()
    assert own.write("payments", MOVE, 5.0, move=Move("1")) == GroupKey("payments", MOVE)
    assert own.write("payments", MOVE, 6.0, move=replace(Move("1"), step=1)) is not None
    assert own.moves() == [("payments", Move("1", step=1))]
    assert own.now_ms("payments", 7.0) == 7_000


def test_the_records_of_a_group_that_nobody_uses_are_not_written_anew() -> None:
    """As of a console consumer, which has a new group each time: they would be more each day."""
    one = OneReplica()
    for group_id in ("console-1", "console-2", "console-3"):
        one.groups.write(group_id, MOVE, 1.0, move=Move("1", number=5))
    one.take(1.0)
    later = 1.0 + RENEW_MS / 1000 + 600
    one.groups.use("console-1", 1.0)
    one.groups.use("nobody", 1.0)
    member = MemberRecord(Kind.SERVED, version=one.offset)
    one.log.read(0, member_key("console-2", "m"), Stored(one.offset, int(later * 1000), B, member), later)
    dead = MemberRecord(Kind.ENDED, version=one.offset + 1)
    one.log.read(0, member_key("console-3", "m"), Stored(one.offset + 1, int(later * 1000), B, dead), later)
    one.log.outputs()
    one.groups.handle_time(later)
    written = [output for output in one.log.outputs() if isinstance(output, WriteRecord)]
    assert [decode_group_key(output.key)[0].group_id for output in written] == ["console-1", "console-2"]
    one.groups.handle_time(later + RENEW_MS / 1000 + 600)
    assert one.groups._used == {}


def test_a_process_without_a_log_forgets_the_groups_that_were_used_longest_ago_and_none_for_its_age() -> None:
    log = local_group_log()
    log.write("payments", MOVE, 0.0, move=Move("1"))
    log.write("payments", "slot 1", 0.0, slot=Slot("a"))
    log.write("orders", MOVE, 0.0, move=Move("1"))
    later = 2 * FORGET_MS / 1000
    for number in range(LOCAL_GROUPS - 1):
        log.use("payments", later)
        log.write(f"console-{number}", MOVE, later, move=Move("1"))
    assert set(log.of_group("payments")) == {MOVE, "slot 1"}
    assert log.of_group("orders") == {}
    assert len(log.moves()) == LOCAL_GROUPS


def test_the_longest_report_fits_in_its_record() -> None:
    window = Window(
        ms=10**6,
        told=10**6,
        members=10**6,
        classic=10**6,
        changes=10**6,
        rejoins=10**6,
        classic_rejoins=10**6,
        commit_errors=10**6,
        disconnects=10**6,
        owned_ms=10**12,
        unknown=10**6,
        pause_ms=10**9,
        lag=10**15,
        watched=100,
        harmed=dict.fromkeys(Gate, 100),
        fault="x" * LONGEST_REASON,
    )
    report = Report(windows=(window,) * KEPT, failed=("x" * LONGEST_REASON,), writers=(bytes(16),) * 8)
    assert encode_group_value(GroupRecord(version=10**12, server="x" * 255, report=report))


def test_a_replica_is_alive_as_long_as_it_probes_and_this_one_always_is() -> None:
    one = OneReplica()
    groups = one.groups
    assert groups.alive("payments", 0.0) == {groups.writer}
    one.log.read_probe(0, B, 100, 1_000_000, 0.0)
    assert groups.alive("payments", 0.0) == {groups.writer, B}
    groups.heard(0, A, 1_000_000 + ALIVE_MS)
    one.log.read_to(0, 101, 0.0)
    one.log.read_probe(0, Writer(b"writer c"), 102, 1_000_001 + ALIVE_MS, 0.0)
    assert B not in groups.alive("payments", 0.0)


def test_a_replica_that_reported_before_this_one_began_is_gone_soon_if_it_does_not_report_again() -> None:
    """All were killed, and this one is the first that is back. One that never reported is waited for as before."""
    groups = GroupLog(Members(FleetSettings(partitions=1), Writer(b"newcomer"), 0.0), 0.0)
    report = GroupRecord(version=0, first=True, report=Report())
    for offset, writer in enumerate((A, B)):
        key = group_key("payments", report_name(writer))
        groups.read(0, key, StoredGroup(offset, 1_000_000, writer, report))
    only_probes = Writer(b"writer c")
    groups.heard(0, only_probes, 1_000_000)
    groups.began(0, 1_001_000, 5.0)
    groups.began(0, 1_002_000, 9.0)
    soon, later = 5.0 + ALIVE_SINCE_START_S - 0.1, 5.0 + ALIVE_SINCE_START_S
    assert groups.alive("payments", soon) == {groups.writer, A, B, only_probes}
    groups.heard(0, B, 1_001_001)
    assert groups.alive("payments", later) == {groups.writer, B, only_probes}


def test_a_report_speaks_for_every_writer_that_its_replica_has_had_and_is_not_written_anew() -> None:
    one = OneReplica()
    first = one.groups.writer
    one.groups.report("payments", Report(), 1.0)
    one.take(1.0)
    one.log.replace_writer(B, 2.0)
    one.take(2.0)
    one.groups.report("payments", Report(), 3.0)
    one.take(3.0)
    (stored,) = one.groups.reports("payments")
    assert stored.record.report is not None
    assert stored.record.report.writers == (first, B), "one record, whichever writer wrote it last"
