"""Gates judge three windows of all replicas: by the group's baseline, what a step causes, other groups, who reports."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from translation.member_log.group_records import Move
from translation.member_log.records import Writer
from translation.member_log.signals import KEPT, Baseline, Gate, GateState, GateVerdict, Report, Window
from translation.policy.gates import AbortIf
from translation.rollout.gates import FRESH_MS, ReceivedReport, baseline_of, history_of, judge

A, B = Writer(b"a" * 16), Writer(b"b" * 16)
NOW_MS = 10**6
CALM = Window(ms=10_000, members=4, classic=3, owned_ms=80_000, lag=100)
BASELINE = Baseline(at_ms=NOW_MS, owned=8, lag=100)
MOVE = Move(steps="1, 100%", number=1, converted=True, baseline=BASELINE)
ALL = AbortIf(lag=1_000)

HARM: dict[Gate, dict[str, Any]] = {
    Gate.LAG: {"lag": 1_101},
    Gate.UNOWNED: {"owned_ms": 71_000},  # eight partitions, of which one has no owner for 9 s of 10
    Gate.COMMIT_ERRORS: {"commit_errors": 2},
    Gate.REJOINS: {"rejoins": 4},
    Gate.PAUSE: {"pause_ms": 10_001},
    Gate.DISCONNECTS: {"disconnects": 2},
}


def heard(*windows: Window, writer: Writer = A, at_ms: int = NOW_MS, **more: Any) -> ReceivedReport:
    report = Report(windows=windows, writers=(writer,), **more)
    return ReceivedReport(report, at_ms, writer.decode())


def verdict_on(
    *reports: ReceivedReport, move: Move = MOVE, abort_if: AbortIf = ALL, has_moved: bool = True
) -> GateVerdict:
    alive = frozenset(Writer(one) for report in reports for one in report.report.writers)
    return judge(move, abort_if, reports, alive, NOW_MS, has_moved=has_moved)


def worse(gate: Gate, **more: Any) -> Window:
    return replace(CALM, **HARM[gate], **more)


def test_three_calm_windows_let_the_next_step_begin() -> None:
    verdict = verdict_on(heard(CALM, CALM, CALM))
    assert (verdict.state, verdict.may_advance, verdict.may_move_members, verdict.text) == (
        GateState.CLEAR,
        True,
        True,
        "",
    )


@pytest.mark.parametrize("gate", Gate)
def test_three_windows_of_harm_abort_and_one_or_two_only_stop(gate: Gate) -> None:
    bad = worse(gate)
    assert verdict_on(heard(bad, bad, bad)).state is GateState.HARM
    assert verdict_on(heard(bad, bad, bad)).why.startswith(f"{gate}: at least ")
    for windows in ((bad, bad, CALM), (bad, CALM, bad)):
        verdict = verdict_on(heard(*windows))
        assert (verdict.state, verdict.may_move_members) == (GateState.SUSPECT, False)
    assert verdict_on(heard(CALM, bad, bad)).state is GateState.WATCHING, (
        "the members of this step go on, the next step does not"
    )


def test_harm_that_shows_in_one_way_and_then_in_another_aborts_too() -> None:
    windows = worse(Gate.REJOINS), worse(Gate.UNOWNED), worse(Gate.DISCONNECTS)
    verdict = verdict_on(heard(*windows))
    assert verdict.state is GateState.HARM
    assert verdict.why == (
        "more than before the move, in 3 windows running: "
        "rejoins: 24 a minute, then seconds without an owner: 54 s a minute, then disconnects: 12 a minute"
    )
    assert verdict_on(heard(worse(Gate.REJOINS), CALM, worse(Gate.DISCONNECTS))).state is GateState.SUSPECT


@pytest.mark.parametrize("gate", Gate)
def test_what_the_baseline_has_is_no_harm(gate: Gate) -> None:
    bad = worse(gate)
    baseline = baseline_of(history_of([Report(windows=(bad,) * 3)]), NOW_MS)
    full = replace(bad, owned_ms=80_000)  # it has had all of them at a time
    if gate is Gate.UNOWNED:
        baseline = baseline_of(history_of([Report(windows=(bad, bad, full))]), NOW_MS)
    assert baseline is not None
    assert verdict_on(heard(bad, bad, bad), move=replace(MOVE, baseline=baseline)).state is GateState.CLEAR


@pytest.mark.parametrize("gate", Gate)
def test_a_gate_that_is_off_judges_nothing(gate: Gate) -> None:
    names = {Gate.UNOWNED: "unowned_s", Gate.PAUSE: "pause_p99_ms"}
    name = names.get(gate, gate.name.lower())
    bad = worse(gate)
    assert verdict_on(heard(bad, bad, bad), abort_if=replace(ALL, **{name: None})).state is GateState.CLEAR


@pytest.mark.parametrize("gate", Gate)
def test_windows_in_which_somebody_is_told_are_not_judged(gate: Gate) -> None:
    bad = worse(gate)
    verdict = verdict_on(heard(bad, bad, replace(bad, told=1)))
    assert verdict.state is GateState.SUSPECT
    assert verdict_on(heard(replace(bad, told=1), bad, bad)).state is GateState.WATCHING


@pytest.mark.parametrize("gate", Gate)
def test_a_rebalance_until_the_step_has_settled_is_its_own_doing(gate: Gate) -> None:
    bad = worse(gate)
    is_caused = gate in (Gate.UNOWNED, Gate.PAUSE)
    for settled_ago_ms, says in (
        (30_000, GateState.HARM),
        (29_999, GateState.SUSPECT if is_caused else GateState.HARM),
    ):
        move = replace(MOVE, settled_ms=NOW_MS - settled_ago_ms)
        assert verdict_on(heard(bad, bad, bad), move=move).state is says


def test_a_group_that_is_harmed_before_anybody_was_moved_is_paused() -> None:
    bad = worse(Gate.DISCONNECTS)
    verdict = verdict_on(heard(bad, bad, bad), has_moved=False)
    assert verdict.state is GateState.PAUSED
    assert verdict.why.endswith("although nobody has been moved")


def test_a_group_that_has_less_although_nobody_was_moved_is_measured_anew() -> None:
    """It was measured while a member was counted at two replicas, or has given up a topic since."""
    bad = worse(Gate.UNOWNED)
    assert verdict_on(heard(bad, bad, bad), has_moved=False).state is GateState.BASELINE
    coming = replace(bad, changes=1)
    assert verdict_on(heard(bad, bad, coming), has_moved=False).state is GateState.PAUSED, (
        "its members come and go"
    )
    baseline = baseline_of(history_of([Report(windows=(bad,) * 4 + (CALM,) * 2)]), NOW_MS)
    assert baseline is not None
    assert verdict_on(heard(bad, bad, bad), move=replace(MOVE, baseline=baseline)).state is GateState.CLEAR


def test_a_window_in_which_the_first_member_comes_is_not_judged() -> None:
    """The group had nobody who could own anything."""
    nobody, coming = replace(CALM, members=0, owned_ms=0), replace(CALM, changes=1, owned_ms=20_000)
    bad = worse(Gate.UNOWNED)
    assert verdict_on(heard(bad, bad, coming, nobody)).state is GateState.SUSPECT
    assert verdict_on(heard(bad, bad, coming, CALM)).state is GateState.HARM


def test_classic_members_rejoin_at_each_new_target() -> None:
    """One change makes three of them rejoin: twelve in a window are what four changes cause."""
    caused = replace(CALM, changes=4, classic_rejoins=12)
    assert verdict_on(heard(caused, caused, caused)).state is GateState.CLEAR
    more = replace(caused, classic_rejoins=16, changes=1)
    assert verdict_on(heard(more, more, more)).state is GateState.HARM
    beside = replace(caused, changes=0)
    assert verdict_on(heard(beside, caused, beside)).state is GateState.CLEAR, (
        "replicas cut their windows at other moments"
    )


def test_the_lag_may_grow_as_it_did_before() -> None:
    """A hundred records each ten seconds, before the move and in it."""
    before = tuple(replace(CALM, lag=lag) for lag in (300, 200, 100))
    baseline = baseline_of(history_of([Report(windows=before)]), NOW_MS - 60_000)
    assert baseline is not None
    assert (baseline.lag, baseline.lag_growth) == (300, 600)
    now = tuple(replace(CALM, lag=lag) for lag in (1_900, 1_800, 1_700))
    assert verdict_on(heard(*now), move=replace(MOVE, baseline=baseline)).state is GateState.CLEAR


def test_what_partitions_lack_is_not_judged_while_owners_are_unknown_or_nobody_is_there() -> None:
    for less in ({"unknown": 1}, {"members": 0}):
        bad = worse(Gate.UNOWNED)
        assert verdict_on(heard(*(replace(bad, **less),) * 3)).state is GateState.CLEAR


def test_the_windows_of_all_replicas_are_added_up() -> None:
    half = replace(CALM, members=2, owned_ms=40_000, disconnects=1)
    assert verdict_on(heard(*(half,) * 3), heard(*(half,) * 3, writer=B)).state is GateState.HARM
    assert (
        verdict_on(heard(*(half,) * 3), heard(*(replace(half, disconnects=0),) * 3, writer=B)).state
        is GateState.CLEAR
    )


# -- missing -----------------------------------------------------------------------------------------------------------


def test_reports_that_have_no_window_in_common_judge_nothing() -> None:
    old = NOW_MS - FRESH_MS + 1
    verdict = verdict_on(heard(CALM), heard(CALM, CALM, CALM, writer=B, at_ms=old))
    assert verdict.state not in (GateState.CLEAR, GateState.HARM)


def test_a_replica_that_is_alive_and_does_not_report_is_missing() -> None:
    verdict = judge(MOVE, ALL, [heard(CALM, CALM, CALM)], frozenset({A, B}), NOW_MS, has_moved=True)
    assert (verdict.state, verdict.may_move_members, verdict.may_advance) == (GateState.MISSING, False, False)


def test_a_report_that_is_too_old_is_missing_and_named() -> None:
    old = heard(CALM, CALM, CALM, writer=B, at_ms=NOW_MS - FRESH_MS - 1)
    verdict = verdict_on(heard(CALM, CALM, CALM), old)
    assert verdict == GateVerdict(GateState.MISSING, f"{B.decode()} does not report")


def test_harm_with_a_replica_missing_rolls_nothing_back() -> None:
    bad = worse(Gate.COMMIT_ERRORS)
    verdict = judge(MOVE, ALL, [heard(bad, bad, bad)], frozenset({A, B}), NOW_MS, has_moved=True)
    assert verdict.state is GateState.MISSING


def test_a_replica_reports_for_every_writer_that_it_has_had() -> None:
    both = ReceivedReport(Report(windows=(CALM,) * 3, writers=(A, B)), NOW_MS)
    assert judge(MOVE, ALL, [both], frozenset({A, B}), NOW_MS, has_moved=True).state is GateState.CLEAR


def test_a_lag_that_nobody_knows_twice_running_is_missing() -> None:
    unknown = replace(CALM, lag=None)
    assert verdict_on(heard(unknown, CALM, CALM)).state is GateState.WATCHING
    why = f"{Gate.LAG}: no answer in time"
    verdict = verdict_on(heard(unknown, unknown, CALM, failed=(why,)))
    assert verdict == GateVerdict(GateState.MISSING, why)
    known_elsewhere = heard(CALM, CALM, CALM, writer=B)
    assert (
        verdict_on(heard(unknown, unknown, CALM, failed=(why,)), known_elsewhere).state
        is not GateState.MISSING
    )
    assert verdict_on(heard(unknown, unknown, unknown), abort_if=AbortIf()).state is GateState.CLEAR


def test_any_other_source_that_failed_is_missing() -> None:
    assert (
        verdict_on(heard(CALM, CALM, CALM, failed=("owners: too many groups",))).why
        == "owners: too many groups"
    )


def test_without_three_windows_the_next_step_waits() -> None:
    assert verdict_on(heard(CALM, CALM)).state is GateState.WATCHING


# -- the control -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harmed", "watched", "expected"),
    [(1, 10, GateState.PAUSED), (1, 11, GateState.HARM), (0, 0, GateState.HARM)],
)
def test_the_same_harm_in_one_of_ten_other_groups_pauses(
    harmed: int, watched: int, expected: GateState
) -> None:
    bad = worse(Gate.REJOINS, watched=watched, harmed={Gate.REJOINS: harmed} if harmed else {})
    assert verdict_on(heard(bad, bad, bad)).state is expected


def test_harm_elsewhere_pauses_a_move_that_is_well_and_ends_by_itself() -> None:
    other = replace(CALM, watched=3, harmed={Gate.DISCONNECTS: 1})
    calm = replace(CALM, watched=3)
    for since in range(4):
        windows = [calm] * since + [other] + [calm] * (4 - since)
        assert verdict_on(heard(*windows)).state is GateState.PAUSED, since
    assert verdict_on(heard(calm, calm, calm, calm, other)).state is GateState.CLEAR


def test_a_broker_that_is_away_pauses() -> None:
    bad = worse(Gate.DISCONNECTS, fault="broker 2 can't be reached")
    verdict = verdict_on(heard(bad, bad, bad))
    assert verdict == GateVerdict(GateState.PAUSED, "broker 2 can't be reached")


def test_harm_elsewhere_by_a_gate_that_is_off_does_not_pause() -> None:
    other = replace(CALM, watched=1, harmed={Gate.LAG: 1})
    assert verdict_on(heard(other, other, other), abort_if=AbortIf()).state is GateState.CLEAR


# -- the baseline ------------------------------------------------------------------------------------------------------


def test_before_the_first_step_the_group_is_measured() -> None:
    verdict = verdict_on(heard(CALM, CALM, CALM), move=replace(MOVE, baseline=None))
    assert (verdict.state, verdict.may_move_members) == (GateState.BASELINE, False)
    assert baseline_of(history_of([Report(windows=(CALM, CALM))]), 0) is None


def test_a_group_is_measured_from_when_it_is_complete() -> None:
    """While it comes together its partitions have no owners: nothing would be worse than that."""
    coming = replace(CALM, members=1, changes=1, owned_ms=0)
    restarted = replace(CALM, unknown=1, owned_ms=0)
    nobody = replace(CALM, members=0, owned_ms=0)
    for windows in ((CALM, CALM, coming), (CALM, CALM, restarted, nobody)):
        assert baseline_of(history_of([Report(windows=windows)]), NOW_MS) is None
    baseline = baseline_of(history_of([Report(windows=(CALM, CALM, CALM, coming, nobody))]), NOW_MS)
    assert baseline is not None
    assert (baseline.owned, baseline.unowned_s) == (CALM.owned_ms / CALM.ms, 0)


def test_a_group_whose_members_always_come_and_go_is_measured_as_it_is() -> None:
    coming = replace(CALM, changes=1, owned_ms=10_000)
    baseline = baseline_of(history_of([Report(windows=(CALM,) + (coming,) * (KEPT - 1))]), NOW_MS)
    assert baseline is not None
    assert baseline.owned == 1


_windows = st.builds(
    Window,
    ms=st.integers(9_000, 12_000),
    told=st.integers(0, 1),
    members=st.integers(0, 5),
    classic=st.integers(0, 3),
    changes=st.integers(0, 5),
    rejoins=st.integers(0, 9),
    classic_rejoins=st.integers(0, 9),
    commit_errors=st.integers(0, 5),
    disconnects=st.integers(0, 5),
    owned_ms=st.integers(0, 90_000),
    unknown=st.integers(0, 1),
    pause_ms=st.integers(0, 20_000),
    lag=st.none() | st.integers(0, 2_000),
)
_reports = st.lists(st.lists(_windows, min_size=1, max_size=6), min_size=1, max_size=3)


@given(_reports)
def test_what_was_so_before_the_move_is_never_harm(replicas: list[list[Window]]) -> None:
    """Whatever a group is like: the same again does not abort its move."""
    reports = [Report(windows=tuple(one), writers=(b"%016d" % n,)) for n, one in enumerate(replicas)]
    baseline = baseline_of(history_of(reports), NOW_MS)
    if baseline is not None:
        heard_of = [ReceivedReport(one, NOW_MS) for one in reports]
        move = replace(MOVE, baseline=baseline)
        assert judge(move, ALL, heard_of, frozenset(), NOW_MS, has_moved=True).state is not GateState.HARM


@given(_reports, st.integers(0, 2))
def test_no_harm_is_found_with_a_replica_missing_or_a_calm_window(
    replicas: list[list[Window]], calm: int
) -> None:
    still = Window(ms=10_000)
    windows = [tuple(still if n == calm else one for n, one in enumerate(windows)) for windows in replicas]
    heard_of = [
        ReceivedReport(Report(windows=one, writers=(b"%016d" % n,)), NOW_MS) for n, one in enumerate(windows)
    ]
    verdict = judge(MOVE, replace(ALL, unowned_s=None), heard_of, frozenset(), NOW_MS, has_moved=True)
    assert verdict.state is not GateState.HARM
    assert judge(MOVE, ALL, heard_of, frozenset({A}), NOW_MS, has_moved=True).state is GateState.MISSING
