"""Which slots of a group are taken, and which one is next."""

from translation.member_log.group_records import GroupRecord, Slot, StoredGroup
from translation.member_log.records import Writer
from translation.rollout.slots import CLAIM_MS, GroupMembers, is_filled, next_slot, taken

NOW_MS = 1_000_000


def stored(slot: Slot, age_ms: int = 0) -> StoredGroup:
    return StoredGroup(5, NOW_MS - age_ms, Writer(bytes(16)), GroupRecord(1, slot=slot))


def group_members(*translated: str, classic: tuple[str, ...] = ()) -> GroupMembers:
    return GroupMembers(
        is_consumer_group=True, translated=frozenset(translated), classic=frozenset(classic), instances={}
    )


def held(
    slots: dict[int, StoredGroup], found: GroupMembers, *, ended: tuple[str, ...] = ()
) -> dict[int, Slot]:
    return taken(slots, slots, found, frozenset(ended), NOW_MS)


def test_a_reserved_slot_is_taken_for_a_minute() -> None:
    assert held({1: stored(Slot(member_id="a"), CLAIM_MS)}, group_members())
    assert not held({1: stored(Slot(member_id="a"), CLAIM_MS + 1)}, group_members())


def test_a_slot_that_was_filled_is_free_as_soon_as_the_broker_has_the_member_no_more() -> None:
    slots = {1: stored(Slot(member_id="a", begun=True)), 2: stored(Slot(member_id="b", begun=True))}
    assert list(held(slots, group_members("b"))) == [2]


def test_a_slot_that_changed_since_the_broker_was_asked_is_taken() -> None:
    slots = {1: stored(Slot(member_id="a", begun=True))}
    assert list(taken(slots, {1: stored(Slot(member_id="a"))}, group_members(), frozenset(), NOW_MS)) == [1]


def test_a_slot_is_free_when_the_log_knows_that_its_member_has_ended_and_when_nobody_has_it() -> None:
    slots = {1: stored(Slot(member_id="a", begun=True)), 2: stored(Slot())}
    assert held(slots, group_members("a"), ended=("a",)) == {}


def test_the_lowest_free_slot_within_the_quota_is_next() -> None:
    taken_slots = {1: Slot(member_id="a"), 3: Slot(member_id="c")}
    assert next_slot(taken_slots, group_members("a", "c"), 1) is None
    assert next_slot(taken_slots, group_members("a", "c"), 3) == 2
    assert next_slot(taken_slots, group_members("a", "c"), 2) is None, "as many are taken as it allows"


def test_members_without_a_slot_count_too() -> None:
    assert next_slot({}, group_members("x", "y"), 2) is None
    assert next_slot({1: Slot(member_id="a")}, group_members("a", "x"), 3) == 2


def test_a_client_that_is_in_the_group_twice_counts_once() -> None:
    both = group_members("a", classic=("old-a", "b"))
    assert both.members([Slot(member_id="a", leaves="old-a")]) == 2
    assert group_members(classic=("old-a", "b")).members([Slot(member_id="a", leaves="old-a")]) == 2


def test_a_step_is_filled_when_the_broker_has_as_many_as_it_allows_and_nobody_is_on_the_way() -> None:
    assert is_filled({1: Slot(member_id="a")}, group_members("a"), 1)
    assert not is_filled({1: Slot(member_id="a")}, group_members(), 1)
    assert not is_filled({1: Slot(member_id="a"), 2: Slot(member_id="b")}, group_members("a", "x"), 2)
    # Beyond the quota somebody may be on the way, from a step that allowed more.
    assert is_filled({1: Slot(member_id="a"), 2: Slot(member_id="b")}, group_members("a"), 1)


def test_slots_beyond_a_quota_that_has_become_smaller_count_until_their_members_have_left() -> None:
    beyond = {3: Slot(member_id="c", begun=True), 4: Slot(member_id="d", begun=True)}
    assert next_slot(beyond, group_members("c", "d"), 2) is None
    assert next_slot(beyond, group_members("c", "d"), 3) == 1
    assert next_slot({4: Slot(member_id="d", begun=True)}, group_members("d"), 2) == 1


def test_a_member_without_a_slot_counts_beside_those_that_have_one() -> None:
    assert next_slot({2: Slot(member_id="b", begun=True)}, group_members("b", "x"), 2) is None
    assert next_slot({2: Slot(member_id="b", begun=True)}, group_members("b", "x"), 3) == 1
