"""Moves a client back to the classic protocol: its Heartbeat has it rejoin, and it goes back by its JoinGroup, within
a limit of time.

It keeps its membership as a classic one (:mod:`translation.moving.return_in_place`), unless another process takes
its instance id over, or the broker lets no classic member in: then its membership ends before the JoinGroup is relayed.
"""

import math

from protocol_codecs import ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from translation.actions import EventKind, Request
from translation.conversion.classic_join import ClassicJoins
from translation.conversion.last_consumer_member import has_to_wait_for_others
from translation.conversion.old_membership import leave_consumer_membership
from translation.conversion.pending_switches import request_rejoin
from translation.engine.context import Context
from translation.engine.join_outcomes import (
    Failed,
    Outcome,
    RejectedByNewer,
    refuse_superseded,
    refused,
    restart_session_timer,
    without_member_id,
)
from translation.engine.join_wait import join_wait_limit_s, suspend_join, take_over_waiting_join
from translation.members import generation, rebalance_timeout, session_timeout
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_state import MemberState
from translation.members.procedure import Procedure, UpstreamLost, WakeReason
from translation.membership import static_members
from translation.moving.return_in_place import ReturnInPlace
from translation.policy.client_offer import owns_partitions
from translation.policy.policy import Mode
from translation.upstream.heartbeat_outcome import HeartbeatOutcomes

_TRANSLATE = Mode.TRANSLATE
"""Bound once, for heartbeats: Python 3.11 looks for a member of an enum as long as a message takes to be decoded."""


class Downgrade:
    """Moves translated members back to the classic protocol."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._member_log = context.member_log
        self._rules = context.rules
        self._events = context.events
        self._scheduler = context.scheduler
        self._connections = context.connections
        self._unowned = context.unowned
        self._return_in_place = ReturnInPlace(context)
        self._classic_joins = ClassicJoins(context)
        self._heartbeat_outcomes = HeartbeatOutcomes(context)
        self._context = context

    def why_to_rejoin(self, request: Request) -> ErrorCode | None:
        """The code by which a Heartbeat has its client rejoin, because of what the policy says now, or None.

        * REBALANCE_IN_PROGRESS: a translated member whose group is not translated any more goes back. Its client gives
          up its partitions by its own rules, and its commits count; it goes back by its JoinGroup
          (:mod:`translation.moving.return_in_place`). Not yet if another process may have served it since: that may
          have moved it back already, so the broker is asked first (:meth:`.Adoption.readopt`).
        * REBALANCE_IN_PROGRESS or, if it is cooperative or has not followed for long, UNKNOWN_MEMBER_ID: a classic
          member that was made to rejoin before, because its group has to be empty.
        * UNKNOWN_MEMBER_ID: a translated member that the broker does not let back in place.
        """
        message: HeartbeatRequest = request.message
        group = self._registry.groups.get(message.group_id)
        if group is None:
            return None
        member = group.members.get(message.member_id)
        if member is None or not member.joined:
            move = group.pending_switches.get(message.member_id)
            if move is None:
                return None
            rejoins = move.is_eager and group.migration.moves_all(self._environment.now)
            return ErrorCode.REBALANCE_IN_PROGRESS if rejoins else ErrorCode.UNKNOWN_MEMBER_ID
        if self._rules.rule_for(message.group_id).mode is _TRANSLATE:
            group.pending_switches.pop(member.member_id, None)
            if member.member_id in group.asked_to_rejoin:
                _need_not_go_back(member)
            return None
        if member.deadlines.session_deadline < math.inf:
            session_timeout.renew(member, self._environment.now)
        sole_process = self._environment.settings.sole_process
        if generation.served_elsewhere(member, message.generation_id, sole_process=sole_process):
            return None
        if not self._member_log.may_end(member) or generation.why_refused(member, request) != ErrorCode.NONE:
            return None
        self._unowned.moves_back(message.group_id)
        if member.member_id in group.pending_switches:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.member_id not in group.asked_to_rejoin:
            group.asked_to_rejoin[member.member_id] = self._environment.now
            reason = "asked to rejoin as a classic member"
            self._events.emit_group(EventKind.POLICY_CHANGED, group.group_id, request, reason)
        if member.deadlines.rebalance_deadline == math.inf and member.join.waiting is None:
            rebalance_timeout.start(member, self._environment.now)
            self._environment.book(member)
        return ErrorCode.REBALANCE_IN_PROGRESS

    def back_in_place(self, member: Member, request: Request) -> Procedure[None]:
        """Take a member back at its client's JoinGroup; if the broker refuses that, end its membership and relay it.

        A membership does not end while its client owns partitions: such a client joins again, stays translated by that,
        and gives them up when its Heartbeat is answered UNKNOWN_MEMBER_ID.
        """
        if not member.joined:
            yield from self.back_to_classic(member, request)
            return
        refused_with = yield from self._return_in_place.return_in_place(member, request)
        if refused_with is not None and owns_partitions(request.message):
            reason = f"told to go back to the classic protocol: the broker answered {refused_with.name}"
            request_rejoin(self._environment, self._events, member.group, request, reason)
            not_now = refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id)
            refuse_superseded(self._connections, member)
            self._connections.answer(request, not_now)
            restart_session_timer(self._environment, member)
        elif refused_with is not None:
            yield from self.back_to_classic(member, request)

    def back_to_classic(self, member: Member | None, request: Request) -> Procedure[None]:
        """Relay a JoinGroup of a client that was translated, after its memberships of the new protocol have ended."""
        if member is not None and member.joined and self._connections.is_stale(member, request):
            # That it owns nothing is not true any more: its client has joined again since, and works on partitions.
            self._connections.answer(
                request, refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id)
            )
            return
        left = member is not None and member.joined and member.member_id == request.message.member_id
        if member is not None and any(one.joined for one in _memberships(member, request)):
            try:
                yield from self._leave(member, request)
            except Outcome as outcome:
                outcome.apply(self._context, member, request)
                return
            except UpstreamLost:
                restart_session_timer(self._environment, member)
                refuse_superseded(self._connections, member)  # on other connections, which are still there
                raise
            refuse_superseded(self._connections, member)
        elif member is not None:
            # An older JoinGroup of this client that waits here would begin a membership beside the classic one.
            take_over_waiting_join(self._scheduler, member)
            refuse_superseded(self._connections, member)
        yield from self._classic_joins.relay_classic_join(without_member_id(request) if left else request)

    def _leave(self, member: Member, request: Request) -> Procedure[None]:
        """End the client's memberships, those that it still has when their turn comes.

        :raises Outcome: they could not be ended, or the client has joined again or hung up meanwhile.
        """
        take_over_waiting_join(self._scheduler, member)
        # As in any JoinGroup: while the client waits for the answer, no deadline of its own runs.
        member.deadlines.stop()
        deadline = self._environment.now + join_wait_limit_s(
            self._environment, member.client.rebalance_timeout_ms, member.group
        )
        for one in _memberships(member, request):
            while (yield from has_to_wait_for_others(one, request.connection)):
                if self._environment.now >= deadline:
                    raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "others have partitions to give up")
                # A newer JoinGroup may be that of another process with its instance id, or stay with the new protocol.
                if (
                    yield from suspend_join(
                        member, self._environment.now + self._environment.settings.join_poll_s
                    )
                ) is WakeReason.SUPERSEDED:
                    raise RejectedByNewer("a newer JoinGroup came")
                if not self._connections.is_still_connected(request):
                    raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody waits for it any more")
                if one is member and one.joined:
                    yield from self._heartbeat_outcomes.heartbeat_upstream(one)
            if _is_replaced(one):
                # As a classic member this client would take the place of the translated one that has its instance id
                # now, and make the group a classic one while others have partitions to give up.
                raise Failed(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, "its instance id went to another member meanwhile"
                )
            yield from leave_consumer_membership(self._context, one, "back to the classic protocol")
            static_members.forget_instance(one)
            self._registry.drop_if_idle(one)


def _need_not_go_back(member: Member) -> None:
    """Stop the rebalance timeout of the way back: the group is translated again, and the client may not rejoin."""
    del member.group.asked_to_rejoin[member.member_id]
    if member.state is MemberState.STABLE:
        member.deadlines.rebalance_deadline = math.inf


def _memberships(member: Member, request: Request) -> list[Member]:
    """The memberships of this client: the member whose turn it is, and older ones with its instance id.

    The broker would put the classic client in the place of an older one, and make the group a classic one at once,
    without a rebalance.
    """
    instance_id = request.message.group_instance_id
    if instance_id is None or member.group.static_member(instance_id) is not member:
        return [member]
    return [
        one for one in member.group.members.values() if one is member or one.client.instance_id == instance_id
    ]


def _is_replaced(member: Member) -> bool:
    """Whether another member has the instance id of one whose membership is over."""
    instance_id = member.client.instance_id
    if member.joined or instance_id is None:
        return False
    return member.group.static_member(instance_id) not in (None, member)
