"""Dispatches deadlines that are due: those of members, and the scheduled heartbeats of groups.

:mod:`translation.membership.expiry` decides what a timeout of the client ends,
:mod:`translation.upstream.rebalance_detection` for how long additions are collected. The heartbeats that the proxy
sends of its own accord start here: keep-alives, and those that fetch a new assignment after the group has changed.
"""

import math

from translation.conversion.stand_in import StandIn
from translation.engine.context import Context
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.procedure import Procedure, ProcedureQueue
from translation.membership.expiry import (
    Expiry,
)
from translation.upstream.assignor_vote import update_assignors
from translation.upstream.consumer_group_heartbeat import schedule_keepalive
from translation.upstream.heartbeat_outcome import HeartbeatOutcomes
from translation.upstream.rebalance_detection import announce_additions

_AFTER_TURN_S = 1.0
"""After this much more than a turn's limit, a membership whose end waits for its turn is looked at again."""


_DEAD_AGAIN_S = 60.0
"""Between two looks whether dead ids are ended, while nobody of their group is here."""


class Deadlines:
    """Dispatches deadlines of members and groups that are due."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._scheduler = context.scheduler
        self._connections = context.connections
        self._member_log = context.member_log
        self._memberships = context.memberships
        self._rules = context.rules
        self._reach = context.reach
        self._expiry = Expiry(context)
        self._stand_in = StandIn(context)
        self._heartbeat_outcomes = HeartbeatOutcomes(context)
        self._context = context

    def member_time(self, member: Member, now: float) -> None:
        """Handle every deadline of a member that is due."""
        if member.deadlines.suspended_until <= now:
            self._expiry.forget_expired(member)
            return
        if self._expiry.timeout_expired(member):
            if self._reach.suspend(member):
                return  # until somebody can end it, or the client calls
            if self._expiry.asks_log(member):
                return  # until the log says something, or the client calls
            self._start(member, expiring=True)
            if member.queue.waiting:
                # For its turn, and what waits is dropped if its connection is lost before.
                self._environment.timers.book(
                    member, now + self._environment.settings.turn_limit_s + _AFTER_TURN_S
                )
            return  # booked again by whatever renews the deadline
        announce_additions(self._environment, self._memberships, member)
        if member.deadlines.keep_alive_at <= now:
            self.heartbeat(member)
        self._environment.book(member)

    def group_time(self, group: Group, now: float) -> None:
        """Send the scheduled heartbeats of a group, except for members that were heartbeated since."""
        due = [when for when in group.scheduled_heartbeats if when <= now]
        group.scheduled_heartbeats = [when for when in group.scheduled_heartbeats if when > now]
        if due:
            # The member whose assignor the group votes for may have left.
            update_assignors(self._memberships, self._rules, group)
            for member in list(group.members.values()):
                if member.broker.replied_at < due[-1]:
                    self.heartbeat(member)
        if group.dead:
            self._end_dead_ids(group, now)
        if group.scheduled_heartbeats:
            self._environment.timers.book(group, group.scheduled_heartbeats[0])

    def _end_dead_ids(self, group: Group, now: float) -> None:
        """Have epoch -1 sent for the dead ids of a group whose time has come, if its coordinator is in reach."""
        for member_id in [member_id for member_id, when in group.dead.items() if when <= now]:
            connection_id = self._reach.connection_of(group)
            del group.dead[member_id]
            if connection_id is not None:
                steps = self._expiry.end_dead(group, member_id)
                steps = self._stand_in.end_behind_helper(group, member_id, connection_id, steps)
                self._scheduler.start(steps, ProcedureQueue(), connection_id, None)
            elif self._expiry.is_dying(group, member_id):
                group.dead[member_id] = now + _DEAD_AGAIN_S
        if group.dead:
            self._environment.timers.book(group, min(group.dead.values()))
        else:
            self._registry.drop_group_if_empty(group)

    def heartbeat(self, member: Member) -> None:
        """Send a heartbeat of the proxy's own accord for a member; it waits for no commit.

        While another procedure has the turn, only a keep-alive that is due waits for it, as the next: calls that take
        turns all the time, whoever sends them, do not put it off.

        With several proxy processes this happens only while its client is connected here: otherwise another process may
        serve it, which would not learn of the epoch that this heartbeat moves. Nor does it happen after a lost
        response: it would have to say what the client owns, and only a call of the client shows that no other process
        has given it more.
        """
        is_due = member.deadlines.keep_alive_at <= self._environment.now
        if is_due:
            if member.join_answered_on != member.queue.running_on and self._connections.is_connected(
                member.join_answered_on
            ):
                self._scheduler.end_silence(member.queue)
            schedule_keepalive(self._environment, member)
        if (is_due or member.queue.has_turn_for_beside) and self._may_heartbeat(member):
            self._start(member, expiring=False)

    def _may_heartbeat(self, member: Member) -> bool:
        """Whether the proxy may heartbeat for a member of its own accord; one that waits in JoinGroup does so by
        itself."""
        served_here = self._environment.settings.sole_process or (
            self._connections.is_connected(member.connection_id)
            and self._member_log.may_keep_alive(member)
            and not member.broker.reply_lost
        )
        return member.joined and served_here and member.join.waiting is None

    def _heartbeat(self, member: Member, asked_at: float) -> Procedure[None]:
        """Send one heartbeat, unless there is no need for it any more by the time that it is this procedure's turn."""
        if self._may_heartbeat(member) and member.broker.replied_at <= asked_at:
            yield from self._heartbeat_outcomes.heartbeat_upstream(member)

    def _start(self, member: Member, *, expiring: bool) -> None:
        connection_id = self._reach.connection_to_end(member) if expiring else member.connection_id
        if connection_id is None:
            # Its upstream connection is gone, so nothing can be sent for it: the broker's own timeouts decide.
            member.deadlines.keep_alive_at = math.inf
            if expiring:
                self._expiry.forget_expired(member)
        elif expiring:
            steps = self._expiry.remove_expired(member)
            if self._environment.settings.sole_process:
                steps = self._stand_in.end_behind_helper(member.group, member.member_id, connection_id, steps)
            self._scheduler.start(
                steps, member.queue, connection_id, member.client.client_id, ends_session=True
            )
        else:
            steps = self._heartbeat(member, self._environment.now)
            self._scheduler.start_keep_alive(steps, member.queue, connection_id, member.client.client_id)
