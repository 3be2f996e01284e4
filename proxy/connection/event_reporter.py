"""Reports the events of members: those of the translation, and those that follow from calls that pass through.

The observer (:mod:`translation.passthrough.observer`) derives the latter. It is shown each call that passes through,
when it is forwarded and when it is answered, and told when the translation takes a member over or sends it back.
"""

from collections.abc import Callable, Iterable
from typing import Any

import structlog
import trio

from proxy.metrics.periodic import run_periodically
from proxy.metrics.registry import Metrics
from translation.actions import Event, EventKind, MemberProtocol, Request
from translation.passthrough.commits import CommitWatch
from translation.passthrough.observer import Observer

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.translation")

_SESSION_CHECK_INTERVAL_S = 2.0
_TRANSLATED_NOW = (EventKind.JOINED, EventKind.ADOPTED)
"""After these the calls of a member that passed through are translated, under the same id."""


class EventReporter:
    """Gives ``emit`` each event for log, metrics and journal, in order."""

    def __init__(self, observer: Observer, emit: Callable[[Event], None], metrics: Metrics) -> None:
        self._observer = observer
        self._commits = CommitWatch()
        self._emit = emit
        self._metrics = metrics

    def report(self, events: Iterable[Event]) -> None:
        """Emit events, and tell the observer of members that move from it to the translation or back."""
        for event in events:
            self._emit(event)
            if event.kind is EventKind.POLICY_CHANGED and event.protocol != MemberProtocol.TRANSLATED:
                self.report(self._observer.member_moved(event.group_id, event.member_id, event.reason))
            elif event.kind in _TRANSLATED_NOW and event.protocol == MemberProtocol.TRANSLATED:
                self._observer.member_translated(event.group_id, event.member_id)

    def call_forwarded(self, request: Request) -> None:
        """Show the observer a call that is forwarded, of a client that the broker has accepted before."""
        self._observe(request, lambda now: self._observer.request_forwarded(now, request))

    def call_answered(self, request: Request, response: Any) -> None:
        """Show the observer the broker's response to a call that was forwarded."""
        self._observe(request, lambda now: self._observer.response_received(now, request, response))

    def commit_answered(self, request: Request, response: Any, protocol: str | None = None) -> None:
        """Show the watch a commit and its response; ``protocol`` is for members that the observer does not know."""
        message: Any = request.message
        names = self._observer.topics.names

        def look(now: float) -> Iterable[Event]:
            known = self._observer.protocol_of(message.group_id, message.member_id) or protocol or ""
            return self._commits.answered(
                now, request, response, known, lambda topic_id: names.get(topic_id, "")
            )

        self._observe(request, look)

    def _observe(self, request: Request, look: Callable[[float], Iterable[Event]]) -> None:
        try:
            events = look(trio.current_time())
        except Exception as error:  # noqa: BLE001  an observer must not disturb what it observes
            self._metrics.internal_errors.labels("observer").inc()
            _log.error("the observer failed", api_key=request.api_key, exc_info=error)
            return
        self.report(events)

    async def expire_observed_members(self) -> None:
        """Have the observer expire silent members, every two seconds until cancelled."""
        await run_periodically(_SESSION_CHECK_INTERVAL_S, self._expire, self._metrics)

    def _expire(self) -> None:
        self.report(self._observer.handle_time(trio.current_time()))
