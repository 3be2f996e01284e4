"""The gates of a move in a run: what each process counts and reports, and the harm that is planted.

The real :class:`~translation.rollout.signal_counts.SignalCounts` gets the events of the process, those of its
translator and those of the real observer of what passes through, as the shell gives them to it (``proxy.server``).
What is planted changes what is counted, at a moment of the plan and for a while:

* ``harm``: the commits of the group are refused, until the end.
* ``control``: likewise, for a while, and other groups have the same.
* ``fault``: likewise, for a while, and a broker can't be reached.
* ``silent``: a process reports nothing for a while.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from protocol_codecs import ApiKey
from tests.simulation.gate_kinds import CONTROL, FAULT, HARM, SILENT
from tests.simulation.wire import GROUP
from translation.actions import Connection, Event, EventKind, MemberProtocol, Request
from translation.member_log.signals import WINDOW_S, Gate
from translation.passthrough.observer import Observer
from translation.passthrough.topic_names import TopicNames
from translation.rollout.signal_counts import SignalCounts

if TYPE_CHECKING:
    from tests.simulation.proxy_process import ProxyProcess

_REFUSED_COMMITS = 9
_EVERY_MS = int(WINDOW_S * 1000)


class GateSource:
    """What one boot of a process counts, and has judged every ten seconds."""

    def __init__(self, process: "ProxyProcess", world: Any) -> None:
        self._process = process
        self._world = world
        self._incarnation = process.incarnation
        self._counts = SignalCounts(process.now_s)
        self._observer = Observer(TopicNames())
        self._heartbeated: set[int] = set()
        world.kernel.after(_EVERY_MS, self._tick)

    # -- what happens ----------------------------------------------------------------------------------------------

    def report(self, events: Iterable[Event]) -> None:
        """Count events; the observer is told of members that move from it to the translation or back."""
        now = self._process.now_s
        for event in events:
            if event.group_id != GROUP:
                continue
            self._counts.record(event, now)
            if event.kind is EventKind.POLICY_CHANGED and event.protocol != MemberProtocol.TRANSLATED:
                self.report(self._observer.member_moved(GROUP, event.member_id, event.reason))
            elif (
                event.kind in {EventKind.JOINED, EventKind.ADOPTED}
                and event.protocol == MemberProtocol.TRANSLATED
            ):
                self._observer.member_translated(GROUP, event.member_id)

    def asked(self, request: Request) -> None:
        """A client has sent a group call."""
        if request.api_key == ApiKey.HEARTBEAT and self._counts_for_something(request.connection):
            self._heartbeated.add(request.connection.id)

    def forwarded(self, request: Request) -> None:
        """A group call passes through."""
        if self._counts_for_something(request.connection):
            self.report(self._observer.request_forwarded(self._process.now_s, request))

    def answered(self, request: Request, response: Any) -> None:
        """The broker has answered it."""
        if self._counts_for_something(request.connection):
            self.report(self._observer.response_received(self._process.now_s, request, response))

    def _counts_for_something(self, connection: Connection) -> bool:
        """Whether the broker has accepted a call of this connection for the group."""
        return bool(self._process.translator.is_authorized(connection.id, GROUP))

    def disconnected(self, connection_id: int) -> None:
        """A connection has ended."""
        if connection_id in self._heartbeated:
            self._heartbeated.discard(connection_id)
            self._counts.disconnected((GROUP,))

    # -- time ------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        process = self._process
        if not process.up or process.incarnation != self._incarnation or process.holds_back(self._tick):
            return
        self._world.kernel.after(_EVERY_MS, self._tick)
        now = process.now_s
        self.report(self._observer.handle_time(now))
        planted = self._world.planted()
        if planted in {HARM, CONTROL, FAULT} and GROUP in self._counts._groups:
            self._counts._groups[GROUP].counts["commit_errors"] += _REFUSED_COMMITS
        if planted == FAULT:
            self._counts.fault("broker 1 can't be reached")
        self._counts.cut(now)
        if planted == SILENT and process is self._world.processes[0]:
            return
        gated = process.translator.rollout.gated_groups()
        reports = {group: self._counts.report(group, one, gated, now) for group, one in gated.items()}
        if planted == CONTROL:
            for group, report in reports.items():
                newest = replace(report.windows[0], watched=9, harmed={Gate.COMMIT_ERRORS: 1})
                self._counts._groups[group].windows[0] = newest
                reports[group] = replace(report, windows=(newest, *report.windows[1:]))
        process.judge(reports)
