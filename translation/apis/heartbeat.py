"""Heartbeat: becomes one ConsumerGroupHeartbeat in which every field that has not changed is null.

It is answered REBALANCE_IN_PROGRESS exactly if this member's own partitions changed, which
:mod:`translation.upstream.rebalance_detection` decides. Nearly all Heartbeats take the short way of
:mod:`translation.apis.predicted_heartbeat` instead.
"""

import math

from protocol_codecs import ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from translation.actions import ClientCall, EventKind, Request
from translation.engine.context import Context
from translation.joining.adoption import readopt
from translation.joining.resumption import has_stayed
from translation.members import generation, rebalance_timeout, session_timeout
from translation.members.member import Member
from translation.members.member_state import MemberState
from translation.members.procedure import Procedure
from translation.membership import static_members
from translation.moving import downgrade
from translation.upstream.consumer_group_heartbeat import (
    complete_heartbeat,
    keepalive_request,
    send_heartbeat,
)
from translation.upstream.heartbeat_outcome import map_result


def heartbeat(context: Context, member: Member, call: ClientCall) -> Procedure[None]:
    """Translate a Heartbeat. Its membership may have ended while it waited for its turn."""
    request = call.request
    message: HeartbeatRequest = request.message
    generation.learn(member, message.generation_id)
    context.connections.record_call(member, call.connection, message.generation_id)
    if member.generation >= 0:
        session_timeout.renew(member, context.now)
    sole_process = context.settings.sole_process
    stayed: bool | None = True
    if generation.served_elsewhere(member, message.generation_id, sole_process=sole_process):
        stayed = yield from has_stayed(context, member, call)
    if stayed is None:
        context.connections.answer(request, HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    if not stayed:
        readopted = yield from readopt(context, member, call)
        if readopted is None:
            return
        code: int = readopted
        if code == ErrorCode.NONE:
            _start_rebalance_timeout(context, member, request)
            code = ErrorCode.REBALANCE_IN_PROGRESS
        context.connections.answer(request, HeartbeatResponse(error_code=code))
        return
    if not _is_still_connected(context, member, request):
        context.events.emit(EventKind.CALL_REFUSED, member, reason="Heartbeat of a client that has hung up")
        # Nobody reads it; but what the client sent behind, such as LeaveGroup, waits for this answer.
        context.connections.answer(request, HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    code = generation.why_refused(member, request)
    if code != ErrorCode.NONE:
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            code = static_members.membership_error(context, member, message)
        else:
            reason = f"Heartbeat with generation {message.generation_id}"
            context.events.emit(EventKind.CALL_REFUSED, member, reason=reason)
        context.connections.answer(request, HeartbeatResponse(error_code=code))
        return
    # It was not asked for a client that another replica may have served: one that loses each connection would never go.
    code_to_rejoin = downgrade.why_to_rejoin(context, request)
    if code_to_rejoin is not None:
        context.connections.answer(request, HeartbeatResponse(error_code=code_to_rejoin))
        return
    epoch = member.member_epoch
    asked = keepalive_request(context, member, client_is_here=True)
    response = yield from send_heartbeat(context, member, asked)
    yield from conclude(context, member, call, epoch, asked, response)


def conclude(
    context: Context,
    member: Member,
    call: ClientCall,
    epoch: int,
    asked: ConsumerGroupHeartbeatRequest,
    response: ConsumerGroupHeartbeatResponse,
) -> Procedure[None]:
    """Answer the client according to the broker's response. ``epoch`` is the member epoch that was sent with it."""
    response = yield from complete_heartbeat(context, member, asked, response, client_is_here=True)
    code = yield from map_result(context, member, epoch, response)
    if code == ErrorCode.FENCED_MEMBER_EPOCH:
        readopted = yield from readopt(context, member, call)
        if readopted is None:
            return
        code = readopted
    if code == ErrorCode.NONE:
        if member.state is MemberState.PREPARE_REBALANCE:
            _start_rebalance_timeout(context, member, call.request)
            code = ErrorCode.REBALANCE_IN_PROGRESS
    elif code == ErrorCode.UNKNOWN_MEMBER_ID:
        code = static_members.membership_error(context, member, call.request.message)
    context.connections.answer(call.request, HeartbeatResponse(error_code=code))


def _is_still_connected(context: Context, member: Member, request: Request) -> bool:
    """With several proxy processes, whether the client of a Heartbeat is still connected.

    A client that has disconnected may have joined through another process, which gave it partitions that are unknown
    here. A full heartbeat of this process would release them.
    """
    if context.settings.sole_process or member.adopted:  # of an adopted member a heartbeat releases nothing
        return True
    return context.connections.is_still_connected(request)


def _start_rebalance_timeout(context: Context, member: Member, request: Request) -> None:
    """Start the client's time to rejoin when it is told to, and not by a call whose connection has ended meanwhile."""
    is_told = context.connections.is_waiting(request)
    if is_told and member.deadlines.rebalance_deadline == math.inf and member.join.waiting is None:
        rebalance_timeout.start(member, context.now)
        context.book(member)
