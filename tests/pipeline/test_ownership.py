"""Going through groups, against the independent checker and against what was planted: no Spark, many seeds."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.rules.classes import LOST, VIOLATION, OverlapClassifier
from pipeline.rules.events import Event
from pipeline.rules.findings import ClockProof, Gap, Interval, Overlap
from pipeline.rules.losses import Loss
from pipeline.rules.ownership import GroupOwnership
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


HOUR_US = 3_600_000 * MS
P, Q, R = ({"replica": name, "generation": 2} for name in "pqr")


def after_kills(*events: Event, **last_ms: int) -> list[Any]:
    """What events show after a kill; processes that are not among ``last_ms`` (of their last events) go on."""
    last_us = {one.process: START_US + HOUR_US for one in events}
    last_us |= {(name, "1"): START_US + ms * MS for name, ms in last_ms.items()}
    ownership = GroupOwnership(last_us, SKEW_US)
    in_order = sorted(events, key=lambda one: (one.time_us, one.replica, one.boot, one.seq))
    return [found for one in in_order for found in ownership.take(one)] + list(ownership.end())


def overlaps_of(found: list[Any]) -> list[tuple[str, str, str, int, int, bool]]:
    """(first, the replica that served it, second, from, until, whether it is proven), in milliseconds."""
    return [
        (one.first.member, one.first_process[0], one.second.member, (one.from_us - START_US) // MS,
         (one.until_us - START_US) // MS, one.proven)
        for one in found if isinstance(one, Overlap)
    ]  # fmt: skip


def at(ms: int) -> dict[str, int]:
    return {"time_us": START_US + ms * MS}


HELD = event(1, "assigned", "m2", [0], **at(1), **P | {"generation": 1})
ADOPTED = event(1, "adopted", "m2", None, **at(9_000), **Q)
TAKEN = event(2, "assigned", "m1", [0], **at(9_500), **Q)


def test_what_an_adopted_member_of_a_killed_process_holds_is_not_known_before_its_snapshot() -> None:
    """Its partition had gone to another member before the kill, or just after, and nobody could write that."""
    found = after_kills(HELD, ADOPTED, TAKEN, event(3, "state_changed", "m2", [1], **at(9_600), **Q), p=100)
    assert overlaps_of(found) == [("m2", "p", "m1", 9_500, 9_500, False)]
    ended = [one for one in found if isinstance(one, Interval) and one.hold.event == HELD.name]
    assert [(one.until_us - START_US, one.end_kind) for one in ended] == [(100 * MS, "process_ended")]


def test_it_is_known_again_with_a_snapshot_that_is_equal_to_the_last() -> None:
    confirmed = event(2, "state_changed", "m2", [0], **at(9_200), **Q)
    found = after_kills(
        HELD,
        ADOPTED,
        confirmed,
        TAKEN._replace(seq=3),
        event(4, "left", "m2", [], **at(9_900), **Q),
        p=100,
    )
    assert overlaps_of(found) == [("m2", "q", "m1", 9_500, 9_900, True)]


def test_a_takeover_that_has_a_snapshot_tells_what_is_held() -> None:
    joined = event(1, "joined", "m2", [0], **at(9_000), **Q)
    found = after_kills(HELD, joined, TAKEN, event(3, "left", "m2", [], **at(9_900), **Q), p=100)
    assert overlaps_of(found) == [("m2", "q", "m1", 9_500, 9_900, True)]


def test_a_snapshot_that_claims_the_partition_after_all_begins_an_overlap() -> None:
    claims = event(3, "state_changed", "m2", [0], **at(9_600), **Q)
    found = after_kills(HELD, ADOPTED, TAKEN, claims, event(4, "left", "m1", [], **at(9_900), **Q), p=100)
    assert overlaps_of(found) == [
        ("m2", "p", "m1", 9_500, 9_500, False),
        ("m1", "q", "m2", 9_600, 9_900, True),
    ]


@pytest.mark.parametrize("last_ms", [9_000, 20_000])
def test_a_former_process_that_still_wrote_at_the_takeover_would_have_told_a_change(last_ms: int) -> None:
    later = event(3, "state_changed", "m2", [1], **at(9_600), **Q)
    found = after_kills(HELD, ADOPTED, TAKEN, later, p=last_ms)
    assert overlaps_of(found) == [("m2", "q", "m1", 9_500, 9_600, True)]


def test_of_processes_that_end_one_after_another_without_a_snapshot_the_first_counts() -> None:
    again = event(1, "adopted", "m2", None, **at(9_200), **R)
    found = after_kills(HELD, ADOPTED, again, TAKEN._replace(replica="r"), p=100, q=9_100)
    assert overlaps_of(found) == [("m2", "p", "m1", 9_500, 9_500, False)]
    ended = [one for one in found if isinstance(one, Interval) and one.hold.event == HELD.name]
    assert [one.until_us - START_US for one in ended] == [100 * MS]


def test_a_process_that_ends_before_the_snapshot_counts_if_the_one_before_was_alive_at_the_takeover() -> None:
    again = event(1, "adopted", "m2", None, **at(9_200), **R)
    found = after_kills(HELD, ADOPTED, again, TAKEN._replace(replica="r"), p=9_050, q=9_100)
    assert overlaps_of(found) == [("m2", "q", "m1", 9_500, 9_500, False)]


@pytest.mark.parametrize(
    ("later", "until_ms"),
    [
        ([], 100),
        ([event(2, "left", "m2", [], **at(9_100), **Q)], 100),
        ([event(2, "state_changed", "m2", [], **at(9_100), **Q)], 100),
        ([event(2, "state_changed", "m2", [0], **at(9_100), **Q)], None),
        ([event(9, "left", "m1", [], **at(9_100), replica="s")], 100),
    ],
)
@pytest.mark.parametrize("killed_is", ["first", "second"])
def test_an_overlap_that_began_before_the_kill_is_known_until_the_kill(
    later: list[Event], until_ms: int | None, killed_is: str
) -> None:
    """Or for longer, if a snapshot says that the member has the partition still."""
    other = event(1, "assigned", "m1", [0], replica="s", **at(0 if killed_is == "second" else 50))
    end = event(99, "alive", "m1", None, **at(9_999), replica="s")
    (found,) = overlaps_of(after_kills(HELD, other, ADOPTED, *later, end, p=100))
    assert found[4] == (until_ms or 9_999)
    served_by = "p" if until_ms else "q"
    assert (found[0], found[1]) == (("m1", "s") if killed_is == "second" else ("m2", served_by))
    assert found[5], "the process that was killed would have told an end before"


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
