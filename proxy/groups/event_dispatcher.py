"""Dispatches each event of members and groups to the log, the group registry and the metrics (rebalances,
adoptions, conversions, state changes, ``epochgate_passed_through_total``).
"""

import structlog

from proxy.config.schema import Visibility
from proxy.groups.event_bounds import EventBounds
from proxy.groups.formatting import count_partitions
from proxy.groups.group_metrics import OTHER, GroupLabels
from proxy.groups.group_records import RecordedEvent
from proxy.groups.group_registry import GroupRegistry
from proxy.metrics.registry import Metrics
from proxy.runtime.wall_clock import WallClock
from translation.actions import Event, EventKind, MemberProtocol
from translation.members.member_state import MemberEvent
from translation.moving.in_place import UNNOTICED
from translation.partitions import TopicPartitions
from translation.policy.policy import Policy
from translation.reasons import category

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.groups")

_QUIET = frozenset({EventKind.EPOCH_MOVED})
_NOT_OURS = frozenset(MemberProtocol) - {MemberProtocol.TRANSLATED}
"""Members that pass through untranslated. Their events are logged at level debug only."""
_MAX_REMEMBERED = 2_000
_MAX_PARTITIONS = 100
"""Partitions that a log line lists; of more it gives the number only."""


class EventDispatcher:
    """Takes every event of the process, truncates it to ``limits``, and records it in ``registry``."""

    def __init__(
        self,
        metrics: Metrics,
        registry: GroupRegistry | None = None,
        clock: WallClock | None = None,
        labels: GroupLabels | None = None,
        limits: Visibility | None = None,
    ) -> None:
        self._metrics = metrics
        self._registry = registry or GroupRegistry(Policy())
        self._clock = clock or WallClock()
        self._labels = labels or GroupLabels(0)
        self._bounds = EventBounds(limits or Visibility(), metrics.hit)
        self._passed_through: set[tuple[str, str]] = set()

    def dispatch(self, event: Event, now_us: int | None = None) -> RecordedEvent:
        """Log, count and record an event. ``now_us`` is its time in microseconds since 1970; None means now."""
        self._metrics.events.labels(event.kind).inc()
        unkept_id = None if self._bounds.accepts_group(event.group_id) else event.group_id
        event = self._bounds.truncated(event)
        time_us = self._clock.now_us() if now_us is None else now_us
        recorded = self._registry.record(event, time_us, unkept_id=unkept_id)
        self._count(recorded)
        log = _log.info if self._is_news(event) else _log.debug
        if event.kind is EventKind.LEFT_UNOWNED:
            log = _log.warning
        log(event.kind.replace("_", " "), **_log_fields(event))
        return recorded

    def journalled_only(self, event: Event) -> Event:
        """Count an event and truncate it, for the journal alone: it is too frequent to be shown or logged."""
        self._metrics.events.labels(event.kind).inc()
        return self._bounds.truncated(event)

    def _is_news(self, event: Event) -> bool:
        """Whether to log at level info: not for events that repeat at each request of a group."""
        if event.protocol in _NOT_OURS:
            return False
        if event.kind is not EventKind.PASSED_THROUGH:
            return event.kind not in _QUIET
        known = (event.group_id, event.reason)
        if known in self._passed_through:
            return False
        if len(self._passed_through) >= _MAX_REMEMBERED:
            self._passed_through.clear()
        self._passed_through.add(known)
        return True

    def _count(self, recorded: RecordedEvent) -> None:
        event, metrics = recorded.event, self._metrics
        if event.kind is EventKind.STATE_CHANGED:
            metrics.state_changes.labels(event.previous_state, event.state).inc()
        elif event.kind is EventKind.ADOPTED and event.reason == UNNOTICED:
            metrics.conversions.inc()
        elif event.kind is EventKind.ADOPTED and not event.reason.startswith(MemberEvent.CONVERTED):
            metrics.adoptions.labels(event.protocol).inc()
        elif event.kind is EventKind.PASSED_THROUGH:
            metrics.passed_through.labels(category(event.reason)).inc()
        if recorded.rebalances:
            metrics.rebalances.labels(category(event.reason), event.protocol).inc()
            metrics.group_rebalances.labels(self._label(event.group_id), event.protocol).inc()
        if recorded.paused_s is not None:
            metrics.paused.labels(event.protocol).observe(recorded.paused_s)

    def _label(self, group_id: str) -> str:
        """Return the label for a group. Groups that are not kept share one, since they would never release theirs."""
        return self._labels.of(group_id) if group_id in self._registry.groups else OTHER


def _log_fields(event: Event) -> dict[str, object]:
    """Return the fields of the log line, without empty ones."""
    fields: dict[str, object] = {"group": event.group_id}
    for name in ("member_id", "instance_id", "protocol", "client_id", "client_host", "software"):
        value = getattr(event, name)
        if value or (name == "client_id" and value is not None):
            fields[name.removesuffix("_id") if name != "client_id" else name] = value
    if event.previous_state or event.state:
        fields["state"] = f"{event.previous_state} -> {event.state}" if event.previous_state else event.state
    if event.generation >= 0:
        fields["generation"] = event.generation
    if event.epoch >= 0:
        fields["epoch"] = event.epoch
    if event.partitions:
        fields["partitions"] = _partitions(event.partitions)
    if event.reason:
        fields["reason"] = event.reason
    return fields


def _partitions(listed: TopicPartitions) -> dict[str, list[int]] | str:
    if (number := count_partitions(listed)) > _MAX_PARTITIONS:
        return f"{number} of {len(listed)} topics"
    return {one.topic: list(one.partitions) for one in listed}
