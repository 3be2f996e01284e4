"""What happens to members and groups, told to people: a log line each, and metrics."""

import structlog

from proxy.metrics import Metrics
from translation.actions import Event, EventKind
from translation.member_state import MemberState

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.groups")

_QUIET = frozenset({EventKind.EPOCH_MOVED})
_NO_MEMBER = frozenset({"", MemberState.ABSENT})
_MOST_REASONS = 32
_MOST_REMEMBERED = 10_000
_OTHER = "other"


class EventTeller:
    """Takes every event of the translation."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._reasons: set[str] = set()
        self._passed_through: set[tuple[str, str]] = set()

    def tell(self, event: Event) -> None:
        """Log and count one event."""
        self._metrics.events.labels(event.kind).inc()
        if event.kind is EventKind.STATE_CHANGED:
            self._count_state_change(event)
        say = _log.info if self._is_news(event) else _log.debug
        say(str(event.kind), **_said(event))

    def _is_news(self, event: Event) -> bool:
        """Whether people want to read it: not what happens at each call of a group."""
        if event.kind is not EventKind.PASSED_THROUGH:
            return event.kind not in _QUIET
        known = (event.group_id, event.reason)
        if known in self._passed_through:
            return False
        if len(self._passed_through) >= _MOST_REMEMBERED:
            self._passed_through.clear()
        self._passed_through.add(known)
        return True

    def _count_state_change(self, event: Event) -> None:
        metrics = self._metrics
        metrics.state_changes.labels(event.previous_state, event.state).inc()
        if event.previous_state not in _NO_MEMBER:
            metrics.members.labels(event.previous_state).dec()
        if event.state not in _NO_MEMBER:
            metrics.members.labels(event.state).inc()
        if event.state == MemberState.PREPARE_REBALANCE:
            metrics.rebalances.labels(self._bounded(event.reason)).inc()

    def _bounded(self, reason: str) -> str:
        """The reason as a label; reasons are few, but nothing may make them many."""
        if reason not in self._reasons:
            if len(self._reasons) >= _MOST_REASONS:
                return _OTHER
            self._reasons.add(reason)
        return reason


def _said(event: Event) -> dict[str, object]:
    """The fields of the log line: those that say something."""
    fields: dict[str, object] = {"group": event.group_id}
    if event.member_id:
        fields["member"] = event.member_id
    if event.client_id is not None:
        fields["client_id"] = event.client_id
    if event.client_host:
        fields["client_host"] = event.client_host
    if event.previous_state or event.state:
        fields["state"] = f"{event.previous_state} -> {event.state}" if event.previous_state else event.state
    if event.generation >= 0:
        fields["generation"] = event.generation
    if event.epoch >= 0:
        fields["epoch"] = event.epoch
    if event.partitions:
        fields["partitions"] = {topic: list(partitions) for topic, partitions in event.partitions.items()}
    if event.reason:
        fields["reason"] = event.reason
    return fields
