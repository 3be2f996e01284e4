"""Changes the state of members, ends memberships, and has a group's members heartbeated when the group changes."""

import math

from translation.actions import EventKind
from translation.engine.events import Events
from translation.engine.scheduler import Scheduler
from translation.members import generation
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.member_state import MemberEvent, MemberState
from translation.members.procedure import WakeReason
from translation.partitions import NONE

_WAKES = {
    MemberEvent.FENCED: WakeReason.MEMBERSHIP_LOST,
    MemberEvent.REPLACED: WakeReason.REPLACED,
    MemberEvent.TAKEN: WakeReason.TAKEN,
}
"""What a JoinGroup that waits is told when its membership ends."""


class Memberships:
    """What happens to the memberships of the clients that this process translates."""

    def __init__(self, environment: Environment, events: Events, scheduler: Scheduler) -> None:
        self._environment = environment
        self._events = events
        self._scheduler = scheduler

    def change_state(self, member: Member, event: MemberEvent, reason: str) -> None:
        """Report an event to the member's state machine, and emit the change of state."""
        before = member.state
        after = member.machine.handle(event)
        if after is not MemberState.STABLE:
            member.deadlines.addition_debounce_until = member.deadlines.addition_debounce_limit = math.inf
        if after is not before:
            self._events.emit(EventKind.STATE_CHANGED, member, reason=reason, previous_state=before)

    def end(self, member: Member, event: MemberEvent, kind: EventKind, reason: str) -> None:
        """End a membership: forget its assignment, end a JoinGroup that waits, heartbeat for the other members.

        The record itself stays until its procedures have ended
        (:meth:`~translation.engine.registry.Registry.drop_if_idle`).
        """
        self._end(member, event, kind, reason)

    def drop_taken(self, member: Member) -> None:
        """Forget the membership of a member that another replica serves: it goes on, so no event says that it ended."""
        self._end(member, MemberEvent.TAKEN, None, MemberEvent.TAKEN.value)

    def _end(self, member: Member, event: MemberEvent, kind: EventKind | None, reason: str) -> None:
        was_joined = member.joined
        member.taken = kind is None
        member.partitions.possibly_owned = NONE
        member.partitions.reported_owned = None
        member.adopted = False
        member.join_answered_on = None
        member.group.asked_to_rejoin.pop(member.member_id, None)
        self.change_state(member, event, reason)
        if was_joined and kind is not None:
            self._events.emit(kind, member, reason=reason)
        member.incarnation += 1
        generation.forget(member)
        member.broker.assignor = None
        member.broker.reply_lost = False
        member.partitions.broker_assignment = member.partitions.synced_assignment = (
            member.partitions.pending_revocation
        ) = NONE
        member.deadlines.stop()
        member.deadlines.keep_alive_at = math.inf
        if member.join.waiting is not None:
            self._scheduler.wake(member.join.waiting, _WAKES.get(event, WakeReason.ABANDONED))
        if was_joined and kind is not None:
            member.group.ended_at = self._environment.now
            self.heartbeat_group(member.group)

    def heartbeat_group(self, group: Group) -> None:
        """Heartbeat for all members of a group that changed: now, and again when the broker surely has reassigned.

        So clients learn of a new assignment at their own next Heartbeat, not one upstream interval later.
        """
        now, settings = self._environment.now, self._environment.settings
        for when in (now, now + settings.assignment_interval_s):
            # Changes that come together share their heartbeats.
            if not any(
                when <= booked <= when + settings.join_poll_s for booked in group.scheduled_heartbeats
            ):
                group.scheduled_heartbeats.append(when)
        group.scheduled_heartbeats.sort()
        self._environment.timers.book(group, group.scheduled_heartbeats[0])
