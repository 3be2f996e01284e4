"""Moves a client back to the classic protocol: its Heartbeat tells it to rejoin, its JoinGroup ends its membership."""

import math

from protocol_codecs import ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from translation import generation, session_timeout, static_members
from translation.actions import Connection, Request
from translation.engine.context import Context
from translation.engine.join_outcomes import (
    Failed,
    Outcome,
    RejectedByNewer,
    refuse_superseded,
    refused,
    restart_session_timer,
)
from translation.engine.join_wait import join_wait_limit_s, suspend_join, take_over_waiting_join
from translation.engine.member import Member
from translation.engine.procedure import Procedure, UpstreamLost, WakeReason
from translation.migration.classic_join import relay_classic_join
from translation.migration.last_consumer_member import has_to_wait_for_others
from translation.migration.old_membership import end_old_classic_membership, leave_consumer_membership
from translation.migration.pending_moves import request_rejoin
from translation.policy.policy import Mode
from translation.upstream.heartbeat_outcome import heartbeat_upstream

_TRANSLATE = Mode.TRANSLATE
"""Bound once, for heartbeats: Python 3.11 looks for a member of an enum as long as a message takes to be decoded."""


def has_to_move_back(context: Context, connection: Connection, request: Request) -> bool:
    """Whether a Heartbeat has to tell its client to rejoin as a classic member: its group is not translated any more.

    Members are moved back one after another, with the pause of the rule between them. A member that was told so before
    is told again; one whose group is translated again is not. Nor is one yet that another process may have served
    since: that process may have moved it already, so the broker is asked first (:func:`.adoption.readopt`).
    """
    message: HeartbeatRequest = request.message
    group = context.registry.groups.get(message.group_id)
    if group is None:
        return False
    member = group.members.get(message.member_id)
    if member is not None and member.deadlines.session_deadline < math.inf:
        session_timeout.renew(member, context.now)  # what it holds stays its own until it joins anew
    rule = context.rules.rule_for(message.group_id)
    translated = rule.mode is _TRANSLATE
    if translated and group.pending_moves and member is not None and member.joined:
        move = group.pending_moves.get(message.member_id)
        # It was to go back, and is not any more. Who else may read the group does not say so for it.
        if move is not None and (move.client_id, move.client_host) == (
            request.client_id,
            connection.client_host,
        ):
            del group.pending_moves[message.member_id]
    if message.member_id in group.pending_moves:
        return True
    if translated or member is None or not member.joined:
        return False
    sole_process = context.settings.sole_process
    if generation.served_elsewhere(member, message.generation_id, sole_process=sole_process):
        return False
    if not group.migration.may_move(context.now) or not context.fleet.may_end(member):
        return False
    context.mends.moves_back(message.group_id)
    request_rejoin(context, group, connection, request, rule, "told to go back to the classic protocol")
    return True


def back_to_classic(
    context: Context, member: Member | None, connection: Connection, request: Request
) -> Procedure[None]:
    """Relay a JoinGroup of a client that was translated, after its memberships of the new protocol have ended."""
    if member is not None and member.joined and context.connections.is_stale(member, connection, request):
        # That it owns nothing is not true any more: its client has joined again since, and works on partitions.
        context.answer(request, refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id))
        return
    if member is not None and any(one.joined for one in _memberships(member, request)):
        try:
            yield from _leave(context, member, connection, request)
        except Outcome as outcome:
            outcome.apply(context, member, request)
            return
        except UpstreamLost:
            restart_session_timer(context, member)
            refuse_superseded(context, member)  # on other connections, which are still there
            raise
        refuse_superseded(context, member)
    elif member is not None:
        # An older JoinGroup of this client that waits here would begin a membership beside the classic one.
        take_over_waiting_join(context, member)
        refuse_superseded(context, member)
    yield from relay_classic_join(context, request)


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


def _leave(context: Context, member: Member, connection: Connection, request: Request) -> Procedure[None]:
    """End the client's memberships, those that it still has when their turn comes.

    :raises Outcome: they could not be ended, or the client has joined again or hung up meanwhile.
    """
    take_over_waiting_join(context, member)
    # As in any JoinGroup: while the client waits for the answer, no deadline of its own runs.
    member.deadlines.stop()
    deadline = context.now + join_wait_limit_s(context, member)
    yield from end_old_classic_membership(member)
    for one in _memberships(member, request):
        while (yield from has_to_wait_for_others(one, connection)):
            if context.now >= deadline:
                raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "others have partitions to give up")
            # A newer JoinGroup may be that of another process with its instance id, or stay with the new protocol.
            if (
                yield from suspend_join(member, context.now + context.settings.join_poll_s)
            ) is WakeReason.SUPERSEDED:
                raise RejectedByNewer("a newer JoinGroup came")
            if not context.connections.is_still_connected(request):
                raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody waits for it any more")
            if one is member and one.joined:
                yield from heartbeat_upstream(context, one)
        if _is_replaced(one):
            # As a classic member this client would take the place of the translated one that has its instance id now,
            # and make the group a classic one while others have partitions to give up.
            raise Failed(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "its instance id went to another member meanwhile"
            )
        yield from leave_consumer_membership(context, one, "back to the classic protocol")
        static_members.forget_instance(one)
        context.registry.drop_if_idle(one)
