"""The state of groups and members as their events describe it, from which snapshots are made, and which groups are
kept (``visibility.groups``, ``groups_without_members``).

For each group the registry keeps the members, the latest events, the last rebalance, and why it is not translated. All
of it is bounded. Times come with the events; the registry has no clock.

Clients can invent group ids, so new groups never evict groups in use: groups without members are evicted first, and
beyond the bounds new groups are not kept.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator

import msgspec

from proxy.config.refusals import why_not_under
from proxy.config.schema import Visibility
from proxy.groups.event_bounds import bounded_shadow, truncate
from proxy.groups.event_history import EventHistory
from proxy.groups.group_records import MICRO, GroupLookups, GroupRecord, RecordedEvent
from proxy.groups.group_views import view_of
from proxy.groups.member_registry import MemberRegistry
from proxy.groups.snapshot import BrokerView, GroupView
from proxy.groups.vacant_groups import VacantGroups
from proxy.metrics.bounds import Bound
from proxy.shadow.view import ShadowView, not_computable
from translation.actions import Event, EventKind
from translation.policy.policy import Mode, Policy, Rule
from translation.reasons import OBSERVED

_EMPTY_RETENTION_S = 3600.0
_TRANSLATABLE = "translatable"


class GroupRegistry:
    """All groups of one process.

    ``lookups`` find what other parts know of a group when it is shown. ``on_drop`` is called with the id of each group
    that is dropped, ``hit`` for each bound of ``limits`` that was reached.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        lookups: GroupLookups | None = None,
        on_drop: Callable[[str], None] = lambda _: None,
        limits: Visibility | None = None,
        hit: Callable[[Bound], None] = lambda _: None,
    ) -> None:
        self.groups: OrderedDict[str, GroupRecord] = OrderedDict()
        """By id, the group with the oldest last event first."""
        self._policy = policy
        self._lookups = lookups or GroupLookups()
        self._on_drop = on_drop
        self._limits = limits or Visibility()
        self._hit = hit
        self._vacant = VacantGroups()
        self._history = EventHistory(self._limits.events_max_bytes, hit)
        self._members = MemberRegistry(self._limits, hit)

    # -- what changes it ------------------------------------------------------------------------------------

    def set_policy(self, policy: Policy, now_us: int) -> None:
        """Apply another policy to all groups."""
        self._policy = policy
        for group in self.groups.values():
            rule, label = rule_of(policy, group.id)
            if rule.mode is not group.mode:
                group.mode_since_us = now_us
            if rule.mode is not Mode.OBSERVE:
                group.shadow = None
            group.mode, group.rule, group.assignor = rule.mode, label, rule.assignor
            group.wave, group.owner = rule.wave, rule.owner
            if group.why_not is not None:
                group.why_not = why_not_under(policy, rule, group.offer, group.why_not)

    def record(self, event: Event, now_us: int, *, unkept_id: str | None = None) -> RecordedEvent:
        """Record an event.

        ``unkept_id`` is the group's full id if that is too long to be kept; the event has the truncated one then.
        """
        if unkept_id is not None:
            return RecordedEvent(group=self._new_group(unkept_id, now_us), event=event)
        group = self._group(event.group_id, now_us)
        recorded = self._record(group, event, now_us)
        self._enforce_limits(group)
        return recorded

    def rule_of(self, group_id: str) -> tuple[Rule, str]:
        """Return the rule that holds for a group, known or not, and its label."""
        return rule_of(self._policy, group_id)

    def rule_number(self, group_id: str) -> int | None:
        """Return the number of the rule that holds for a group; None if it is the default."""
        return self._policy.number_for(group_id)

    def set_broker_view(self, group_id: str, broker: BrokerView) -> None:
        """Store how a broker describes a group."""
        group = self.groups.get(group_id)
        if group is not None:
            most = self._limits.id_max_chars
            members = tuple(truncate(one, most) for one in broker.members[: self._limits.members_of_group])
            group.broker = msgspec.structs.replace(broker, members=members)
            if broker.type == "consumer" and group.mode is Mode.OBSERVE:
                group.shadow = not_computable("it is a group of the new protocol already", broker.asked_at)

    def set_shadow(self, group_id: str, shadow: ShadowView) -> None:
        """Store what the new protocol would give to a group, if it is still observed."""
        group = self.groups.get(group_id)
        if group is not None and group.mode is Mode.OBSERVE:
            group.shadow = None
            listed = sum(len(one.shadow.of_members) for one in self.groups.values() if one.shadow is not None)
            group.shadow = bounded_shadow(shadow, self._limits.id_max_chars, self._limits.members - listed)

    def evict_idle(self, now_us: int) -> None:
        """Evict groups that had no member and no event for an hour."""
        for group in list(self.groups.values()):
            if now_us - group.updated_us < _EMPTY_RETENTION_S * MICRO:
                return  # all further groups have newer events
            if not group.members:
                self._drop(group.id)

    # -- what it shows --------------------------------------------------------------------------------------

    def ids_with_members(self) -> list[str]:
        """Return the ids of the groups that have members."""
        return [group.id for group in self.groups.values() if group.members]

    def views(self, now_us: int, *, events: bool = True) -> Iterator[GroupView]:
        """Yield views of all groups by id, with or without their events.

        Groups may come and go between two views.
        """
        for group_id in sorted(self.groups):
            group = self.groups.get(group_id)
            if group is not None:
                yield view_of(group, now_us, events=events)

    # -- one event ------------------------------------------------------------------------------------------

    def _record(self, group: GroupRecord, event: Event, now_us: int) -> RecordedEvent:
        group.updated_us = now_us
        self._history.add(group, event, now_us)
        if event.offer is not None:
            group.offer = event.offer
        if event.kind is EventKind.PASSED_THROUGH:
            reason = event.reason.removeprefix(OBSERVED)
            group.why_not = None if reason == _TRANSLATABLE else reason
            group.joins_wait = True
        elif event.kind is EventKind.POLICY_CHANGED:
            group.last_move_us = group.move_requested_us = now_us
        if not event.member_id or not event.protocol:
            return RecordedEvent(group=group, event=event)
        if event.kind in (EventKind.JOINED, EventKind.ADOPTED):
            group.joins_wait = False
            if event.protocol == "translated":
                group.why_not = None
                group.last_move_us = now_us
        return self._members.record(group, event, now_us)

    def _group(self, group_id: str, now_us: int) -> GroupRecord:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = self._new_group(group_id, now_us)
        else:
            self.groups.move_to_end(group_id)
        return group

    def _new_group(self, group_id: str, now_us: int) -> GroupRecord:
        rule, label = self.rule_of(group_id)
        return GroupRecord(
            id=group_id,
            mode=rule.mode,
            rule=label,
            assignor=rule.assignor,
            wave=rule.wave,
            owner=rule.owner,
            mode_since_us=now_us,
            lookups=self._lookups,
        )

    # -- bounds ---------------------------------------------------------------------------------------------

    def _enforce_limits(self, group: GroupRecord) -> None:
        """Evict groups and events beyond the limits, after an event of ``group``."""
        vacant, limits = self._vacant, self._limits
        if group.members:
            vacant.discard(group.id)
        else:
            vacant.add(group.id, had_members=group.had_members)
        while len(vacant) > limits.groups_without_members:
            self._hit(Bound.GROUPS_WITHOUT_MEMBERS)
            self._drop(vacant.next_to_evict())
        if len(self.groups) > limits.groups:
            self._hit(Bound.GROUPS)
            self._drop(vacant.next_to_evict() if vacant else group.id)
        self._history.enforce_limit()

    def _drop(self, group_id: str) -> None:
        group = self.groups.pop(group_id)
        self._vacant.discard(group_id)
        self._history.drop(group)
        for member in group.members.values():
            self._members.drop(member)
        self._on_drop(group_id)


def rule_of(policy: Policy, group_id: str) -> tuple[Rule, str]:
    """Return the rule for a group, and its label: its number and matcher in the policy, or ``default``."""
    number = policy.number_for(group_id)
    if number is None:
        return policy.rule_for(group_id), "default"
    rule = policy.rules[number]
    what = f"group {group_id}" if rule.pattern is None else f"pattern {rule.pattern}"
    return rule, f"rule {number + 1}: {what}"
