"""Judges whether a move by steps does harm (``abort_if`` and its ``commit_errors``): a pure function of what the
replicas report. If other groups do worse as well, all moves pause.

Each replica reports what it saw of the group in windows of ten seconds (:mod:`translation.member_log.signals`). The
newest windows of all of them are added up, and so are those before. A move is stopped by **three windows running** that
are each worse than a threshold, not always by the same gate,

* beyond the group's **own baseline**: the worst windows of the time before its first step;
* beyond what a **step itself** causes: windows in which somebody was made to rejoin are not judged, and of the
  rejoins of classic members as many are left out as there are classic members for each change of the membership, since
  they rejoin at each new target assignment.

Three answers stop a move, and take nothing back:

* **missing**: a replica that is alive, or a source, does not report. What is not known is never taken for good.
* **paused**: one of :data:`CONTROL_SHARE` groups that are not moved is worse too, at least one in all, or a broker
  can't be reached. It ends when :data:`CONTROL_WINDOWS` have passed without that.
* **suspect**: the newest window is worse. If the next are not, the move goes on.

Harm in three windows aborts the move, if somebody was moved by it: else it is not the move that does it. A group that
has fewer partitions than when it was measured, although nobody was moved and its members stay the same, is measured
anew.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from translation.member_log.group_records import Move
from translation.member_log.records import Writer
from translation.member_log.signals import (
    KEPT,
    WINDOW_S,
    Baseline,
    Gate,
    GateState,
    GateVerdict,
    Report,
    Window,
)
from translation.policy.gates import AbortIf

WINDOWS = 3
"""So many windows running have to be worse, or not: by that the next step waits too."""

CONTROL_WINDOWS = 4
"""In which other groups are looked at: one more, since harm there may be seen a moment earlier."""

CONTROL_SHARE = 10
"""One group of so many that are not moved has to be worse too."""

FRESH_MS = int(WINDOW_S * 2_500)
"""A report that is older is missing: two windows, and the time that a record takes."""

_FAILS = 2
"""A source that says nothing in so many windows running is missing."""

_MEASURED = "what the group is like before its first step is being measured"

_MINUTE_MS = 60_000
_NAMES = 3


class ReceivedReport(msgspec.Struct, frozen=True):
    """A report, its server's name for people, and when it was written by the log's clock."""

    report: Report
    at_ms: int
    server: str = ""

    @property
    def is_of(self) -> frozenset[bytes]:
        """The writers for which it speaks."""
        return frozenset(self.report.writers)


class WindowTotals(msgspec.Struct, frozen=True, kw_only=True):
    """A window of all replicas together. Counts are a minute's; None: not known."""

    told: int
    members: int
    """At its beginning or at its end, where there were fewer."""
    changes: int
    """Members that came or went, or joined anew."""
    owned: float
    """Partitions that had an owner, on the average."""
    unknown: int
    commit_errors: float
    rejoins: float
    pause_ms: int
    disconnects: float
    lag: int | None
    watched: int
    harmed: Mapping[str, int]
    fault: str


def totals_of(windows: Sequence[Window], changes_beside: int = 0) -> WindowTotals:
    """Add up the windows of all replicas.

    ``changes_beside`` are changes in the windows before and after: replicas cut theirs at other moments.
    """

    def rate(count: int, window: Window) -> float:
        return count * _MINUTE_MS / window.ms

    lags = [one.lag for one in windows if one.lag is not None]
    harmed: dict[str, int] = {}
    for window in windows:
        for gate, count in window.harmed.items():
            harmed[gate] = harmed.get(gate, 0) + count
    # A change that one replica sees makes the classic members of all rejoin.
    own_changes = sum(one.changes for one in windows)
    changes = changes_beside + own_changes
    classic = sum(one.classic for one in windows)
    classic_rejoins = sum(one.classic_rejoins for one in windows)
    caused = min(classic_rejoins, changes * classic)
    mean_ms = sum(one.ms for one in windows) / len(windows)
    return WindowTotals(
        told=sum(one.told for one in windows),
        members=sum(one.members for one in windows),
        changes=own_changes,
        owned=sum(one.owned_ms / one.ms for one in windows),
        unknown=sum(one.unknown for one in windows),
        commit_errors=sum(rate(one.commit_errors, one) for one in windows),
        rejoins=sum(rate(one.rejoins, one) for one in windows)
        + (classic_rejoins - caused) * _MINUTE_MS / mean_ms,
        pause_ms=max(one.pause_ms for one in windows),
        disconnects=sum(rate(one.disconnects, one) for one in windows),
        lag=max(lags, default=None),
        watched=sum(one.watched for one in windows),
        harmed=harmed,
        fault=next((one.fault for one in windows if one.fault), ""),
    )


def aligned(reports: Sequence[ReceivedReport], now_ms: int) -> tuple[int, list[Report]]:
    """The reports without windows that some replica has not reported, and how many windows ago their newest ended.

    A partition that has gone from one replica to another would be counted at both, or at none.
    """
    ages = [max(0, now_ms - one.at_ms) // int(WINDOW_S * 1000) for one in reports]
    oldest = max(ages, default=0)
    return oldest, [
        msgspec.structs.replace(one.report, windows=one.report.windows[oldest - age :])
        for one, age in zip(reports, ages, strict=True)
    ]


def history_of(reports: Sequence[Report]) -> list[WindowTotals]:
    """The windows that all of these have, the newest first."""
    depth = min((len(one.windows) for one in reports), default=0)
    columns = [[one.windows[number] for one in reports] for number in range(depth)]
    changes = [0, *(sum(window.changes for window in column) for column in columns), 0]
    history = [totals_of(column, changes[n] + changes[n + 2]) for n, column in enumerate(columns)]
    before = [*(totals.members for totals in history[1:]), None][
        : len(history)
    ]  # nothing if there is no window that all have
    return [
        totals
        if began_with is None
        else msgspec.structs.replace(totals, members=min(totals.members, began_with))
        for totals, began_with in zip(history, before, strict=True)
    ]


# -- the baseline ------------------------------------------------------------------------------------------------------


def baseline_of(history: Sequence[WindowTotals], now_ms: int) -> Baseline | None:
    """What the group is like without the move; None if it was not looked at for long enough."""
    history = _since_it_is_complete(history)
    if len(history) < WINDOWS:
        return None
    from statistics import median  # noqa: PLC0415 - with decimals and fractions, for groups that are moved

    # A member that goes to another replica is counted at both for a moment: the median, not the highest.
    owned = median(totals.owned for totals in history)
    lags = [totals.lag for totals in history if totals.lag is not None]
    growth = 0.0
    if len(lags) > 1:
        growth = max(0.0, (lags[0] - lags[-1]) / ((len(lags) - 1) * WINDOW_S / 60))
    return Baseline(
        at_ms=now_ms,
        owned=owned,
        unowned_s=max(0.0, *((owned - totals.owned) * 60 for totals in history)),
        commit_errors=max(totals.commit_errors for totals in history),
        rejoins=max(totals.rejoins for totals in history),
        pause_ms=max(totals.pause_ms for totals in history),
        disconnects=max(totals.disconnects for totals in history),
        lag=max(lags, default=0),
        lag_growth=growth,
    )


def _since_it_is_complete(history: Sequence[WindowTotals]) -> Sequence[WindowTotals]:
    """The windows since the group has come together, or since this process knows it; all if it never does.

    While its first members come, most partitions have no owner. If that counted, nothing later would be worse.
    """
    complete = list(history)
    while complete and (complete[-1].changes or complete[-1].unknown or not complete[-1].members):
        complete.pop()
    return history if len(history) >= KEPT and len(complete) < WINDOWS else complete


# -- harm --------------------------------------------------------------------------------------------------------------


def excesses(totals: WindowTotals, baseline: Baseline, now_ms: int) -> dict[Gate, float]:
    """How much worse a window is than the baseline, as far as it is known."""
    found = {
        Gate.COMMIT_ERRORS: totals.commit_errors - baseline.commit_errors,
        Gate.REJOINS: totals.rejoins - baseline.rejoins,
        Gate.PAUSE: totals.pause_ms - baseline.pause_ms,
        Gate.DISCONNECTS: totals.disconnects - baseline.disconnects,
    }
    if totals.members and not totals.unknown:
        found[Gate.UNOWNED] = (baseline.owned - totals.owned) * 60 - baseline.unowned_s
    if totals.lag is not None:
        minutes = max(0, now_ms - baseline.at_ms) / _MINUTE_MS
        found[Gate.LAG] = totals.lag - baseline.lag - baseline.lag_growth * minutes
    return found


def thresholds(abort_if: AbortIf) -> dict[Gate, int]:
    """The thresholds of the gates that there are."""
    written = {
        Gate.LAG: abort_if.lag,
        Gate.UNOWNED: abort_if.unowned_s,
        Gate.COMMIT_ERRORS: abort_if.commit_errors,
        Gate.REJOINS: abort_if.rejoins,
        Gate.PAUSE: abort_if.pause_p99_ms,
        Gate.DISCONNECTS: abort_if.disconnects,
    }
    return {gate: most for gate, most in written.items() if most is not None}


_REBALANCES = frozenset({Gate.UNOWNED, Gate.PAUSE})
"""What every rebalance causes."""

_UNITS = {
    Gate.LAG: "records",
    Gate.UNOWNED: "s a minute",
    Gate.COMMIT_ERRORS: "a minute",
    Gate.REJOINS: "a minute",
    Gate.PAUSE: "ms",
    Gate.DISCONNECTS: "a minute",
}


def judge(
    move: Move,
    abort_if: AbortIf,
    reports: Sequence[ReceivedReport],
    alive: AbstractSet[Writer],
    now_ms: int,
    *,
    has_moved: bool,
) -> GateVerdict:
    """What the gates say of a move.

    ``alive`` are the writers of the replicas that have to report. ``has_moved`` says that somebody was moved by it.
    """
    fresh = [one for one in reports if now_ms - one.at_ms <= FRESH_MS and one.report.windows]
    silent = frozenset(alive).difference(*(one.is_of for one in fresh))
    if silent:
        names = {one.server for one in reports if one.is_of & silent} - {""}
        who = ", ".join(sorted(names)[:_NAMES]) or "a replica"
        return GateVerdict(GateState.MISSING, f"{who} does not report")
    passed, reports_then = aligned(fresh, now_ms)
    history = history_of(reports_then)
    limits = thresholds(abort_if)
    missing = _missing(limits, fresh, history)
    if missing:
        return GateVerdict(GateState.MISSING, missing)
    paused = _elsewhere(history, limits)
    if paused:
        return GateVerdict(GateState.PAUSED, paused)
    if move.baseline is None:
        return GateVerdict(GateState.BASELINE, _MEASURED)
    found = [
        {} if totals.told else _not_caused(excesses(totals, move.baseline, now_ms), number, move, now_ms)
        for number, totals in enumerate(history[:WINDOWS], start=passed)
    ]
    return _of_the_group(history[:WINDOWS], found, limits, has_moved=has_moved)


def _not_caused(found: dict[Gate, float], number: int, move: Move, now_ms: int) -> dict[Gate, float]:
    """What a window has that is not the step's own doing; ``number`` counts windows from the newest on.

    Until a step has settled the group rebalances because of it: its classic members give up their partitions, and get
    others.
    """
    began_ms = now_ms - (number + 1) * WINDOW_S * 1000
    if move.settled_ms and began_ms < move.settled_ms:
        return {gate: value for gate, value in found.items() if gate not in _REBALANCES}
    return found


def _missing(
    limits: Mapping[Gate, int], fresh: Sequence[ReceivedReport], history: Sequence[WindowTotals]
) -> str:
    """Which source has failed for two windows; empty if none has. The lag is known if one replica knows it."""
    failed = [why for one in fresh for why in one.report.failed]
    other = next((why for why in failed if not why.startswith(Gate.LAG)), "")
    if (
        other
        or Gate.LAG not in limits
        or len(history) < _FAILS
        or any(totals.lag is not None for totals in history[:_FAILS])
    ):
        return other
    return next(iter(failed), f"{Gate.LAG}: nobody knows it")


def _elsewhere(history: Sequence[WindowTotals], limits: Mapping[Gate, int]) -> str:
    """What is wrong besides this group; empty if nothing is."""
    for totals in history[:CONTROL_WINDOWS]:
        if totals.fault:
            return totals.fault
        for gate in limits:
            harmed = totals.harmed.get(gate, 0)
            if harmed and harmed * CONTROL_SHARE >= totals.watched:
                return f"{gate}: {harmed} of {totals.watched} groups that are not moved have it too"
    return ""


def _of_the_group(
    newest: Sequence[WindowTotals],
    found: Sequence[Mapping[Gate, float]],
    limits: Mapping[Gate, int],
    *,
    has_moved: bool,
) -> GateVerdict:
    over = [[gate for gate, most in limits.items() if one.get(gate, 0) > most] for one in found]
    if len(over) == WINDOWS and all(over):
        if (
            not has_moved
            and all(one == [Gate.UNOWNED] for one in over)
            and not any(totals.changes for totals in newest)
        ):
            return GateVerdict(
                GateState.BASELINE, f"{_MEASURED}: it has fewer partitions, and nobody has been moved"
            )
        why = _harm(found, over, limits)
        if not has_moved:
            return GateVerdict(GateState.PAUSED, f"{why}, although nobody has been moved")
        return GateVerdict(GateState.HARM, why)
    if over and over[0]:
        gate = over[0][0]
        return GateVerdict(
            GateState.SUSPECT, f"{gate}: {found[0][gate]:.0f} {_UNITS[gate]} more than before the move"
        )
    is_quiet = len(newest) == WINDOWS and not any(totals.told for totals in newest)
    is_known = Gate.LAG not in limits or all(totals.lag is not None for totals in newest)
    return GateVerdict(GateState.CLEAR if is_quiet and is_known and not any(over) else GateState.WATCHING)


def _harm(
    found: Sequence[Mapping[Gate, float]], over: Sequence[Sequence[Gate]], limits: Mapping[Gate, int]
) -> str:
    """What the windows have in common; if they have nothing, what each had, the newest first."""
    common = [gate for gate in over[0] if all(gate in one for one in over)]
    if common:
        gate = common[0]
        least = min(one[gate] for one in found)
        more = f"{gate}: at least {least:.0f} {_UNITS[gate]} more than before the move"
        return f"{more}, for {WINDOWS} windows; {limits[gate]} are allowed"
    each = (
        f"{gates[0]}: {one[gates[0]]:.0f} {_UNITS[gates[0]]}" for one, gates in zip(found, over, strict=True)
    )
    return f"more than before the move, in {WINDOWS} windows running: {', then '.join(each)}"
