"""Keeps the latest events of all groups, within a number of events for each group and of bytes for all together
(``visibility.events_max_bytes``).
"""

from collections import OrderedDict
from collections.abc import Callable

from proxy.groups.group_records import GroupRecord
from proxy.groups.snapshot import EVENTS_KEPT
from proxy.journal.journal import estimated_bytes
from proxy.metrics.bounds import Bound
from translation.actions import Event, EventKind


class EventHistory:
    """Adds events to the records of groups and evicts old ones; ``hit`` is told of evictions beyond ``max_bytes``."""

    def __init__(self, max_bytes: int, hit: Callable[[Bound], None]) -> None:
        self._max_bytes = max_bytes
        self._hit = hit
        self._bytes = 0
        # With events, the oldest last event first.
        self._groups: OrderedDict[str, GroupRecord] = OrderedDict()

    def add(self, group: GroupRecord, event: Event, now_us: int) -> None:
        """Add an event; a full history loses its oldest one."""
        if event.kind is EventKind.PASSED_THROUGH and any(
            known.kind is event.kind and known.reason == event.reason for _, known in group.events
        ):
            return  # it repeats at each JoinGroup and would evict all other events
        if len(group.events) == EVENTS_KEPT:
            self._evict_oldest(group)
        group.events.append((now_us, event))
        self._bytes += estimated_bytes(event)
        self._groups[group.id] = group
        self._groups.move_to_end(group.id)

    def enforce_limit(self) -> None:
        """Evict events beyond the bytes allowed, from the group whose last event is the oldest."""
        while self._bytes > self._max_bytes:
            self._hit(Bound.EVENTS)
            self._evict_oldest(next(iter(self._groups.values())))

    def drop(self, group: GroupRecord) -> None:
        """Count the events of a group no longer: the group is dropped."""
        self._groups.pop(group.id, None)
        self._bytes -= sum(estimated_bytes(event) for _, event in group.events)

    def _evict_oldest(self, group: GroupRecord) -> None:
        self._bytes -= estimated_bytes(group.events.popleft()[1])
        if not group.events:
            del self._groups[group.id]
