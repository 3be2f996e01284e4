"""What is certified of a group, and that the verifier finds what the independent checker finds."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.rules.certificate import Certificate, Report, Verdict
from pipeline.rules.classes import VIOLATION
from pipeline.rules.lines import Line, parse_line
from pipeline.rules.names import LONGEST_NAME, MOST_NAMES, OTHERS
from pipeline.rules.verifier import FORGET_US, Journal, Verifier
from tests.pipeline.checker import Check, read
from tests.pipeline.migration import Migration, Plan
from tests.pipeline.real_journal import KEPT, PLANTS, kept, save
from tests.pipeline.rules.journals import (
    SKEW_US,
    checked,
    differences,
    of_report,
    of_tables,
    plan,
    saved,
    verified,
)
from translation.moving.in_place import UNNOTICED

MS, S = 1_000, 1_000_000


THIRD_MEMBER, NO_LENGTH = 42, 151
"""Seeds in which verifier and checker differed once: a third member gets a partition that two hold when one's process
is killed; an overlap of no length within a process."""


@pytest.mark.parametrize("seed", [*range(32), THIRD_MEMBER, NO_LENGTH])
def test_findings_equal_the_checkers(seed: int, tmp_path: Path) -> None:
    folder = saved(seed, tmp_path)
    assert differences(of_report(verified(folder)), checked(folder)) == []


@pytest.mark.parametrize("seed", [6, 14, 22])
def test_what_is_planted_is_found_and_nothing_else(seed: int, tmp_path: Path) -> None:
    """One millisecond within a process, or a revocation that never came."""
    migration = Migration(plan(seed)._replace(violations=3))
    migration.save(tmp_path, disorder=20)
    found = {
        (one.group, two.partition, two.first_member, two.second_member, two.until_us - two.from_us)
        for one in verified(tmp_path).certificates
        for two in one.owners.violations
    }
    assert found == set(migration.planted)


def test_a_clock_beyond_the_bound_is_shown_and_makes_no_violation(tmp_path: Path) -> None:
    migration = Migration(Plan(0, groups=25, skewed_us=400 * MS, violations=3))
    migration.save(tmp_path)
    report = verified(tmp_path)
    violated = {one.group for one in report.certificates if one.verdict is Verdict.VIOLATED}
    assert violated == {one.group for one in migration.planted}
    assert {one.ahead for one in report.clocks} == {migration.boots[0].replica}
    doubtful = [one for one in report.certificates if one.owners.overlaps.get("clock")]
    assert doubtful
    assert all(one.verdict is not Verdict.PROVEN for one in doubtful)


@pytest.mark.parametrize("fault", PLANTS)
def test_a_recorded_migration_and_what_is_planted_in_it(fault: str, tmp_path: Path) -> None:
    planted, expected = PLANTS[fault](kept(KEPT))
    folder = save(planted, tmp_path)
    ours = of_report(verified(folder))
    check = Check(read(folder), SKEW_US)
    ends = {event["group"]: event["time_us"] for event in planted if event["group"]}
    assert differences(ours, of_tables(set(ends), check.overlaps, check.gaps, ends)) == []
    (group,) = ours.values()
    assert {one[1:] for one in expected} == group.violations
    (certificate,) = verified(folder).certificates
    assert (certificate.verdict is Verdict.VIOLATED) is bool(expected)
    assert {"classic", "translated"} <= certificate.pauses.keys()


# -- small journals by hand ------------------------------------------------------------------------------------


def event(
    seq: int, kind: str, member: str = "", owned: list[int] | None = None, **other: Any
) -> dict[str, Any]:
    """One event a second after another."""
    listed = None if owned is None else [{"topic": "t", "id": None, "partitions": owned}] if owned else []
    fields = {
        "v": 1, "replica": "a", "boot": "1", "seq": seq, "time_us": (1_000 + seq) * S, "kind": kind,
        "group": "g" if member else "", "protocol": "translated" if member else "", "member": member,
        "instance": None, "generation": 1, "state": "Stable", "owned": listed, "reason": "",
    }  # fmt: skip
    return fields | other


WHOLE = (
    event(1, "started"),
    event(2, "joined", "m1", []),
    event(3, "assigned", "m1", [0, 1]),
    event(4, "joined", "m1", [0]),
    event(5, "joined", "m2", []),
    event(6, "assigned", "m2", [1]),
    event(7, "left", "m2", []),
    event(8, "assigned", "m1", [0, 1]),
    event(9, "stopped"),
)


def certified(tmp_path: Path, *events: dict[str, Any], **options: Any) -> Certificate:
    """The certificate of the group of these events."""
    (certificate,) = reported(tmp_path, *events, **options).certificates
    return certificate


def reported(tmp_path: Path, *events: dict[str, Any], **options: Any) -> Report:
    return verified(save(list(events), tmp_path), **options)


def without(*seqs: int) -> list[dict[str, Any]]:
    return [one for one in WHOLE if one["seq"] not in seqs]


def test_a_whole_journal_proves_a_group(tmp_path: Path) -> None:
    found = certified(tmp_path, *WHOLE)
    assert (found.verdict, found.provisional, found.why) == (Verdict.PROVEN, False, ())
    assert found.members == {"translated": 2}
    assert found.translated_since_us == 1_002 * S
    assert (found.gaps.count, found.gaps.longest_us, found.gaps.now) == (2, 2 * S, 0)
    assert not found.commits.recorded


def test_a_missing_number_leaves_it_unproven_until_a_window_without_one(tmp_path: Path) -> None:
    found = certified(tmp_path, *without(5))
    assert (found.verdict, found.why) == (Verdict.UNPROVEN, ("1 events of a.1 are missing",))
    assert certified(tmp_path, *without(5), from_us=1_006 * S).verdict is Verdict.UNPROVEN
    assert certified(tmp_path, *without(5), from_us=1_006 * S + 1).verdict is Verdict.PROVEN


def test_an_overlap_whose_end_may_have_been_lost_is_unproven(tmp_path: Path) -> None:
    found = certified(tmp_path, *without(4))
    assert (found.verdict, found.owners.overlaps) == (Verdict.UNPROVEN, {"events_lost": 1})


def test_a_line_that_cannot_be_read_leaves_it_unproven_until_a_window_without_one(tmp_path: Path) -> None:
    (file,) = save(list(WHOLE), tmp_path).rglob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:3], b"zeros\0\0\n", *lines[3:]]))
    (found,) = verified(tmp_path).certificates
    assert (found.verdict, found.why) == (Verdict.UNPROVEN, ("1 lines can't be read",))
    (found,) = verified(tmp_path, from_us=1_005 * S).certificates
    assert found.verdict is Verdict.PROVEN


def test_two_owners_within_a_process_violate_it_for_good(tmp_path: Path) -> None:
    found = certified(tmp_path, *WHOLE[:3], event(4, "assigned", "m2", [1]))
    assert (found.verdict, found.provisional) == (Verdict.VIOLATED, False)
    (two,) = found.owners.violations
    assert (two.first_member, two.second_member, two.partition, two.until_event) == ("m1", "m2", 1, None)
    assert (two.first_event, two.second_event) == ("a.1.3", "a.1.4")


ELSEWHERE = {"replica": "b", "boot": "1"}


def test_two_owners_at_the_end_of_two_journals_may_be_a_release_that_is_still_to_come(tmp_path: Path) -> None:
    given = event(1, "assigned", "m2", [1], **ELSEWHERE, time_us=1_003_000_500)
    tick = event(4, "epoch_moved", "m1", [0, 1])
    found = certified(tmp_path / "1", *WHOLE[:3], given, tick)
    assert (found.verdict, found.provisional) == (Verdict.UNPROVEN, True)
    assert "owners at two processes" in found.pending[0]

    release = event(4, "joined", "m1", [0], time_us=1_003_001_000)
    stops = event(5, "stopped"), event(2, "stopped", **ELSEWHERE, time_us=1_009 * S)
    found = certified(tmp_path / "2", *WHOLE[:3], given, release, *stops)
    assert (found.verdict, found.owners.overlaps) == (Verdict.PROVEN, {"within_skew": 1})

    late = event(4, "joined", "m1", [0], time_us=1_005 * S)
    found = certified(tmp_path / "3", *WHOLE[:3], given, late, *stops)
    assert (found.verdict, found.provisional) == (Verdict.VIOLATED, False)


def test_what_a_killed_process_served_is_unproven_when_somebody_else_gets_it(tmp_path: Path) -> None:
    taken = event(1, "assigned", "m2", [1], **ELSEWHERE, time_us=1_100 * S)
    found = certified(tmp_path, *WHOLE[:3], taken)
    assert (found.verdict, found.owners.overlaps) == (Verdict.UNPROVEN, {"unproven": 1})
    assert found.provisional, "m1 still holds partition 0, and its process may write again"


def test_a_member_of_which_the_journal_does_not_tell_what_it_holds(tmp_path: Path) -> None:
    adopted = event(9, "adopted", "m3")
    found = certified(tmp_path / "1", *WHOLE[:8], adopted)
    assert (found.verdict, found.why) == (Verdict.UNPROVEN, ("what 1 members hold is not known",))
    known = certified(tmp_path / "2", *WHOLE[:8], adopted, event(10, "joined", "m3", []))
    assert known.why == ("what some members held is not known for a part of the time",)
    later = certified(
        tmp_path / "3", *WHOLE[:8], adopted, event(10, "joined", "m3", []), from_us=1_010 * S + 1
    )
    assert later.verdict is Verdict.PROVEN


def test_a_group_that_the_journal_does_not_know_and_groups_without_owners(tmp_path: Path) -> None:
    share = [event(seq, "assigned", f"m{seq}", [0], protocol="share", group="s") for seq in (10, 11)]
    report = reported(tmp_path, *WHOLE, *share)
    assert ([one.group for one in report.certificates], report.not_judged) == (["g"], 1)
    (nope,) = reported(tmp_path, *WHOLE, groups=("nope",)).certificates
    assert (nope.verdict, nope.why) == (Verdict.UNPROVEN, ("the journal has nothing of this group",))


def test_an_owned_list_that_cannot_be_read_leaves_it_unproven(tmp_path: Path) -> None:
    found = certified(tmp_path, *WHOLE[:8], event(9, "assigned", "m1", owned=[{"topic": 1}]))
    assert found.why == ("partitions or commits of 1 events can't be read",)


def test_pauses_count_by_the_protocol_that_the_member_had_when_it_began(tmp_path: Path) -> None:
    moves = [
        event(2, "joined", "c", [], protocol="classic"),
        event(3, "state_changed", "c", [], protocol="classic", state="PrepareRebalance"),
        event(5, "state_changed", "c", [], protocol="classic"),
        event(6, "state_changed", "m", [], state="CompletingRebalance"),
        event(7, "state_changed", "m", [], state="PrepareRebalance"),
        event(10, "left", "m", []),
    ]
    found = certified(tmp_path, *moves)
    assert {name: (one.count, one.longest_us) for name, one in found.pauses.items()} == {
        "classic": (1, 2 * S),
        "translated": (1, 4 * S),
    }
    assert 2 * S <= found.pauses["classic"].p99_us <= 2.24 * S


def test_a_member_that_is_converted_in_place_keeps_its_partitions_and_does_not_pause(tmp_path: Path) -> None:
    conversion = {"reason": UNNOTICED, "generation": 3, "epoch": 3}
    found = certified(
        tmp_path,
        event(1, "started"),
        event(2, "joined", "m", [], protocol="classic"),
        event(3, "assigned", "m", [0, 1], protocol="classic"),
        event(4, "state_changed", "m", [0, 1], previous_state="", **conversion),
        event(5, "adopted", "m", [0, 1], **conversion),
        event(6, "left", "m", []),
        event(7, "stopped"),
    )
    assert (found.verdict, found.why) == (Verdict.PROVEN, ())
    assert (found.gaps.count, found.gaps.now, found.pauses) == (2, 2, {})  # since it left
    assert found.translated_since_us == 1_005 * S


def commit(seq: int, offset: int, before: int = -1, **other: Any) -> dict[str, Any]:
    commits = [{"topic": "t", "partitions": [0], "offsets": [offset], "before": [before]}]
    return event(seq, "committed", "m1", commits=commits, **other)


def test_commits_that_are_refused_or_set_an_offset_back(tmp_path: Path) -> None:
    found = certified(
        tmp_path,
        *WHOLE[:8],
        commit(9, 100),
        commit(10, 90, reason="STALE_MEMBER_EPOCH"),
        commit(11, 120, 110),
        commit(1, 115, **ELSEWHERE, time_us=1_012 * S),  # another process, which had seen no commit
        commit(2, 116, 115, **ELSEWHERE, time_us=1_013 * S),
    )
    assert (found.verdict, found.commits.recorded) == (Verdict.PROVEN, True)
    assert found.commits.refused == {"STALE_MEMBER_EPOCH": 1}
    assert [(one.offset, one.before, one.event) for one in found.commits.examples] == [(115, 120, "b.1.1")]


def test_names_that_a_forged_journal_makes_up_are_bounded_and_still_counted(tmp_path: Path) -> None:
    """Errors of commits, protocols of members that pause, and kinds of events: a thousand of each, some long."""
    made_up = [f"{number}{'x' * (number % 5 * 100)}" for number in range(1_000)]
    commits = [commit(9 + number, 100, reason=name) for number, name in enumerate(made_up)]
    pauses = [
        event(1_009 + 2 * number + half, "state_changed", f"n{number}", protocol=name, state=state)
        for number, name in enumerate(made_up)
        for half, state in enumerate(("PrepareRebalance", "Stable"))
    ]
    unknown = [event(3_009 + number, name, "m1") for number, name in enumerate(made_up)]
    report = reported(tmp_path, *WHOLE[:8], *commits, *pauses, *unknown)
    (found,) = report.certificates
    counts = {name: times.count for name, times in found.pauses.items()}
    for bounded in (found.commits.refused, counts, report.journal.quarantined):
        assert len(bounded) == MOST_NAMES + 1
        assert max(map(len, bounded)) == LONGEST_NAME
        assert (sum(bounded.values()), bounded[OTHERS]) == (1_000, 1_000 - MOST_NAMES)


def test_certificates_may_be_asked_for_at_any_time_and_again(tmp_path: Path) -> None:
    """As a proxy does that feeds its own events."""
    verifier, journal = Verifier(), Journal()
    for one in WHOLE[:6]:
        verifier.take(line(one))
    half = verifier.certificates(journal)
    assert verifier.certificates(journal) == half
    for one in WHOLE[6:]:
        verifier.take(line(one))
    (whole,) = verifier.certificates(journal).certificates
    assert (whole.verdict, whole.gaps.count, half.certificates[0].gaps.count) == (Verdict.PROVEN, 2, 1)


def line(one: dict[str, Any]) -> Line:
    parsed = parse_line(json.dumps(one).encode())
    assert isinstance(parsed, Line)
    return parsed


def test_memory_is_for_those_who_live_not_for_the_history() -> None:
    """A thousand processes are killed one after another, each with a member that pauses and never comes back."""
    verifier = Verifier()
    at_us = S
    for number in range(1_000):
        process = {"replica": f"pod-{number}", "boot": "1"}
        member = f"m{number}"
        for seq, one in enumerate(
            (
                event(1, "joined", member, []),
                event(2, "assigned", member, [0]),
                event(3, "state_changed", member, [0], state="PrepareRebalance"),
            ),
            1,
        ):
            at_us += 100 * S
            verifier.take(line({**one, **process, "seq": seq, "time_us": at_us}))
        verifier.process_ended((process["replica"], process["boot"]), at_us)
        verifier.forget(at_us)
    group = verifier.groups["g"]
    left = FORGET_US // (300 * S) * 2
    states = (group._seen, group.ownership._members, group.pauses._since, group.ownership._last_seq)
    assert all(len(state) <= left for state in states)
    assert not group.ownership._heard
    (certificate,) = verifier.certificates(Journal()).certificates
    assert certificate.owners.overlaps == {"unproven": 999}
    assert VIOLATION not in certificate.owners.overlaps
