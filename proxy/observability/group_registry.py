"""The state of groups and members as their events describe it, from which snapshots are made.

For each group the registry keeps the members, the latest events, the last rebalance, and why it is not translated. All
of it is bounded. Times come with the events; the registry has no clock.

Clients can invent group ids, so new groups never evict groups in use: groups without members are evicted first, and
beyond the bounds new groups are not kept.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

import msgspec

from proxy.config.schema import Visibility
from proxy.metrics.bounds import Bound
from proxy.observability.bounds import estimated_bytes, truncate
from proxy.observability.formatting import count_partitions
from proxy.observability.snapshot import (
    EVENTS_KEPT,
    BrokerView,
    EventView,
    GroupView,
    MemberView,
    RebalanceView,
    progress_of,
    protocol_of,
    state_of,
    stuck_of,
)
from proxy.observability.vacant_groups import VacantGroups
from translation.actions import Event, EventKind
from translation.member_state import MemberState
from translation.partitions import TopicPartitions
from translation.policy.policy import Mode, Policy, Rule
from translation.reasons import OBSERVED

_EMPTY_RETENTION_S = 3600.0
_MOVE_ANSWER_S = 3.0
"""Seconds in which a JoinGroup counts as a member's response to the request to move."""
_CONVERSION_STUCK_S = 120.0
"""Seconds without a move after which a group with classic members that should be translated counts as stuck."""
_TRANSLATABLE = "translatable"
_DEFAULT_REBALANCE_TIMEOUT_S = 300.0
_REBALANCING = frozenset({MemberState.PREPARE_REBALANCE, MemberState.COMPLETING_REBALANCE})
_MICRO = 1_000_000


class MemberRecord(msgspec.Struct, kw_only=True, gc=False):
    """A member as of its last event. Times are microseconds since 1970."""

    id: str
    protocol: str = ""
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str = ""
    software: str = ""
    generation: int = -1
    epoch: int = -1
    state: str = ""
    state_since_us: int = 0
    rebalancing_since_us: int = 0
    updated_us: int = 0
    owned: TopicPartitions | None = None
    revoked_all: bool = False
    rebalance_timeout_ms: int = -1

    def stuck_s(self, now_us: int) -> float:
        """Return for how many seconds the member has exceeded its rebalance timeout; 0 if it has not."""
        if self.state not in _REBALANCING:
            return 0.0
        timeout_ms = self.rebalance_timeout_ms
        allowed_s = timeout_ms / 1000 if timeout_ms > 0 else _DEFAULT_REBALANCE_TIMEOUT_S
        return max(0.0, (now_us - self.rebalancing_since_us) / _MICRO - allowed_s)


class Rebalance(msgspec.Struct, kw_only=True):
    """A time during which members of a group had to rejoin. Times are microseconds since 1970."""

    started_us: int
    reason: str
    members: set[str]
    ended_us: int | None = None


class GroupRecord(msgspec.Struct, kw_only=True):
    """A group. ``mode``, ``rule`` and ``assignor`` come from the policy; times are microseconds since 1970."""

    id: str
    mode: Mode
    rule: str
    assignor: str | None
    members: dict[str, MemberRecord] = {}
    had_members: bool = False
    events: deque[tuple[int, Event]] = msgspec.field(default_factory=deque)
    rebalance: Rebalance | None = None
    rebalances: int = 0
    why_not: str | None = None
    broker: BrokerView | None = None
    mode_since_us: int = 0
    last_move_us: int = 0
    move_requested_us: int = 0
    updated_us: int = 0

    def conversion_stuck(self, now_us: int) -> str | None:
        """Return why the group's move to the new protocol is stuck; None if it isn't, or none is under way."""
        if self.mode is not Mode.TRANSLATE or self.why_not is not None:
            return None
        waiting = [member for member in self.members.values() if member.protocol == "classic"]
        since_s = (now_us - max(self.mode_since_us, self.last_move_us)) / _MICRO
        if not waiting or since_s < _CONVERSION_STUCK_S:
            return None
        return f"{len(waiting)} classic members wait to be moved, and none was moved for {since_s:.0f} s"


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What an event changed, for metrics. ``paused_s`` is how long a member had no partition during a rebalance."""

    group: GroupRecord
    event: Event
    rebalances: bool = False
    membership_changed: bool = False
    paused_s: float | None = None


class GroupRegistry:
    """All groups of one process. ``dropped`` is told the id of each group that is forgotten.

    ``hit`` is told of each bound of ``limits`` that was reached.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        on_drop: Callable[[str], None] = lambda _: None,
        limits: Visibility | None = None,
        hit: Callable[[Bound], None] = lambda _: None,
    ) -> None:
        self.groups: OrderedDict[str, GroupRecord] = OrderedDict()
        """By id, the group with the oldest last event first."""
        self._policy = policy
        self._on_drop = on_drop
        self._limits = limits or Visibility()
        self._hit = hit
        self._vacant = VacantGroups()
        self._with_events: OrderedDict[str, None] = (
            OrderedDict()
        )  # ids of groups with kept events, oldest last event first
        self._event_bytes = 0
        self._members = 0
        self._partitions = 0

    # -- events ---------------------------------------------------------------------------------------------

    def set_policy(self, policy: Policy, now_us: int) -> None:
        """Apply another policy to all groups."""
        self._policy = policy
        for group in self.groups.values():
            rule, named = rule_of(policy, group.id)
            if rule.mode is not group.mode:
                group.mode_since_us = now_us
            group.mode, group.rule, group.assignor = rule.mode, named, rule.assignor

    def record(self, event: Event, now_us: int, *, unkept_id: str | None = None) -> RecordedEvent:
        """Record an event.

        ``unkept_id`` is the group's full id if that is too long to be kept; the event has the truncated one then.
        """
        if unkept_id is not None:
            return RecordedEvent(group=self._new_group(unkept_id, now_us), event=event)
        group = self._group(event.group_id, now_us)
        recorded = self._record(group, event, now_us)
        self._keep_bounds(group)
        return recorded

    def _record(self, group: GroupRecord, event: Event, now_us: int) -> RecordedEvent:
        group.updated_us = now_us
        self._remember(group, event, now_us)
        if event.kind is EventKind.PASSED_THROUGH:
            reason = event.reason.removeprefix(OBSERVED)
            group.why_not = None if reason == _TRANSLATABLE else reason
        elif event.kind is EventKind.POLICY_CHANGED:
            group.last_move_us = group.move_requested_us = now_us
        if not event.member_id or not event.protocol:
            return RecordedEvent(group=group, event=event)
        if event.kind is EventKind.JOINED and event.protocol == "translated":
            group.why_not = None
            group.last_move_us = now_us
        return self._member_event(group, event, now_us)

    def set_broker_view(self, group_id: str, broker: BrokerView) -> None:
        """Store how a broker describes a group."""
        group = self.groups.get(group_id)
        if group is not None:
            most = self._limits.id_max_chars
            members = tuple(truncate(one, most) for one in broker.members[: self._limits.members_of_group])
            group.broker = msgspec.structs.replace(broker, members=members)

    def evict_idle(self, now_us: int) -> None:
        """Evict groups that had no member and no event for an hour."""
        for group in list(self.groups.values()):
            if now_us - group.updated_us < _EMPTY_RETENTION_S * _MICRO:
                return  # all further groups have newer events
            if not group.members:
                self._drop(group.id)

    def _group(self, group_id: str, now_us: int) -> GroupRecord:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = self._new_group(group_id, now_us)
        else:
            self.groups.move_to_end(group_id)
        return group

    def _new_group(self, group_id: str, now_us: int) -> GroupRecord:
        rule, named = rule_of(self._policy, group_id)
        return GroupRecord(
            id=group_id, mode=rule.mode, rule=named, assignor=rule.assignor, mode_since_us=now_us
        )

    def _keep_bounds(self, group: GroupRecord) -> None:
        """Evict groups and events beyond the limits."""
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
        while self._event_bytes > limits.events_max_bytes:
            self._hit(Bound.EVENTS)
            self._forget_oldest_event(self.groups[next(iter(self._with_events))])

    def _drop(self, group_id: str) -> None:
        group = self.groups.pop(group_id)
        self._vacant.discard(group_id)
        self._with_events.pop(group_id, None)
        self._event_bytes -= sum(estimated_bytes(event) for _, event in group.events)
        for member in group.members.values():
            self._discount(member)
        self._on_drop(group_id)

    def _remember(self, group: GroupRecord, event: Event, now_us: int) -> None:
        if event.kind is EventKind.PASSED_THROUGH and any(
            known.kind is event.kind and known.reason == event.reason for _, known in group.events
        ):
            return  # it repeats at each JoinGroup and would evict all other events
        if len(group.events) == EVENTS_KEPT:
            self._forget_oldest_event(group)
        group.events.append((now_us, event))
        self._event_bytes += estimated_bytes(event)
        self._with_events[group.id] = None
        self._with_events.move_to_end(group.id)

    def _forget_oldest_event(self, group: GroupRecord) -> None:
        self._event_bytes -= estimated_bytes(group.events.popleft()[1])
        if not group.events:
            del self._with_events[group.id]

    # -- members -------------------------------------------------------------------------------------------------

    def _may_keep_member(self, group: GroupRecord) -> bool:
        if len(group.members) >= self._limits.members_of_group:
            self._hit(Bound.MEMBERS_OF_GROUP)
            return False
        if self._members >= self._limits.members:
            self._hit(Bound.MEMBERS)
            return False
        return True

    def _discount(self, member: MemberRecord) -> None:
        self._members -= 1
        self._partitions -= count_partitions(member.owned)

    def _set_owned(self, member: MemberRecord, owned: TopicPartitions | None) -> None:
        """Set the partitions that a kept member owns now."""
        others = self._partitions - count_partitions(member.owned)
        if others + count_partitions(owned) > self._limits.partitions:
            self._hit(Bound.PARTITIONS)
            owned = None
        member.owned = owned
        self._partitions = others + count_partitions(owned)

    def _member_event(self, group: GroupRecord, event: Event, now_us: int) -> RecordedEvent:
        ended = event.state == MemberState.ABSENT
        member = group.members.get(event.member_id)
        if member is None:
            member = MemberRecord(id=event.member_id, state_since_us=now_us)
            if not ended and self._may_keep_member(group):
                group.members[event.member_id] = member
                group.had_members = True
                self._members += 1
        before, had = member.state, member.owned
        _copy(event, member, now_us)
        if (event.owned is not None or event.kind is EventKind.ADOPTED) and event.member_id in group.members:
            self._set_owned(member, event.owned)
        if before != event.state:
            member.state_since_us = now_us
            if before not in _REBALANCING:
                member.rebalancing_since_us = now_us
        if event.owned is not None and not event.owned and had:
            member.revoked_all = True
        paused_s = None
        if event.state == MemberState.STABLE and before != event.state:
            if member.revoked_all:
                paused_s = (now_us - member.rebalancing_since_us) / _MICRO
            member.revoked_all = False
        if ended:
            if group.members.pop(event.member_id, None) is not None:
                self._discount(member)
            if not group.members:
                group.broker = None  # without a member there is no connection to poll it over
        rebalances = event.state == MemberState.PREPARE_REBALANCE and before not in ("", event.state)
        self._follow_rebalance(group, event, now_us)
        return RecordedEvent(
            group=group,
            event=event,
            rebalances=rebalances,
            paused_s=paused_s,
            membership_changed=ended or not before,
        )

    def _follow_rebalance(self, group: GroupRecord, event: Event, now_us: int) -> None:
        rebalance = group.rebalance
        if event.state in _REBALANCING:
            if rebalance is None or rebalance.ended_us is not None:
                reason = self._rebalance_reason(group, event, now_us)
                group.rebalance = Rebalance(started_us=now_us, reason=reason, members={event.member_id})
                group.rebalances += 1
            elif len(rebalance.members) < self._limits.members_of_group:
                rebalance.members.add(event.member_id)
        elif (
            rebalance is not None
            and rebalance.ended_us is None
            and not any(member.state in _REBALANCING for member in group.members.values())
        ):
            rebalance.ended_us = now_us

    def _rebalance_reason(self, group: GroupRecord, event: Event, now_us: int) -> str:
        """Return why a rebalance began."""
        if event.state == MemberState.PREPARE_REBALANCE:
            return event.reason or event.kind.replace("_", " ")
        moves = now_us - group.move_requested_us < _MOVE_ANSWER_S * _MICRO
        return "moved by the policy" if moves else "a member joined"

    # -- snapshots -------------------------------------------------------------------------------------------

    def views(self, now_us: int, *, events: bool = True) -> Iterator[GroupView]:
        """Yield views of all groups by id, with or without their events.

        Groups may come and go between two views.
        """
        for group_id in sorted(self.groups):
            group = self.groups.get(group_id)
            if group is not None:
                yield view_of(group, now_us, events=events)


def rule_of(policy: Policy, group_id: str) -> tuple[Rule, str]:
    """Return the rule for a group, and its label: its number and matcher in the policy, or ``default``."""
    for number, rule in enumerate(policy.rules, 1):
        if rule.matches(group_id):
            what = f"group {rule.group}" if rule.pattern is None else f"pattern {rule.pattern}"
            return rule, f"rule {number}: {what}"
    return policy.rule_for(group_id), "default"


def view_of(group: GroupRecord, now_us: int, *, events: bool = True) -> GroupView:
    """Make the view of one group."""
    members = tuple(
        sorted(
            (_member_view(member, now_us) for member in group.members.values()),
            key=lambda one: (one.client_id or "", one.id),
        )
    )
    rebalance = group.rebalance
    return GroupView(
        id=group.id,
        mode=group.mode,
        rule=group.rule,
        assignor=group.assignor,
        state=state_of(members),
        protocol=protocol_of(members),
        members=members,
        progress=progress_of(members, group.broker),
        broker=group.broker,
        last_rebalance=None if rebalance is None else _rebalance_view(rebalance),
        rebalances=group.rebalances,
        why_not=group.why_not,
        stuck=stuck_of(members, group.conversion_stuck(now_us)),
        updated_at=group.updated_us / _MICRO,
        events=tuple(_event_view(time_us, event) for time_us, event in group.events) if events else (),
    )


def _copy(event: Event, member: MemberRecord, now_us: int) -> None:
    member.protocol = event.protocol
    member.instance_id = event.instance_id
    member.client_id = event.client_id
    member.client_host = event.client_host
    member.software = event.software or member.software
    member.generation = event.generation
    member.epoch = event.epoch
    member.state = event.state
    member.updated_us = now_us
    member.rebalance_timeout_ms = event.rebalance_timeout_ms


def _member_view(member: MemberRecord, now_us: int) -> MemberView:
    return MemberView(
        id=member.id,
        instance=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        software=member.software,
        protocol=member.protocol,
        generation=member.generation,
        epoch=member.epoch,
        state=member.state,
        state_since=member.state_since_us / _MICRO,
        updated_at=member.updated_us / _MICRO,
        partitions=member.owned,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        stuck_s=member.stuck_s(now_us),
    )


def _rebalance_view(rebalance: Rebalance) -> RebalanceView:
    return RebalanceView(
        started_at=rebalance.started_us / _MICRO,
        ended_at=None if rebalance.ended_us is None else rebalance.ended_us / _MICRO,
        reason=rebalance.reason,
        members=tuple(sorted(rebalance.members)),
    )


def _event_view(time_us: int, event: Event) -> EventView:
    return EventView(
        time_us=time_us,
        kind=event.kind,
        member=event.member_id,
        client_id=event.client_id,
        protocol=event.protocol,
        generation=event.generation,
        epoch=event.epoch,
        state=event.state,
        previous_state=event.previous_state,
        partitions=event.partitions,
        owned=event.owned,
        reason=event.reason,
    )
