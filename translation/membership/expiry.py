"""When a client counts as dead, and its membership ends: silent for its session timeout, no rejoin within its
rebalance timeout, or too long on its way back.

Two timeouts of the client end it. The session timeout runs from one sign of life to the next, except while the client
waits in JoinGroup. The rebalance timeout runs from REBALANCE_IN_PROGRESS to the JoinGroup, and from the answer of that
to the SyncGroup, as at a Kafka broker. :mod:`translation.routing.deadlines` calls here when one of a member's deadlines
is due.

One of several replicas can't know whether the client is at another. With a member log (:mod:`translation.member_log`)
it asks that first, and what the log says ends the membership; without one, only the broker's session timeout does.
"""

import math
from typing import TYPE_CHECKING

from protocol_codecs import ErrorCode
from translation.actions import EventKind
from translation.engine.context import Context
from translation.engine.join_outcomes import Failed
from translation.engine.reach import END_AGAIN_S
from translation.error_mapping import IS_OUT, NO_COORDINATOR
from translation.member_log.records import Kind, MemberKey, member_key
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.member_state import MemberEvent, MemberState
from translation.members.procedure import Procedure, UpstreamLost, Wait
from translation.upstream.assignor_vote import update_assignors
from translation.upstream.consumer_group_heartbeat import HeartbeatProcedure
from translation.upstream.leave_epoch import leave, leave_dead, let_others_begin

if TYPE_CHECKING:
    from translation.member_log.member_log import MemberLog


class Expiry:
    """Ends memberships whose timeout has passed."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._member_log = context.member_log
        self._memberships = context.memberships
        self._registry = context.registry
        self._connections = context.connections
        self._rules = context.rules
        self._reach = context.reach

    def timeout_expired(self, member: Member) -> bool:
        """Whether the session timeout or the rebalance timeout of a member has ended its membership."""
        if member.deadlines.suspended_until < math.inf:
            return False  # nobody could end it (translation.engine.reach)
        return (
            min(member.deadlines.session_deadline, member.deadlines.rebalance_deadline)
            <= self._environment.now
        )

    def remove_expired(self, member: Member) -> Procedure[None]:
        """End a membership whose session timeout or rebalance timeout has passed.

        A heartbeat with epoch -1 removes a member whatever its epoch is, so only a process that serves the client alone
        sends it; otherwise the broker's session timeout decides. The member's other requests wait for the broker's
        response, so that the -1 can't reach the broker after a new JoinGroup.
        """
        if not self.timeout_expired(member):
            return  # the client was heard again before it was this procedure's turn
        # Now, since the client may call again while the -1 is under way.
        kind, reason = self._which_timeout(member)
        if self._environment.settings.sole_process:
            try:
                with member.group.departing(member.member_id):
                    yield from let_others_begin(self._environment, member.group)
                    if not member.joined or not self.timeout_expired(member):
                        return  # since a moment ago
                    response = yield from leave(member)
            except UpstreamLost:  # whether the broker has got it is not known: tried again
                self._environment.timers.book(member, self._environment.now)
                return
            if response.error_code in NO_COORDINATOR:
                self._connections.unbind(member)
                self._reach.lose_sight(member.group)
                self._environment.timers.book(member, self._environment.now)
                return
        self._forget(member, kind, reason)

    def forget_expired(self, member: Member) -> None:
        """End such a membership here, without a request to the broker."""
        self._forget(member, *self._which_timeout(member))

    # -- with a member log -----------------------------------------------------------------------------------

    def asks_log(self, member: Member) -> bool:
        """Whether the member log decides about a membership whose timeout has passed; it has been asked then.

        It says :class:`~translation.member_log.outputs.Expired` if no other replica has served the client meanwhile.
        """
        log = self._member_log.log
        return log is not None and log.expire(member.key, self._environment.now)

    def remove_dead(self, member: Member) -> Procedure[None]:
        """Have the broker remove a member whose id the log has said to be dead.

        The log is told of the end only if the broker confirms it. Else epoch -1 is sent again when the coordinator
        answers, here or by whoever meets the id.
        """
        yield from self._end_dead(member.group, member.member_id, leave(member))

    def end_dead(self, group: Group, member_id: str) -> Procedure[None]:
        """Have the broker remove a dead member id for which nobody may have done that, unless the log has its end.

        Whoever served it may reach no coordinator; a second epoch -1 for a dead id hits nobody.
        """
        if self.is_dying(group, member_id) and member_id not in group.leaving:
            yield from self._end_dead(group, member_id, leave_dead(group.group_id, member_id))

    def is_dying(self, group: Group, member_id: str) -> bool:
        """Whether the log has a member id as dead, and not the end of its membership."""
        log = self._member_log.log
        record = None if log is None else log.record(member_key(group.group_id, member_id))
        return record is not None and record.kind is Kind.EXPIRING

    def _end_dead(self, group: Group, member_id: str, steps: HeartbeatProcedure) -> Procedure[None]:
        code: int = ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            with group.departing(member_id):
                code = (yield from steps).error_code
        except UpstreamLost:
            pass
        if code in IS_OUT:
            self._member_log.end(group.group_id, member_id)
            self._memberships.heartbeat_group(group)  # its partitions are free from now on
        else:
            self._reach.remember_dead(group, member_id, self._environment.now + END_AGAIN_S)

    def ensure_dead(self, member: Member) -> Procedure[None]:
        """Have the log say that the id of a member is dead, before epoch -1 is sent because its client begins anew.

        Nothing is asked without a member log, and of one that leaves the end of silent clients to the broker.

        :raises Failed: another replica serves the member, or the log does not say anything: the client has to try
        again.
        """
        log = self._member_log.log
        if log is None or not log.settings.expires:
            return
        key = member.key
        until = self._environment.now + log.settings.wait_s
        is_asked = not _is_dead(log, key) and log.expire(key, self._environment.now)
        while is_asked and member.joined and not _is_dead(log, key) and self._environment.now < until:
            yield Wait(until, settles=key)
        if not _is_dead(log, key):
            raise Failed(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "the member log does not say that its id is dead"
            )

    def drop_taken(self, member: Member) -> None:
        """Forget a member that another replica serves, without a word to the broker."""
        if member.joined:
            self._memberships.drop_taken(member)
            # That of this member may be the one for which the group votes.
            update_assignors(self._memberships, self._rules, member.group)
        self._registry.drop_if_idle(member)

    def _which_timeout(self, member: Member) -> tuple[EventKind, str]:
        deadlines = member.deadlines
        if (
            deadlines.session_deadline <= self._environment.now
            or deadlines.rebalance_deadline > self._environment.now
        ):
            return EventKind.SESSION_EXPIRED, f"no sign of life for {member.client.session_timeout_ms} ms"
        missing = (
            "sent no SyncGroup" if member.state is MemberState.COMPLETING_REBALANCE else "did not rejoin"
        )
        return EventKind.REBALANCE_EXPIRED, f"{missing} within {member.client.rebalance_timeout_ms} ms"

    def _forget(self, member: Member, kind: EventKind, reason: str) -> None:
        if member.joined:
            self._memberships.end(member, MemberEvent.EXPIRED, kind, reason)
            self._registry.drop_if_idle(member)


def _is_dead(log: "MemberLog", key: MemberKey) -> bool:
    record = log.record(key)
    return record is not None and record.kind.is_dead
