"""Collects what the gates of moves by steps judge (events, connections that end, unreachable brokers, lag), and has
them judged every ten seconds.

:class:`~translation.rollout.signal_counts.SignalCounts` counts the events of all groups. What only the shell knows is
added here: connections that end, brokers that can't be reached, and the lag.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping

import structlog
import trio
from msgspec.structs import replace

from proxy.metrics.periodic import run_periodically
from proxy.metrics.registry import Metrics
from translation.actions import Event
from translation.member_log.signals import LONGEST_REASON, WINDOW_S, Gate, Report
from translation.policy.gates import AbortIf
from translation.rollout.signal_counts import SignalCounts

LagSource = Callable[[Collection[str]], Awaitable[Mapping[str, int | str]]]
"""Returns the lag of each of these groups, in records, or why it is not known."""

ReportTo = Callable[[Mapping[str, Report]], None]

_LAG_WITHIN_S = 8.0
"""A lag that is not known by then is not known in this window."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.gates")


async def no_lag(group_ids: Collection[str]) -> Mapping[str, int | str]:
    """The source of a process that has no account to ask with."""
    return dict.fromkeys(group_ids, "this process has no account to ask for it (`fleet.kafka`)")


class GateKeeper:
    """The source of all signals of one process.

    ``gated`` returns the groups whose move has gates, ``in_moves`` those that are no control, ``lag_source`` the lag of
    groups.
    """

    def __init__(
        self,
        gated: Callable[[], Mapping[str, AbortIf]],
        in_moves: Callable[[], frozenset[str]],
        metrics: Metrics,
        *,
        lag_source: LagSource = no_lag,
    ) -> None:
        self._lag_source = lag_source
        self._gated, self._in_moves = gated, in_moves
        self._metrics = metrics
        self._counts: SignalCounts | None = None
        self._unreachable: dict[int | None, None] = {}
        self._lag_failed: dict[str, int] = {}

    def record(self, event: Event) -> None:
        """Count an event of a member or a group."""
        if self._counts is None:
            return
        try:
            self._counts.record(event, trio.current_time())
        except Exception as error:  # noqa: BLE001  who counts must not disturb what is counted
            self._metrics.internal_errors.labels("observer").inc()
            _log.error("an event could not be counted", kind=event.kind, exc_info=error)

    def disconnected(self, group_ids: Collection[str]) -> None:
        """A connection has ended on which members of these groups heartbeated."""
        if self._counts is not None:
            self._counts.disconnected(group_ids)

    def unreachable(self, node_id: int | None) -> None:
        """A broker can't be reached."""
        self._unreachable[node_id] = None
        self._note_fault()

    def reachable(self, node_id: int | None) -> None:
        """A broker can be reached again; the window in which it could not be stays one of a fault."""
        self._unreachable.pop(node_id, None)

    def _note_fault(self) -> None:
        if self._counts is not None and self._unreachable:
            node_id = next(iter(self._unreachable))
            self._counts.fault(
                "no bootstrap broker can be reached"
                if node_id is None
                else f"broker {node_id} can't be reached"
            )

    async def run(self, report: ReportTo) -> None:
        """Report every ten seconds until cancelled."""
        self._counts = counts = SignalCounts(trio.current_time())
        await run_periodically(0.0, lambda: self._one_window(counts, report), self._metrics)

    async def _one_window(self, counts: SignalCounts, report: ReportTo) -> None:
        """Wait for the end of a window, and report it. What fails is missing in the log soon, and stops the moves."""
        ends_at = trio.current_time() + WINDOW_S
        self._note_fault()
        await trio.sleep_until(ends_at - _LAG_WITHIN_S)
        asked = [group_id for group_id, abort_if in self._gated().items() if abort_if.lag is not None]
        lags = await self._lags(asked, ends_at)
        await trio.sleep_until(ends_at)
        self._note_fault()
        for group_id, lag in lags.items():
            counts.set_lag(group_id, lag if isinstance(lag, int) else None)
        now, gated = trio.current_time(), self._gated()
        counts.cut(now)
        moving = self._in_moves() if gated else frozenset[str]()
        reports = {
            group_id: self._with_failures(
                group_id, abort_if, counts.report(group_id, abort_if, moving, now), lags
            )
            for group_id, abort_if in gated.items()
        }
        self._lag_failed = {group_id: n for group_id, n in self._lag_failed.items() if group_id in gated}
        report(reports)

    async def _lags(self, group_ids: Collection[str], until: float) -> Mapping[str, int | str]:
        if not group_ids:
            return {}
        found: Mapping[str, int | str] = dict.fromkeys(group_ids, "no answer in time")
        with trio.move_on_at(until):
            try:
                found = await self._lag_source(group_ids)
            except Exception as error:  # noqa: BLE001  a source that fails is missing, and ends nothing else
                _log.error("the lag could not be read", exc_info=error)
                found = dict.fromkeys(group_ids, "an unexpected error; the log has it")
        return found

    def _with_failures(
        self, group_id: str, abort_if: AbortIf, report: Report, lags: Mapping[str, int | str]
    ) -> Report:
        """The report, with the sources that have failed twice running."""
        if abort_if.lag is None:
            return report
        lag = lags.get(group_id)
        if lag is None:
            return report  # the move has begun since the lag of others was asked for
        if isinstance(lag, int):
            self._lag_failed.pop(group_id, None)
            return report
        self._lag_failed[group_id] = self._lag_failed.get(group_id, 0) + 1
        if self._lag_failed[group_id] < 2:
            return report
        return replace(report, failed=(f"{Gate.LAG}: {lag}"[:LONGEST_REASON],))
