"""The shards of the groups, and the judge of what they tell, one case at a time (all cuts of a journal: test_cuts)."""

import json
from typing import Any

import msgspec
import pytest

from pipeline.rules.classes import LOST, VIOLATION
from pipeline.rules.judge import CLOCKS, END, Judge
from pipeline.rules.lines import Line, owned_text, parse_line
from pipeline.rules.ownership import GroupOwnership
from pipeline.rules.saved import SavedGroup
from pipeline.rules.shard import FORGET_US, LONG_GONE_US, Bounds
from tests.pipeline.migration import START_US, Migration
from tests.pipeline.rules.journals import SKEW_US, plan
from tests.pipeline.rules.shards import Live, standing

S = 1_000_000


@pytest.mark.parametrize("seed", [2, 4, 7])
def test_a_group_that_is_saved_and_restored_before_each_event_finds_the_same(seed: int) -> None:
    """With lost events, killed processes and wrong clocks: who served a member, and when it was heard of."""
    events: dict[str, list[Line]] = {}
    for _, text in Migration(plan(seed)._replace(lost=0.02, kills=3)).lines():
        one = parse_line(text.encode())
        assert isinstance(one, Line)
        one.owned = owned_text(one)  # type: ignore[assignment]  # as a shard has it
        events.setdefault(one.group or "", []).append(one)
    ended = {("proxy-0", "b0"): START_US + 100 * S}
    found = 0
    for of_group in events.values():
        of_group.sort(key=lambda one: (one.time_us, one.replica, one.boot, one.seq))
        whole, part = GroupOwnership(ended, SKEW_US), GroupOwnership(ended, SKEW_US)
        for one in of_group:
            saved_one = msgspec.msgpack.encode(part.save())
            part = GroupOwnership(ended, SKEW_US)
            part.restore(msgspec.msgpack.decode(saved_one, type=SavedGroup))
            expected = sorted(map(repr, whole.take(one)))  # type: ignore[arg-type]  # it has all that is asked for
            assert sorted(map(repr, part.take(one))) == expected  # type: ignore[arg-type]  # likewise
            found += len(expected)
        assert sorted(map(repr, part.end())) == sorted(map(repr, whole.end()))
    assert found > 100


def event(
    seq: int, kind: str, time_us: int, member: str = "", owned: list[int] | None = None, **other: Any
) -> bytes:
    listed = None if owned is None else [{"topic": "t", "id": None, "partitions": owned}] if owned else []
    fields = {
        "v": 1, "replica": "a", "boot": "1", "seq": seq, "time_us": time_us, "kind": kind,
        "group": "g" if member else "", "protocol": "translated" if member else "", "member": member,
        "instance": None, "generation": 1, "state": "Stable", "owned": listed, "reason": "",
    }  # fmt: skip
    return json.dumps(fields | other).encode()


def alive(seq: int, at_s: int, replica: str = "a") -> bytes:
    return event(seq, "alive", at_s * S, replica=replica)


def test_two_owners_within_a_process_are_told_once_while_both_still_own() -> None:
    live = Live(delay_us=10 * S)
    live.turn(("0", [event(1, "assigned", 100 * S, "m1", [0]), event(2, "assigned", 101 * S, "m2", [0])]))
    assert live.found == []
    (found,) = live.turn(("0", [alive(3, 112)]))
    assert (found.overlap_class, found.pending, found.is_open) == (VIOLATION, END, True)
    assert live.turn(("0", [alive(4, 120)])) == []
    (ended,) = live.turn(("0", [event(5, "left", 125 * S, "m1"), alive(6, 140)]))
    assert (ended.overlap_class, ended.pending, ended.key) == (VIOLATION, None, found.key)
    assert live.turn(("0", [alive(7, 160)])) == []


def test_between_two_processes_it_is_told_when_it_is_longer_than_the_skew_and_both_have_been_read() -> None:
    live = Live(delay_us=10 * S)
    a = [event(1, "assigned", 100 * S, "m1", [0]), alive(2, 105)]
    b = [event(1, "assigned", 103 * S, "m2", [0], replica="b"), alive(2, 118, "b")]
    assert live.turn(("0", a), ("1", b)) == [], (
        "a's place has been read until 105 s only: m1 may have let go at 102"
    )
    (found,) = live.turn(("0", [alive(3, 119)]), ("1", [alive(3, 120, "b")]))
    assert (found.overlap_class, found.pending, found.about["from_us"]) == (VIOLATION, END, 103 * S)
    (ended,) = live.turn(("0", [event(4, "left", 121 * S, "m1"), alive(5, 140)]), ("1", [alive(4, 140, "b")]))
    assert (ended.overlap_class, ended.pending, ended.about["until_us"]) == (VIOLATION, CLOCKS, 121 * S)
    assert ended.key == found.key


def test_what_a_silent_process_served_is_unproven() -> None:
    live = Live(delay_us=10 * S)
    live.turn(("0", [event(1, "assigned", 100 * S, "m1", [0])]))
    live.turn(("0", [event(1, "assigned", 120 * S, "m2", [0], replica="b")]))
    assert live.turn(("0", [alive(2, 140, "b")])) == []
    assert Judge(live.judge, skew_us=SKEW_US).counts == {"unproven": 1}


def test_a_process_that_ended_hours_before_the_batch_was_read_has_ended() -> None:
    """A backlog: what is forgotten because it is old is forgotten after its events' turn, not before."""
    live = Live(delay_us=10 * S)
    first = event(1, "assigned", 100 * S, "m1", [0])
    second = event(1, "assigned", 120 * S, "m2", [0], replica="b")
    much_later = event(2, "alive", 120 * S + 2 * LONG_GONE_US, replica="b")
    assert live.turn(("0", [first, second, much_later])) == []
    assert Judge(live.judge, skew_us=SKEW_US).counts == {"unproven": 1}


def test_a_process_that_ended_long_ago_is_not_taken_to_live_because_it_was_forgotten() -> None:
    live = Live(delay_us=10 * S)
    live.turn(("0", [event(1, "assigned", 100 * S, "m1", [0])]))
    late_us = 100 * S + 2 * LONG_GONE_US
    live.turn(("0", [event(1, "alive", late_us, replica="b")]))
    live.turn(("0", [event(2, "assigned", late_us + S, "m2", [0], replica="b")]))
    assert live.turn(("0", [event(3, "alive", late_us + 20 * S, replica="b")])) == []
    assert Judge(live.judge, skew_us=SKEW_US).counts == {"unproven": 1}


@pytest.mark.parametrize("waited_us", [S, 2 * LONG_GONE_US])
@pytest.mark.parametrize(("confirmed", "overlap_class"), [(False, "unproven"), (True, VIOLATION)])
def test_what_an_adopted_member_held_is_not_known_before_its_snapshot(
    waited_us: int, confirmed: bool, overlap_class: str
) -> None:
    """However long ago its former process was killed; both are forgotten, but not that."""
    live = Live(delay_us=10 * S)
    live.turn(("0", [event(1, "assigned", 100 * S, "m1", [0], replica="a")]))
    live.turn(("0", [event(1, "adopted", 105 * S, "m1", replica="b"), alive(2, 117, "b")]))
    if confirmed:
        live.turn(("0", [event(3, "state_changed", 118 * S, "m1", [0], replica="b")]))
    late_us = 120 * S + waited_us
    live.turn(("0", [event(3 + confirmed, "alive", late_us, replica="b")]))
    live.turn(("0", [event(4 + confirmed, "assigned", late_us + S, "m2", [0], replica="b")]))
    live.turn(("0", [event(5 + confirmed, "left", late_us + 2 * S, "m1", replica="b")]))
    live.turn(("0", [event(6 + confirmed, "alive", late_us + 30 * S, replica="b")]))
    assert Judge(live.judge, skew_us=SKEW_US).counts == {overlap_class: 1}


def test_what_a_process_lost_counts_however_long_ago_it_was() -> None:
    """Nobody has heard of m1 since its release may have been lost, which was hours ago."""
    live = Live(delay_us=10 * S)
    live.turn(("0", [event(1, "assigned", 100 * S, "m1", [0]), alive(3, 105)]))
    late_us = 100 * S + 2 * LONG_GONE_US
    live.turn(("0", [event(4, "alive", late_us)]))
    live.turn(("0", [event(5, "assigned", late_us + S, "m2", [0])]))
    live.turn(("0", [event(6, "left", late_us + 2 * S, "m1"), event(7, "alive", late_us + 20 * S)]))
    assert [one.overlap_class for one in live.found] == [LOST]


def test_a_missing_event_that_may_be_the_release_excuses_it() -> None:
    live = Live(delay_us=10 * S)
    lines = [event(1, "assigned", 100 * S, "m1", [0]), event(3, "assigned", 102 * S, "m2", [0])]
    live.turn(("0", [*lines, event(4, "left", 103 * S, "m1")]))
    (found,) = live.turn(("0", [alive(5, 120)]))
    assert (found.overlap_class, found.pending) == (LOST, None)


def test_an_overlap_waits_until_it_is_known_whether_a_number_is_missing() -> None:
    """Number 3 may be m1's release, and lost; or it comes with the other partition, then it is later than 130 s."""
    live = Live(delay_us=10 * S)
    first = [
        event(1, "assigned", 100 * S, "m1", [0]),
        event(2, "assigned", 102 * S, "m2", [0]),
        alive(4, 200),
    ]
    assert live.turn(("0", first), ("1", [alive(1, 140, "b")])) == []
    (found,) = live.turn(("1", [alive(3, 150), alive(2, 220, "b")]))
    assert (found.overlap_class, found.pending) == (VIOLATION, END)


def test_so_does_one_that_has_ended() -> None:
    live = Live(delay_us=10 * S)
    of_a = [event(1, "assigned", 100 * S, "m1", [0]), alive(3, 200)]
    ends = [
        event(1, "assigned", 102 * S, "m2", [0], replica="b"),
        event(2, "left", 110 * S, "m2", replica="b"),
    ]
    assert live.turn(("0", of_a), ("1", [*ends, alive(3, 140, "b")])) == []
    (found,) = live.turn(("1", [alive(2, 150), alive(4, 220, "b")]))
    assert (found.overlap_class, found.pending) == (VIOLATION, CLOCKS)


def test_what_was_told_is_taken_back_if_the_journal_would_not_tell_its_end() -> None:
    """The process takes m1 over as a classic member, of which it does not know the session timeout."""
    live = Live(delay_us=10 * S)
    lines = [
        event(1, "assigned", 100 * S, "m1", [0]),
        event(2, "assigned", 101 * S, "m2", [0]),
        alive(3, 115),
    ]
    (found,) = live.turn(("0", lines))
    adopted = event(4, "adopted", 120 * S, "m1", protocol="classic", owned=None)
    (taken_back,) = live.turn(
        ("0", [adopted, event(5, "left", 121 * S, "m1", protocol="classic"), alive(6, 140)])
    )
    assert (taken_back.overlap_class, taken_back.key) == ("unproven", found.key)
    assert standing(live.found) == []


def test_what_a_process_served_that_was_only_silent_is_not_told() -> None:
    """The journal shows m1 and m2 from 120 s on; here it was unproven, and nobody knows m1's state since."""
    live = Live(delay_us=10 * S)
    live.turn(("0", [event(1, "assigned", 100 * S, "m1", [0])]))
    live.turn(("0", [event(1, "assigned", 120 * S, "m2", [0], replica="b"), alive(2, 140, "b")]))
    live.turn(("0", [event(2, "state_changed", 150 * S, "m1", [0]), alive(3, 180), alive(3, 180, "b")]))
    assert live.found == []
    assert Judge(live.judge, skew_us=SKEW_US).counts == {"unproven": 1}


def test_who_had_ended_when_too_much_waited_had_ended() -> None:
    live = Live(delay_us=100 * S, bounds=Bounds(waiting=1), shards=1)
    live.turn(("0", [event(1, "assigned", 100 * S, "m1", [0])]))
    second = [event(seq, "assigned", (118 + seq) * S, "m2", [0], replica="b") for seq in range(1, 4)]
    live.turn(("0", second))
    live.turn(("0", [alive(4, 300, "b")]))
    assert live.found == []
    assert Judge(live.judge, skew_us=SKEW_US).counts == {"unproven": 1}


def handed_over(to_us: int) -> list[bytes]:
    """Twenty partitions go from b to a, each after two seconds."""
    lines = []
    for number in range(20):
        at_us = 100 * S + number * S
        held = [event(2 * number + 1, "assigned", at_us, f"b{number}", [number + 1], replica="b"),
                event(2 * number + 2, "left", at_us + 1, f"b{number}", replica="b")]  # fmt: skip
        lines += [*held, event(number + 1, "assigned", at_us + to_us, f"a{number}", [number + 1])]
    return lines


def test_what_clocks_account_for_changes_what_was_told() -> None:
    """Twenty handovers show that a's clock is ahead by two seconds; an overlap of one second may be due to that."""
    live = Live(delay_us=10 * S)
    late = [event(21, "assigned", 140 * S, "m1", [0]), event(41, "assigned", 141 * S, "m2", [0], replica="b")]
    ends = [event(22, "left", 142 * S, "m1"), alive(23, 160), alive(42, 160, "b")]
    (found,) = live.turn(("0", [*handed_over(2 * S), *late, *ends]))
    assert (found.overlap_class, found.pending) == ("clock", CLOCKS)


def test_an_overlap_that_lasts_says_that_clocks_do_not_account_for_the_like() -> None:
    """As the journal would show at its end, where verify counts it too."""
    live = Live(delay_us=10 * S)
    late = [event(41, "assigned", 140 * S, "m1", [0], replica="b"), event(21, "assigned", 141 * S, "m2", [0])]
    (found,) = live.turn(("0", [*handed_over(2 * S), *late, alive(22, 152), alive(42, 152, "b")]))
    assert (found.overlap_class, found.pending) == (VIOLATION, END)


def test_events_of_members_without_partitions_tell_of_clocks_too() -> None:
    live = Live(delay_us=10 * S)
    share = [event(seq, "joined", us * S, "s", group="h", protocol="share") for seq, us in ((5, 90), (2, 95))]
    two = [event(6, "assigned", 100 * S, "m1", [0]), event(7, "assigned", 101 * S, "m2", [0])]
    live.turn(("0", [*share, *two, event(8, "left", 103 * S, "m1"), alive(9, 120)]))
    assert [one.overlap_class for one in live.found] == ["clock"]


def test_an_event_that_comes_after_its_turn_takes_back_what_it_may_deny() -> None:
    live = Live(delay_us=10 * S)
    lines = [event(1, "assigned", 100 * S, "m1", [0]), event(3, "assigned", 104 * S, "m2", [0])]
    live.turn(("0", [event(1, "alive", 101 * S, replica="c"), *lines, alive(4, 105)]))
    live.turn(("0", [alive(5, 125)]))
    live.turn(("0", [event(2, "left", 102 * S, "m1"), alive(6, 130)]))
    assert standing(live.found) == []


def test_what_takes_its_turn_early_because_too_much_waits_is_told_when_the_rest_has_been_read() -> None:
    live = Live(delay_us=100 * S, bounds=Bounds(waiting=1), shards=1)
    two = [event(1, "assigned", 100 * S, "m1", [0]), event(2, "assigned", 101 * S, "m2", [0])]
    ends = [event(3, "left", 103 * S, "m1"), event(4, "left", 104 * S, "m2")]
    assert live.turn(("0", two + ends)) == [], "events of other places may still come"
    (found,) = live.turn(("0", [alive(5, 210)]))
    assert (found.overlap_class, found.pending) == (VIOLATION, None)


def test_while_there_are_more_files_to_read_nobody_is_taken_to_have_ended() -> None:
    live = Live(delay_us=10 * S)
    live.turn(("a", [event(1, "assigned", 100 * S, "m1", [0])]), more=True)
    live.turn(("b", [event(1, "assigned", 120 * S, "m2", [0], replica="b"), alive(2, 200, "b")]), more=True)
    assert [one.until_us for one in live.told] == [0, 0, 0]
    live.turn(("a", [event(2, "left", 110 * S, "m1")]), more=True)
    live.turn(("a", [alive(3, 210)]), ("b", [alive(3, 210, "b")]))
    assert live.found == []
    assert not sum(one.late for one in live.told)


def test_what_comes_after_its_turn_is_counted_and_what_comes_twice_is_not() -> None:
    live = Live(delay_us=10 * S)
    first = event(1, "assigned", 100 * S, "m1", [0])
    live.turn(("0", [first, alive(3, 130)]))
    live.turn(("0", [first, event(2, "left", 101 * S, "m1"), alive(4, 135)]))
    assert sum(one.late for one in live.told) == 1


def test_what_is_kept_is_bounded() -> None:
    live = Live(delay_us=10 * S, bounds=Bounds(waiting=100, groups=10, of_group=4_000), shards=1)
    many = [
        event(seq, "assigned", 100 * S + seq, f"m{seq}", [seq], group=f"g{seq}") for seq in range(1, 1_001)
    ]
    live.turn(("0", many))
    (told,) = live.told
    assert (told.waiting, told.groups, told.left_out) == (100, 10, 890)
    wide = event(1_001, "assigned", 101 * S, "m1", list(range(3_000)), group="g1")
    live.turn(("0", [wide, alive(1_002, 120)]))
    (told,) = live.told
    assert (told.too_large, "g1" in live.groups[0]) == (1, False)
    ends = [
        event(seq, "left", 121 * S, group.replace("g", "m"), group=group)
        for seq, group in enumerate(live.groups[0], 1_003)
    ]
    live.turn(("0", [*ends, alive(1_020, 140)]))
    live.turn(("0", [alive(1_021, 10_000)]))
    live.turn(("0", [event(1_022, "alive", 10_000 * S + FORGET_US)]))
    assert not live.groups[0], "nobody is a member for more than an hour"
    assert len(live.states[0] or b"") < 2_000
