"""An audit that goes on from yesterday's state finds what one over all events finds. The rules alone, without Spark."""

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from pipeline.rules.events import Event
from pipeline.rules.findings import Finding, Overlap
from pipeline.rules.ownership import GroupOwnership
from pipeline.rules.saved import SavedGroup
from tests.pipeline.checker import read
from tests.pipeline.in_memory import through
from tests.pipeline.migration import MS, START_US, Migration, Plan, S

SKEW_US = 100 * MS


class Day(NamedTuple):
    """What has come of a journal until a day's run, in order, and until when that run settles what it finds."""

    events: list[dict[str, Any]]
    cut_us: int


class Known(NamedTuple):
    """What a day's run keeps of a group."""

    state: bytes
    relied_on: set[tuple[str, str]]
    settled: list[Finding]
    seen: set[Event]


def days(folder: Path, seed: int) -> list[Day]:
    """A migration that is read on several days, at random times. The newest files of each replica come a day later, and
    in half of the journals those of one replica come on the last day only, from some time on.
    """
    Migration(Plan(seed, violations=1, lost=0.002, duplicated=0.02, skewed_us=250 * MS)).save(folder)
    events = read(folder)
    rng = random.Random(seed)  # noqa: S311 - a seed, no secret
    begin, end = events[0]["time_us"], events[-1]["time_us"]
    replicas = sorted({event["replica"] for event in events})
    hangs = rng.choice([rng.choice(replicas), None]), rng.randrange(begin, end)
    found, cut_us, come = list[Day](), -1, set[int]()
    for until_us in sorted(rng.randrange(begin, end) for _ in range(rng.randrange(1, 5))):
        behind_us = {replica: rng.choice((0, 0, 2 * S, 20 * S)) for replica in replicas}
        for number, event in enumerate(events):
            is_held_back = event["replica"] == hangs[0] and event["time_us"] > hangs[1]
            if event["time_us"] + behind_us[event["replica"]] <= until_us and not is_held_back:
                come.add(number)
        of_day = [event for number, event in enumerate(events) if number in come]
        newest_us = of_day[-1]["time_us"] if of_day else 0
        cut_us = max(cut_us, newest_us - rng.choice((0, 5 * S, 60 * S)))
        found.append(Day(of_day, cut_us))
    return [*found, Day(events, max(cut_us, end))]


def by_group(events: list[dict[str, Any]]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in events:
        owned = None if event["owned"] is None else json.dumps(event["owned"])
        fields = {name: event[name] for name in Event._fields} | {"owned": owned}
        found.setdefault(event["group"], []).append(Event(**fields))
    return found


def last_us(events: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for event in events:
        process = event["replica"], event["boot"]
        found[process] = max(event["time_us"], found.get(process, 0))
    return found


class Continued:
    """Runs day after day, each from what the one before has kept, as the incremental audit does on Spark."""

    def __init__(self) -> None:
        self.went_on = self.replayed = 0
        self._known: dict[str, Known] = {}
        self._last_us: dict[tuple[str, str], int] = {}
        self._cut_us = -1

    def run(self, day: Day) -> list[tuple[str, Finding]]:
        """The findings until this day."""
        now = last_us(day.events)
        gone_on = {process for process, us in self._last_us.items() if now[process] != us}
        found = list[tuple[str, Finding]]()
        for group, events in by_group(day.events).items():
            found += [(group, one) for one in self._group(group, events, now, gone_on, day.cut_us)]
        self._last_us, self._cut_us = now, day.cut_us
        return found

    def _group(
        self,
        group: str,
        events: list[Event],
        now: dict[tuple[str, str], int],
        gone_on: set[tuple[str, str]],
        cut_us: int,
    ) -> list[Finding]:
        ownership, settled = GroupOwnership(now, SKEW_US), list[Finding]()
        if (known := self._known.get(group)) is not None:
            late = {event for event in events if event.time_us <= self._cut_us} - known.seen
            if late or known.relied_on & gone_on:
                self.replayed += 1
            else:
                self.went_on += 1
                ownership.go_on_from(known.state)
                settled = list(known.settled)
                events = [event for event in events if event.time_us > self._cut_us]
        before = [event for event in events if event.time_us <= cut_us]
        settled += [one for event in before for one in ownership.take(event)]
        seen = set(events) | (known.seen if known is not None else set())
        self._known[group] = Known(ownership.state(), set(ownership.relied_on), settled, seen)
        after = [event for event in events if event.time_us > cut_us]
        later = [one for event in after for one in ownership.take(event)]
        return [*settled, *later, *ownership.end()]


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 300), marks=pytest.mark.long)])
def test_each_day_finds_what_a_run_over_all_events_until_then_finds(tmp_path: Path, seeds: range) -> None:
    went_on = replayed = 0
    for seed in seeds:
        continued = Continued()
        for number, day in enumerate(days(tmp_path / str(seed), seed)):
            found = continued.run(day)

            full = through(day.events, SKEW_US)
            assert sorted(map(str, found)) == sorted(map(str, full)), f"seed {seed}, day {number}"
        went_on, replayed = went_on + continued.went_on, replayed + continued.replayed
    assert went_on > len(seeds), "groups go on from their state"
    assert replayed > 0, "late events and processes that went on are among the cases"


def test_an_end_that_was_none_is_relied_on() -> None:
    """A member gets a partition while the first one's process is silent, and yesterday nobody knew that it goes on."""

    def event(seq: int, us: int, replica: str, member: str, owned: str | None) -> Event:
        return Event(START_US + us, replica, "1", seq, "assigned", member, None, "translated", seq, owned)

    held = '[{"topic": "t", "partitions": [0]}]'
    ownership = GroupOwnership({("a", "1"): START_US, ("b", "1"): START_US + S}, SKEW_US)
    ownership.take(event(1, 0, "a", "m1", held))
    assert ownership.relied_on == set()

    ownership.take(event(1, S, "b", "m2", held))

    assert ownership.relied_on == {("a", "1")}
    next_day = GroupOwnership({("a", "1"): START_US, ("b", "1"): START_US + 2 * S}, SKEW_US)
    next_day.go_on_from(ownership.state())
    assert next_day.relied_on == {("a", "1")}, "the process may go on writing after any number of days"


HELD = '[{"topic": "t", "partitions": [0]}]'
BEFORE = {("a", "1"): START_US + S, ("b", "1"): START_US + 60 * S}
"""The last events before a member of ``a`` is adopted by ``b``."""


def of(seq: int, at_s: int, replica: str, kind: str, member: str, owned: str | None) -> Event:
    return Event(
        START_US + at_s * S, replica, "1", seq, kind, member, None, "translated", 1 + (replica == "b"), owned
    )


def adopted() -> GroupOwnership:
    """After a member went on from a process that was killed; its new one has told no snapshot."""
    ownership = GroupOwnership(BEFORE, SKEW_US)
    ownership.take(of(1, 0, "a", "assigned", "m1", HELD))
    ownership.take(of(1, 10, "b", "adopted", "m1", None))
    assert ownership.relied_on == set(), "nothing is found yet that would be another finding otherwise"
    return ownership


def overlaps_after(state: bytes, last_us: dict[tuple[str, str], int], *events: Event) -> list[Overlap]:
    ownership = GroupOwnership(last_us, SKEW_US)
    ownership.go_on_from(state)
    found = [one for event in events for one in ownership.take(event)]
    return [one for one in (*found, *ownership.end()) if isinstance(one, Overlap)]


def test_a_state_knows_that_an_adopted_member_has_told_no_snapshot() -> None:
    taken = of(2, 20, "b", "assigned", "m2", HELD)
    state = adopted().state()

    (unproven,) = overlaps_after(state, BEFORE, taken)

    assert (unproven.proven, unproven.until_us - unproven.from_us) == (False, 0)
    confirmed = of(2, 15, "b", "state_changed", "m1", HELD)
    (proven,) = overlaps_after(state, BEFORE, confirmed, taken._replace(seq=3))
    assert proven.proven


def test_a_state_of_a_process_that_went_on_later_has_nothing_to_be_replayed_for() -> None:
    """Only a finding that took it to have ended is another one then."""
    went_on = BEFORE | {("a", "1"): START_US + 12 * S}
    (overlap,) = overlaps_after(adopted().state(), went_on, of(2, 20, "b", "assigned", "m2", HELD))
    assert overlap.proven
    assert overlap.first_process == ("b", "1")


def test_a_finding_on_an_adopted_member_relies_on_the_end_of_its_former_process() -> None:
    ownership = adopted()
    ownership.take(of(2, 20, "b", "assigned", "m2", HELD))
    assert ownership.relied_on == {("a", "1")}


def test_an_overlap_that_is_known_until_a_kill_relies_on_it() -> None:
    ownership = GroupOwnership(BEFORE, SKEW_US)
    for one in (
        of(1, 0, "a", "assigned", "m1", HELD),
        of(1, 1, "b", "assigned", "m2", HELD),
        of(2, 10, "b", "adopted", "m1", None),
        of(3, 11, "b", "left", "m2", "[]"),
    ):
        ownership.take(one)
    assert ownership.relied_on == {("a", "1")}


def test_a_state_from_before_there_were_silences_is_read() -> None:
    """A live audit goes on from it: the members that are adopted then count as they did."""
    saved = msgspec.msgpack.decode(adopted().state())
    for member in saved[0]:
        assert member.pop()
    ownership = GroupOwnership(BEFORE, SKEW_US)
    ownership.restore(msgspec.convert(saved, SavedGroup))
    assert ownership.members() == {"m1"}


def test_nothing_of_a_state_is_lost(tmp_path: Path) -> None:
    """Members that pass through unseen too, which count for the gaps that follow."""
    unseen = Event(START_US, "a", "1", 10**6, "joined", "classic", None, "classic", 1, None)
    for events in by_group(days(tmp_path, 5)[0].events).values():
        ownership, another = GroupOwnership({}, SKEW_US), GroupOwnership({}, SKEW_US)
        for event in (*events, unseen):
            ownership.take(event)

        another.go_on_from(ownership.state())

        assert another.state() == ownership.state()
        assert (another.size, another.members()) == (ownership.size, ownership.members())
        assert ownership.size > 0
