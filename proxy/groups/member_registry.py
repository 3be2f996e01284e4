"""Applies the events of members to the records of their groups, within the bounds on members and partitions
(``visibility.members``, ``visibility.members_of_group``, ``visibility.partitions``), and measures for how long a
member was paused (``epochgate_member_paused_seconds``).
"""

from collections.abc import Callable

from proxy.config.schema import Visibility
from proxy.groups.formatting import count_partitions
from proxy.groups.group_records import MICRO, GroupRecord, MemberRecord, RecordedEvent
from proxy.groups.snapshot import REBALANCING
from proxy.metrics.bounds import Bound
from translation.actions import Event, EventKind
from translation.members.member_state import MemberState
from translation.partitions import TopicPartitions


class MemberRegistry:
    """Counts the members and partitions of all groups. ``hit`` is called for each bound that was reached."""

    def __init__(self, limits: Visibility, hit: Callable[[Bound], None]) -> None:
        self._limits = limits
        self._hit = hit
        self._members = 0
        self._partitions = 0

    def record(self, group: GroupRecord, event: Event, now_us: int) -> RecordedEvent:
        """Apply an event of a member, and of its group's rebalance with it. Return what it changed."""
        ended = event.state == MemberState.ABSENT
        member = group.members.get(event.member_id) or self._add(group, event, now_us)
        state_before, owned_before = member.state, member.owned
        member.update(event, now_us)
        if (event.owned is not None or event.kind is EventKind.ADOPTED) and event.member_id in group.members:
            self._set_owned(member, event.owned)
        if state_before != event.state:
            member.state_since_us = now_us
            if state_before not in REBALANCING:
                member.rebalancing_since_us = now_us
        if event.owned is not None and not event.owned and owned_before:
            member.revoked_all = True
        paused_s = None
        if event.state == MemberState.STABLE and state_before != event.state:
            if member.revoked_all:
                paused_s = (now_us - member.rebalancing_since_us) / MICRO
            member.revoked_all = False
        if ended:
            if group.members.pop(event.member_id, None) is not None:
                self.drop(member)
            if not group.members:
                group.broker = None  # without a member there is no connection to poll it over
                if not group.joins_wait:
                    group.why_not = None  # it was said of clients that have left
        group.follow_rebalance(event, now_us, self._limits.members_of_group)
        return RecordedEvent(
            group=group,
            event=event,
            rebalances=event.state == MemberState.PREPARE_REBALANCE and state_before not in ("", event.state),
            paused_s=paused_s,
            membership_changed=ended or not state_before,
        )

    def drop(self, member: MemberRecord) -> None:
        """Count a member and its partitions no longer: it has gone, or its group is dropped."""
        self._members -= 1
        self._partitions -= count_partitions(member.owned)

    def _add(self, group: GroupRecord, event: Event, now_us: int) -> MemberRecord:
        """Return a new record; it is kept in the group unless the event ends the membership or a bound is reached."""
        member = MemberRecord(id=event.member_id, state_since_us=now_us)
        if event.state != MemberState.ABSENT and self._may_keep(group):
            group.members[event.member_id] = member
            group.had_members = True
            self._members += 1
        return member

    def _may_keep(self, group: GroupRecord) -> bool:
        if len(group.members) >= self._limits.members_of_group:
            self._hit(Bound.MEMBERS_OF_GROUP)
            return False
        if self._members >= self._limits.members:
            self._hit(Bound.MEMBERS)
            return False
        return True

    def _set_owned(self, member: MemberRecord, owned: TopicPartitions | None) -> None:
        """Set the partitions that a kept member owns now; None beyond the bound."""
        others = self._partitions - count_partitions(member.owned)
        if others + count_partitions(owned) > self._limits.partitions:
            self._hit(Bound.PARTITIONS)
            owned = None
        member.owned = owned
        self._partitions = others + count_partitions(owned)
