"""What is kept of the member log has a bound, whatever somebody writes into it."""

import pytest

from tests.translation.admission.test_serving import KEY, served_member
from tests.translation.member_log.bench import SharedLog
from translation.member_log.counting import FORGET_MS, PartitionView, Room, Stored
from translation.member_log.group_records import GroupKey, GroupRecord, StoredGroup
from translation.member_log.group_view import GroupRoom, GroupView
from translation.member_log.member_log import MemberLog
from translation.member_log.ownership import Ownership
from translation.member_log.records import Kind, MemberKey, MemberRecord, Writer, member_key, partition_of
from translation.member_log.settings import FleetSettings

THEIRS = Writer(b"theirs")
PARTITIONS = 4


def flooded(settings: FleetSettings, groups: int, members: int, *, snapshot: bytes = b"") -> MemberLog:
    """A log into which somebody has written so many members of so many groups."""
    log = MemberLog(settings, Writer(b"own"), 0.0)
    for offset in range(members):
        key = member_key(f"group-{offset % groups}", f"epochgate-{offset}")
        kind = Kind.ENDED if offset % 3 else Kind.SERVED
        stored = Stored(offset, 1_000, THEIRS, MemberRecord(kind, offset, snapshot=snapshot))
        log.read(partition_of(key, PARTITIONS), key, stored, 0.0)
    return log


def kept(log: MemberLog) -> list[MemberKey]:
    return [key for partition in range(PARTITIONS) for key, _ in log.counted(partition)]


def test_of_more_members_than_there_is_room_for_the_oldest_of_the_largest_partition_are_forgotten() -> None:
    settings = FleetSettings(partitions=PARTITIONS, most_members=1_000)
    log = flooded(settings, 500, 5_000)
    assert len(kept(log)) == 1_000
    assert log.forgotten == 4_000
    assert {int(key.member_id.rpartition("-")[2]) for key in kept(log)} >= set(range(4_900, 5_000))
    assert log._members.room.members == 1_000
    assert sum(log.numbers().values()) == 1_000


def test_of_a_group_with_too_many_its_own_oldest_are_forgotten_and_no_other_group_s() -> None:
    log = flooded(FleetSettings(partitions=PARTITIONS, members_of_group=200), 2, 300)
    assert len(kept(log)) == 300, "150 each"
    for offset in range(300, 3_000):
        key = member_key("group-0", f"epochgate-{offset}")
        log.read(
            partition_of(key, PARTITIONS),
            key,
            Stored(offset, 1_000, THEIRS, MemberRecord(Kind.SERVED, offset)),
            0.0,
        )
    groups = [key.group_id for key in kept(log)]
    assert groups.count("group-1") == 150
    assert 190 < groups.count("group-0") <= 200


SMALL = FleetSettings(partitions=PARTITIONS, max_bytes=4 * 1024 * 1024)


@pytest.mark.parametrize("groups", [1, 3])
def test_groups_with_large_records_drive_out_none_of_a_group_with_small_ones(groups: int) -> None:
    """One has half of the bytes for itself; of several the partition with most bytes gives way."""
    innocent = "innocent"
    log = MemberLog(SMALL, Writer(b"own"), 0.0)

    def read(group_id: str, offset: int, snapshot: bytes) -> int:
        key = member_key(group_id, f"epochgate-{offset}")
        partition = partition_of(key, PARTITIONS)
        record = MemberRecord(Kind.SERVED, offset, snapshot=snapshot)
        log.read(partition, key, Stored(offset, 1_000, THEIRS, record), 0.0)
        return partition

    here = {read(innocent, offset, b"") for offset in range(1_500)}
    names = (f"group-{number}" for number in range(100))
    others = [
        name for name in names if groups == 1 or partition_of(MemberKey(name, ""), PARTITIONS) not in here
    ]
    for offset in range(1_500, 4_500):
        read(others[offset % groups], offset, bytes(8_000))
    assert [key.group_id for key in kept(log)].count(innocent) == 1_500
    assert log._members.room.bytes <= SMALL.max_bytes


def test_a_group_with_large_records_drives_out_none_of_another_group_s_moves() -> None:
    log = MemberLog(SMALL, Writer(b"own"), 0.0)
    for offset in range(400):
        log.read_group(
            partition_of(MemberKey("innocent", ""), PARTITIONS),
            GroupKey("innocent", f"slot {offset}"),
            stored(offset),
        )
    for offset in range(400, 2_000):
        key = GroupKey("group-1", f"slot {offset}")
        log.read_group(partition_of(key.member, PARTITIONS), key, stored(offset, 12_000))
    assert len(log.groups.of_group("innocent")) == 400
    assert log.groups.room.bytes <= SMALL.max_bytes // 2


def test_bytes_have_a_bound_of_their_own() -> None:
    log = flooded(
        FleetSettings(partitions=PARTITIONS, max_bytes=1024 * 1024), 100, 1_000, snapshot=bytes(8_000)
    )
    assert 100 < len(kept(log)) < 120
    assert log._members.room.bytes <= 1024 * 1024


def test_what_a_lost_or_old_partition_had_is_given_back() -> None:
    log = flooded(FleetSettings(partitions=PARTITIONS), 100, 1_000)
    for partition in range(PARTITIONS):
        log.lose(partition, Writer(b"another"), 0.0)
    assert (log._members.room.members, log._members.room.bytes) == (0, 0)
    view = PartitionView(Room(10, 10, 10_000))
    view.read(KEY, Stored(0, 1_000, THEIRS, MemberRecord(Kind.SERVED, 0)))
    view.read(KEY, Stored(1, 1_000, THEIRS, MemberRecord(Kind.ENDED, 1)))
    assert (view.room.members, len(view)) == (1, 1)
    view.read_to(5, 1_001 + FORGET_MS)
    assert view.forget() == [KEY]
    assert (view.room.members, view.room.bytes) == (0, 0)


@pytest.fixture
def log() -> SharedLog:
    return SharedLog()


def test_a_member_that_is_served_is_written_again_when_a_flood_has_driven_it_out(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    one.log._members.room.most_members = 10
    for number in range(30):
        forged = MemberRecord(Kind.SERVED, len(log.records))
        log.records.append((member_key(f"g{number}", f"epochgate-{number}"), THEIRS, forged))
    one.read()
    log.settle()
    assert one.log.forgotten >= 20
    assert one.log.ownership(KEY) is Ownership.SERVING
    assert one.log.record(KEY) is not None
    told = one.heartbeat(connection, KEY.member_id, 1)
    one.beat(1, orders=(0, 1))
    assert told in one.answers


def stored(offset: int, size: int = 1_000) -> StoredGroup:
    return StoredGroup(offset, 1_000, THEIRS, GroupRecord(offset), size)


def test_records_of_groups_have_bounds_too() -> None:
    room = GroupRoom(100, 50, 1_000_000)
    view = GroupView(room)
    for offset in range(60):
        view.read(GroupKey("one", f"slot {offset}"), stored(offset))
    assert view.forget_beyond("one") == ["one"]
    assert view.forget_beyond("other") == []
    assert (len(view), room.records, room.forgotten) == (50, 50, 10)
    assert "slot 0" not in view.of_group("one")
    view.read(GroupKey("one", "slot 59"), stored(60, 2_000_000))
    assert room.is_exceeded
    while room.is_exceeded:
        view.forget_oldest()
    assert (len(view), room.records, room.bytes) == (0, 0, 0)
    assert view.forget_oldest() == []


def test_a_flood_of_records_of_groups_is_forgotten_and_its_groups_have_no_move_any_more() -> None:
    log = MemberLog(FleetSettings(partitions=PARTITIONS, most_members=1_000), Writer(b"own"), 0.0)
    changed: list[str] = []
    log.groups.on_move = changed.append
    for offset in range(3_000):
        key = GroupKey(f"group-{offset}", "move")
        log.read_group(partition_of(key.member, PARTITIONS), key, stored(offset))
    assert log.groups.room.records == 1_000
    assert log.forgotten == 2_000
    assert len(changed) == 5_000, "each came, and 2,000 have gone"
