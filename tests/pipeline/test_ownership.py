"""Going through groups, against the independent checker and against what was planted: no Spark, many seeds."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.rules.classes import LOST, VIOLATION, OverlapClassifier
from pipeline.rules.losses import Loss
from pipeline.rules.ownership import ClockProof, Event, Gap, GroupOwnership, Interval, Overlap
from tests.pipeline.checker import Check, read
from tests.pipeline.in_memory import found
from tests.pipeline.migration import MS, START_US, Migration, Plan

SKEW_US = 100 * MS


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "faults", [{}, {"lost": 0.01}, {"skewed_us": 400 * MS}, {"skewed_us": -400 * MS, "lost": 0.01}]
)
def test_overlaps_and_gaps_equal_the_checkers(seed: int, faults: dict[str, Any], tmp_path: Path) -> None:
    migration = Migration(Plan(seed, violations=3, duplicated=0.02, **faults))
    migration.save(tmp_path, disorder=20)
    events = read(tmp_path)

    check = Check(events, SKEW_US)

    assert found(events, SKEW_US) == ({one[:7] for one in check.overlaps}, check.gaps)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_planted_is_found_and_nothing_else(seed: int, tmp_path: Path) -> None:
    migration = Migration(Plan(seed, violations=3, duplicated=0.02))
    migration.save(tmp_path, disorder=20)

    check = Check(read(tmp_path), SKEW_US)

    found = {
        (one[0], one[2], one[3], one[4], one[6] - one[5]) for one in check.overlaps if one[7] == VIOLATION
    }
    assert found == set(migration.planted)


@pytest.mark.parametrize("seed", range(4))
def test_a_clock_beyond_the_bound_is_shown_and_makes_no_violation(seed: int, tmp_path: Path) -> None:
    migration = Migration(Plan(seed, groups=25, skewed_us=400 * MS, violations=3))
    migration.save(tmp_path)

    check = Check(read(tmp_path), SKEW_US)

    assert {one[0] for one in check.overlaps if one[7] == VIOLATION} == {
        one.group for one in migration.planted
    }
    assert any(one[7] == "clock" for one in check.overlaps)
    proofs = {pair: apart for pair, apart in check.proofs.items() if apart > SKEW_US}
    assert proofs
    assert {ahead for ahead, _ in proofs} == {migration.boots[0].replica}


def event(seq: int, kind: str, member: str, owned: list[int] | None, **other: Any) -> Event:
    """One event a millisecond after another."""
    text = (
        None
        if owned is None
        else json.dumps([{"topic": "t", "id": None, "partitions": owned}] if owned else [])
    )
    fields = {"time_us": START_US + seq * MS, "replica": "a", "boot": "1", "instance": None, "generation": 1}
    values = {
        **fields,
        "seq": seq,
        "kind": kind,
        "member": member,
        "protocol": "translated",
        "owned": text,
        **other,
    }
    return Event(**values)


def taken(*events: Event, last_us: int = START_US + 10**9) -> list[Any]:
    ownership = GroupOwnership({one.process: last_us for one in events}, SKEW_US)
    return [found for one in events for found in ownership.take(one)] + list(ownership.end())


def test_a_handover_in_one_microsecond_is_no_overlap() -> None:
    found = taken(
        event(1, "assigned", "m1", [0]),
        event(2, "joined", "m1", [], time_us=START_US + 5 * MS),
        event(3, "assigned", "m2", [0], time_us=START_US + 5 * MS),
    )
    assert not [one for one in found if isinstance(one, Overlap)]
    assert [one.until_us - one.from_us for one in found if isinstance(one, Gap)] == [0]


def test_within_one_process_the_order_alone_shows_an_overlap() -> None:
    found = taken(
        event(1, "assigned", "m1", [0]),
        event(2, "assigned", "m2", [0], time_us=START_US + 5 * MS),
        event(3, "joined", "m1", [], time_us=START_US + 5 * MS),
    )
    (overlap,) = [one for one in found if isinstance(one, Overlap)]
    assert (overlap.first.member, overlap.second.member) == ("m1", "m2")
    assert (overlap.second.event, overlap.end_event) == ("a.1.2", "a.1.3")


@pytest.mark.parametrize(
    ("protocol", "overlaps"), [("consumer", 1), ("share", 0), ("streams", 0), ("connect", 0)]
)
def test_two_members_with_one_partition_are_an_overlap_unless_they_share_it(
    protocol: str, overlaps: int
) -> None:
    found = taken(
        event(1, "assigned", "m1", [0], protocol=protocol),
        event(2, "assigned", "m2", [0], protocol=protocol),
        event(3, "left", "m1", [], protocol=protocol),
    )
    assert sum(isinstance(one, Overlap) for one in found) == overlaps
    assert any(isinstance(one, Interval) for one in found) == bool(overlaps)


def test_a_recreated_topic_is_another_topic() -> None:
    def owned(topic_id: str) -> str:
        return json.dumps([{"topic": "t", "id": topic_id, "partitions": [0]}])

    found = taken(
        event(1, "assigned", "m1", None)._replace(owned=owned("old")),
        event(2, "assigned", "m2", None)._replace(owned=owned("new")),
        event(3, "left", "m1", None),
    )
    assert not [one for one in found if isinstance(one, Overlap)]


def test_the_end_of_a_membership_at_its_former_process_does_not_count() -> None:
    found = taken(
        event(1, "assigned", "m1", [0]),
        event(1, "adopted", "m1", None, replica="b", time_us=START_US + 2 * MS),
        event(2, "session_expired", "m1", None),
        event(2, "assigned", "m2", [0], replica="b", time_us=START_US + 500 * MS),
        event(3, "left", "m1", None, replica="b", time_us=START_US + 900 * MS),
    )
    (overlap,) = [one for one in found if isinstance(one, Overlap)]
    assert overlap.until_us - overlap.from_us == 400 * MS


def test_a_lower_generation_later_proves_a_clock_wrong() -> None:
    found = taken(
        event(1, "assigned", "m1", [0]),
        event(1, "joined", "m1", [0], replica="b", generation=2, time_us=START_US + 10 * MS),
        event(2, "assigned", "m1", [0, 1], time_us=START_US + 350 * MS),
    )
    (proof,) = [one for one in found if isinstance(one, ClockProof)]
    assert (proof.ahead[0], proof.behind[0], proof.at_least_us) == ("a", "b", 340 * MS)


def test_a_lower_generation_of_a_classic_group_proves_nothing() -> None:
    """Its coordinator was killed before it had written the newer one."""
    classic = {"protocol": "classic"}
    found = taken(
        event(1, "assigned", "m1", [0], generation=4, **classic),
        event(2, "joined", "m1", [], generation=5, **classic),
        event(1, "joined", "m1", [0], replica="b", generation=4, time_us=START_US + 8_000 * MS, **classic),
    )
    assert not [one for one in found if isinstance(one, ClockProof)]
    last = [one for one in found if isinstance(one, Interval)][-1]
    assert last.hold.process == ("b", "1")


def test_events_that_are_missing_leave_an_overlap_unjudged() -> None:
    overlap = {
        "same_instance": False, "proven": True, "from_us": 1000, "until_us": 2000, "heard_us": 500,
        "first_replica": "a", "first_boot": "1", "second_replica": "a", "second_boot": "1", "served_by": ["a.1"],
    }  # fmt: skip
    assert OverlapClassifier(0, {}, []).class_of(overlap) == VIOLATION
    assert OverlapClassifier(0, {}, [Loss("a", "1", 5, 5, 600, 700)]).class_of(overlap) == LOST
    assert OverlapClassifier(0, {}, [Loss("a", "1", 5, 5, 300, 400)]).class_of(overlap) == VIOLATION
    assert OverlapClassifier(0, {}, [Loss("b", "1", 5, 5, 600, 700)]).class_of(overlap) == VIOLATION
