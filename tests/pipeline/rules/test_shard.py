"""Shards of the groups find, while a journal is written, what verify finds in the whole journal."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pipeline.rules.classes import VIOLATION
from pipeline.rules.judge import Judge, Judged
from pipeline.rules.lines import Line, owned_text, parse_line
from pipeline.rules.ownership import GroupOwnership
from pipeline.rules.saved import SavedGroup
from pipeline.rules.shard import Bounds, Shard, Told, split
from tests.pipeline.migration import START_US, Migration
from tests.pipeline.rules.journals import LIVE_DELAY_US, SKEW_US, plan, saved, verified

SHARDS = 3
S = 1_000_000
WITHOUT_WRONG_CLOCKS = [seed for seed in range(24) if not plan(seed).skewed_us]
"""What clocks account for is known live only as far as it has shown."""


def arriving(folder: Path, seed: int) -> Iterator[list[tuple[str, list[bytes]]]]:
    """The lines as a topic of four partitions by group brings them, up to ten seconds late, ten seconds at once."""
    late = random.Random(seed)  # noqa: S311 - a model, no secret
    lines = []
    for path in folder.rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            event = parse_line(line)
            assert isinstance(event, Line)
            place = str(hash_of(event.group or "") % 4)
            lines.append(((event.time_us or 0) + late.randrange(10 * S), place, line))
    lines.sort()
    at_us = lines[0][0]
    parts: dict[str, list[bytes]] = {}
    for arrives_us, place, line in lines:
        if arrives_us - at_us >= 10 * S:
            yield list(parts.items())
            parts, at_us = {}, arrives_us
        parts.setdefault(place, []).append(line)
    yield list(parts.items())


def hash_of(group: str) -> int:
    return sum(group.encode())


@pytest.mark.parametrize("seed", WITHOUT_WRONG_CLOCKS)
def test_shards_tell_the_violations_that_verify_finds(seed: int, tmp_path: Path) -> None:
    folder = saved(seed, tmp_path)
    live = Live()
    for parts in arriving(folder, seed):
        live.turn(*parts)
    last_us = max(one.newest_us for one in live.told)
    live.turn(("end", [event(1, "alive", last_us + 10 * LIVE_DELAY_US, replica="other")]))
    report = verified(folder)
    expected = sorted(
        (one.group, two.topic, two.partition, two.first_event, two.second_event)
        for one in report.certificates
        for two in one.owners.violations
    )
    assert violations(live.found) == expected
    assert not sum(one.late for one in live.told)


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
    assert (found.overlap_class, found.is_open) == (VIOLATION, True)
    assert live.turn(("0", [alive(4, 120)])) == []
    assert live.turn(("0", [event(5, "left", 125 * S, "m1"), alive(6, 140)])) == []


def test_between_two_processes_it_is_told_when_it_is_longer_than_the_skew_and_both_have_been_read() -> None:
    live = Live(delay_us=10 * S)
    a = [event(1, "assigned", 100 * S, "m1", [0]), alive(2, 105)]
    b = [event(1, "assigned", 103 * S, "m2", [0], replica="b"), alive(2, 118, "b")]
    assert live.turn(("0", a), ("1", b)) == [], (
        "a's place has been read until 105 s only: m1 may have let go at 102"
    )
    (found,) = live.turn(("0", [alive(3, 119)]), ("1", [alive(3, 120, "b")]))
    assert (found.overlap_class, found.about["from_us"]) == (VIOLATION, 103 * S)


def test_what_a_silent_process_served_is_unproven() -> None:
    live = Live(delay_us=10 * S)
    live.turn(("0", [event(1, "assigned", 100 * S, "m1", [0])]))
    live.turn(("0", [event(1, "assigned", 120 * S, "m2", [0], replica="b")]))
    assert live.turn(("0", [alive(2, 140, "b")])) == []
    assert Judge(live.judge, skew_us=SKEW_US).counts == {"unproven": 1}


def test_a_missing_event_that_may_be_the_release_excuses_it() -> None:
    live = Live(delay_us=10 * S)
    lines = [event(1, "assigned", 100 * S, "m1", [0]), event(3, "assigned", 102 * S, "m2", [0])]
    live.turn(("0", [*lines, event(4, "left", 103 * S, "m1")]))
    (found,) = live.turn(("0", [alive(5, 120)]))
    assert found.overlap_class == "events_lost"


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
    assert not live.groups[0], "nobody is a member for more than an hour"
    assert len(live.states[0] or b"") < 2_000
