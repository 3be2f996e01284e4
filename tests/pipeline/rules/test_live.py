"""The live pass says in the end what `epochgate verify` says, and since when each group is proven on the way."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.rules.certificate import Verdict
from pipeline.rules.live import ROOM_US, Bounds, LiveVerifier
from tests.pipeline.migration import MS, Migration, Plan, S
from tests.pipeline.real_journal import KEPT, PLANTS, kept, save
from tests.pipeline.rules.journals import LIVE_DELAY_US, live, live_differences, saved, verified
from tests.pipeline.rules.test_verifier import WHOLE, event

DELAY_US = 15 * S


@pytest.mark.parametrize("seed", range(20))
def test_the_certificates_are_those_of_verify_on_the_same_journal(seed: int, tmp_path: Path) -> None:
    folder = saved(seed, tmp_path)
    assert live_differences(verified(folder), live(folder, seed)) == []


@pytest.mark.parametrize("fault", PLANTS)
def test_a_recorded_migration_and_what_is_planted_in_it(fault: str, tmp_path: Path) -> None:
    planted, expected = PLANTS[fault](kept(KEPT))
    verifier = live(save(planted, tmp_path), 1)
    (found,) = verifier.proven.values()
    assert (found.verdict is Verdict.VIOLATED) is bool(expected)
    assert found.is_final is bool(expected), "they are within a process"
    assert live_differences(verified(tmp_path), verifier) == []


def test_a_clock_beyond_the_bound_is_no_violation_in_the_end(tmp_path: Path) -> None:
    migration = Migration(Plan(0, groups=25, skewed_us=400 * MS, violations=3))
    migration.save(tmp_path)
    verifier = live(tmp_path, 3)
    violated = {group for group, found in verifier.proven.items() if found.verdict is Verdict.VIOLATED}
    assert violated == {one.group for one in migration.planted}


# -- windows, by hand ------------------------------------------------------------------------------------------

ALONE = {"delay_us": 0}


class Fed:
    """A verifier that is fed events by hand; a second is that of the events."""

    def __init__(self, *, delay_us: int = DELAY_US, bounds: Bounds | None = None) -> None:
        self.verifier = LiveVerifier(delay_us=delay_us, bounds=bounds)
        self.delay_us = delay_us

    def add(self, *events: dict[str, Any]) -> "Fed":
        self.verifier.add([json.dumps(one).encode() for one in events])
        return self

    def look(self, second: int) -> "Fed":
        """Look at that second: what was written ``delay_us`` before is gone through."""
        while self.verifier.go_through(second * S - self.delay_us, 3):
            pass
        for _ in self.verifier.look():
            pass
        return self

    @property
    def found(self) -> Any:
        return self.verifier.proven.get("g")


def alive(seq: int, second: int, **other: Any) -> dict[str, Any]:
    return event(seq, "alive", time_us=second * S, **other)


def test_a_group_is_proven_since_its_first_event() -> None:
    fed = Fed(delay_us=0).add(*WHOLE).look(1_020)
    assert (fed.found.verdict, fed.found.since_us, fed.found.until_us) == (
        Verdict.PROVEN,
        1_002 * S,
        1_020 * S,
    )
    assert fed.look(1_030).found.until_us == 1_030 * S


def test_an_event_that_is_missing_begins_the_window_anew() -> None:
    fed = Fed(delay_us=0).add(*WHOLE[:5], *WHOLE[6:]).look(1_020)
    assert (fed.found.verdict, fed.found.since_us) == (Verdict.UNPROVEN, 1_020 * S + 1)
    assert "events are missing" in fed.found.why
    assert fed.look(1_050).found.verdict is Verdict.PROVEN
    assert fed.found.since_us == 1_020 * S + 1, "the complete window lasts since the look that found it"
    assert not fed.verifier.is_complete


def test_two_owners_within_a_process_are_a_violation_for_good() -> None:
    twice = event(6, "assigned", "m2", [1]), event(7, "joined", "m1", [0], time_us=1_006 * S + MS)
    fed = Fed(delay_us=0).add(
        *WHOLE[:3], event(4, "joined", "m2", []), event(5, "epoch_moved", "m2", []), *twice
    )
    fed.look(1_010)
    assert (fed.found.verdict, fed.found.is_final, fed.found.violated_us) == (
        Verdict.VIOLATED,
        True,
        1_006 * S + MS,
    )
    assert fed.look(9_000).found.verdict is Verdict.VIOLATED


def test_a_process_that_is_silent_has_ended_and_what_it_wrote_last_may_be_missing() -> None:
    other = {"replica": "b", "boot": "2"}
    fed = Fed().add(*WHOLE[:3], alive(4, 1_005), *(alive(n, 1_000 + 5 * n, **other) for n in range(1, 20)))
    assert fed.look(1_020).found.verdict is Verdict.PROVEN
    fed.look(1_025)
    assert fed.found.verdict is Verdict.UNPROVEN
    assert any("a.1 has ended, and did not say so" in why for why in fed.found.why)


def test_a_process_that_was_only_silent_goes_on() -> None:
    """What its member holds is known, so another one that gets it is not the next owner but a second one."""
    other = {"replica": "b", "boot": "2"}
    fed = Fed().add(*WHOLE[:3], *(alive(n, 1_000 + 5 * n, **other) for n in range(1, 40))).look(1_060)
    assert any("a.1 has ended" in why for why in fed.found.why)
    taken = event(40, "assigned", "m2", [0], **other, time_us=1_205 * S)
    fed.add(alive(4, 1_190), alive(5, 1_206), taken).look(1_221)
    assert "a partition has owners at two processes to the end of the journal" in fed.found.why


def test_a_process_that_says_that_it_stops_leaves_nothing_in_doubt() -> None:
    other = {"replica": "b", "boot": "2"}
    fed = Fed().add(*WHOLE, *(alive(n, 1_000 + 5 * n, **other) for n in range(1, 20))).look(1_090)
    assert (fed.found.verdict, fed.found.why) == (Verdict.PROVEN, ())


def test_an_event_that_comes_too_late_leaves_its_time_unproven() -> None:
    fed = Fed().add(*WHOLE[:4], *WHOLE[5:]).look(1_024)
    fed.add(WHOLE[4]).look(1_040)
    assert fed.found.verdict is Verdict.UNPROVEN
    assert "events that came too late and are left out" in fed.found.why
    assert not fed.verifier.is_complete


def test_events_that_come_twice_count_once() -> None:
    fed = Fed(delay_us=0).add(*WHOLE).look(1_020).add(*WHOLE).look(1_030)
    certificate = fed.verifier.certificate("g")
    assert certificate is not None
    assert (certificate.events, certificate.verdict) == (7, Verdict.PROVEN)
    assert fed.found.verdict is Verdict.PROVEN


def test_a_line_that_is_none_leaves_the_time_unproven() -> None:
    fed = Fed(delay_us=0).add(*WHOLE)
    fed.verifier.add([b"{"])
    assert fed.look(1_020).found.verdict is Verdict.UNPROVEN


# -- bounds ----------------------------------------------------------------------------------------------------


def test_more_events_than_may_wait_do_not_wait() -> None:
    fed = Fed(bounds=Bounds(waiting=4)).add(*WHOLE).look(1_000)
    assert fed.verifier.waiting == 4


def test_a_group_that_is_too_large_is_not_judged() -> None:
    fed = Fed(delay_us=0, bounds=Bounds(of_group=3)).add(*WHOLE).look(1_020)
    assert fed.found is None
    assert fed.verifier.certificate("g") is None
    assert fed.verifier.why_not_judged("g") == "more than 3 members and partitions are not verified live"


def test_groups_that_hold_nothing_make_room_for_others() -> None:
    fed = Fed(delay_us=0, bounds=Bounds(groups=1)).add(event(1, "joined", "m", [], group="empty"))
    fed.add(event(2, "left", "m", [], group="empty"), event(3, "joined", "m1", [0]))
    assert fed.look(1_010).found is not None
    fed.add(event(4, "joined", "m", [1], group="h"), event(5, "joined", "m", [1], group="h")).look(1_011)
    assert fed.verifier.left_out == 2
    assert fed.verifier.why_not_judged("h") == "more than 1 groups are not verified live"
    assert ROOM_US == 10 * S
    assert fed.verifier.certificate("g") is not None


def test_memory_does_not_grow_with_processes_that_come_and_go() -> None:
    fed = Fed()
    for number in range(1_500):
        fed.add(alive(1, 1_000 + number * 20, replica=f"r{number}")).look(1_000 + number * 20)
    assert len(fed.verifier._read_us) <= 1_002
    assert len(fed.verifier._numbers) <= 1_002
    assert len(fed.verifier._verifier.ended) <= 1_002
    assert LIVE_DELAY_US > DELAY_US


def test_a_process_that_ended_long_ago_is_not_taken_to_live_because_it_was_forgotten() -> None:
    fed = Fed()
    fed.add(event(1, "joined", "m", [0], replica="a")).look(1_000)
    for number in range(1, 2_000):
        fed.add(alive(number, 1_000 + number * 5, replica="b")).look(1_000 + number * 5)
    fed.add(
        event(2_000, "joined", "n", [0], time_us=11_010 * S, replica="b"), alive(2_001, 11_050, replica="b")
    )
    fed.look(11_060)
    certificate = fed.verifier.certificate("g")
    assert certificate is not None
    assert certificate.owners.overlaps == {"unproven": 1}


def test_nor_if_another_process_has_adopted_its_member_which_has_told_no_snapshot() -> None:
    fed = Fed()
    fed.add(event(1, "joined", "m", [0], replica="a")).look(1_000)
    fed.add(event(1, "adopted", "m", None, time_us=1_004 * S, replica="b"), alive(1, 1_004, replica="c"))
    for number in range(2, 2_000):
        fed.add(alive(number, 1_000 + number * 5, replica="b")).look(1_000 + number * 5)
    fed.add(event(2_000, "joined", "n", [0], time_us=11_010 * S, replica="b"))
    fed.add(event(2_001, "left", "m", [], time_us=11_011 * S, replica="b"), alive(2_002, 11_050, replica="b"))
    fed.look(11_060)
    certificate = fed.verifier.certificate("g")
    assert certificate is not None
    assert certificate.owners.overlaps == {"unproven": 1}
