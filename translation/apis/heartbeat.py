"""Heartbeats: the client's own, and those that the proxy sends for it.

A client's Heartbeat becomes one ConsumerGroupHeartbeat with everything null, and its answer says
REBALANCE_IN_PROGRESS exactly if this member's own partitions changed.
"""

import math
from typing import Any

from protocol_codecs import ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from translation.actions import Answer, Connection, EventKind, Request
from translation.engine.context import Context
from translation.engine.member import Member
from translation.engine.procedure import Procedure, UpstreamLost
from translation.member_state import MemberState
from translation.migration.adoption import readopt
from translation.policy.policy import Mode
from translation.upstream.consumer_group_heartbeat import (
    check_incarnation,
    complete_heartbeat,
    is_unchanged,
    keepalive_request,
    mark_reply_lost,
    record_contact,
    send_heartbeat,
    to_send,
)
from translation.upstream.proxy_heartbeat import map_result

# What each heartbeat is compared with. Bound once: Python 3.11 looks for a member of an enum for as long as a small
# message takes to be decoded.
_NONE = ErrorCode.NONE
_NOTHING_NEW = HeartbeatResponse()
_STABLE = MemberState.STABLE
_TRANSLATE = Mode.TRANSLATE


def heartbeat(context: Context, member: Member, connection: Connection, request: Request) -> Procedure[None]:
    """A Heartbeat of the client. The member was known when it came, and may be gone when its turn comes."""
    message: HeartbeatRequest = request.message
    member.learn_generation(message.generation_id)
    context.connections.record_call(member, connection, message.generation_id)
    if member.generation >= 0:
        member.renew_session(context.now)
    if context.served_elsewhere(member, message.generation_id):
        code: int = yield from readopt(context, member, connection, request)
        if code == ErrorCode.NONE:
            _start_rebalance_timeout(context, member)
            code = ErrorCode.REBALANCE_IN_PROGRESS
        context.answer(request, HeartbeatResponse(error_code=code))
        return
    if not _is_still_connected(context, member, request):
        context.emit(EventKind.CALL_REFUSED, member, reason="Heartbeat of a client that has hung up")
        # Nobody reads it; but what the client sent behind, such as LeaveGroup, waits for this answer.
        context.answer(request, HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    if member.generation < 0:
        context.answer(request, HeartbeatResponse(error_code=context.membership_error(member, message)))
        return
    if message.generation_id != member.generation:
        context.emit(
            EventKind.CALL_REFUSED, member, reason=f"Heartbeat with generation {message.generation_id}"
        )
        context.answer(request, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        return
    epoch = member.member_epoch
    asked = keepalive_request(context, member, client_is_here=True)
    response = yield from send_heartbeat(member, asked)
    yield from _conclude(context, member, connection, request, epoch, asked, response)


def _conclude(
    context: Context,
    member: Member,
    connection: Connection,
    request: Request,
    epoch: int,
    asked: ConsumerGroupHeartbeatRequest,
    response: ConsumerGroupHeartbeatResponse,
) -> Procedure[None]:
    """Answer the client by what the broker said. ``epoch`` is the member's at the time at which it was asked."""
    response = yield from complete_heartbeat(context, member, asked, response, client_is_here=True)
    code = yield from map_result(context, member, epoch, response)
    if code == ErrorCode.FENCED_MEMBER_EPOCH:
        code = yield from readopt(context, member, connection, request)
    if code == ErrorCode.NONE:
        if member.state is MemberState.PREPARE_REBALANCE:
            _start_rebalance_timeout(context, member)
            code = ErrorCode.REBALANCE_IN_PROGRESS
    elif code == ErrorCode.UNKNOWN_MEMBER_ID:
        code = context.membership_error(member, request.message)
    context.answer(request, HeartbeatResponse(error_code=code))


def is_at_rest(context: Context, member: Member, connection: Connection, message: HeartbeatRequest) -> bool:
    """Whether nothing is under way with a member, and nothing in its Heartbeat is news.

    Such a Heartbeat passes every check that comes before the question upstream, and none of them would change anything
    but the time at which its client was heard.
    """
    return (
        member.generation == message.generation_id
        and member.machine.state is _STABLE
        and member.queue.running is None
        and not member.queue.waiting
        and member.connection_id == connection.id
        and not member.may_have_moved
        and not member.group.pending_moves
        and context.rules.rule_for(message.group_id).mode is _TRANSLATE
        and (
            message.group_instance_id is None
            or not context.is_fenced(message.group_id, message.member_id, message.group_instance_id)
        )
        and (context.settings.sole_process or not connection.peer_closed())
    )


class HeartbeatAtRest:
    """The Heartbeat of a member at rest: :func:`heartbeat` without what is known to change nothing."""

    __slots__ = ("_connection", "_context", "_epoch", "_member", "_membership", "asks", "request")

    def __init__(self, context: Context, member: Member, connection: Connection, request: Request) -> None:
        self._context = context
        self._member = member
        self._connection = connection
        self._epoch = member.member_epoch
        self._membership = member.incarnation
        self.request = request
        self.asks = keepalive_request(context, member, client_is_here=True)
        """What it is going to ask the broker."""

    def begin(self) -> None:
        """Ask. The member is still at rest."""
        member = self._member
        member.renew_session(self._context.now)
        self._context.scheduler.start_with(
            to_send(self.asks), self, member.queue, self._connection.id, self.request.client_id
        )

    def __call__(self, answer: Any) -> Procedure[None] | None:
        """See :class:`translation.engine.procedure.ReplyHandler`."""
        context, member = self._context, self._member
        if isinstance(answer, UpstreamLost):
            mark_reply_lost(member, self._membership)
            return None
        response = check_incarnation(member, self._membership, self.asks, answer)
        if is_unchanged(member, response):
            record_contact(context, member, response)
            context.answer(self.request, _NOTHING_NEW)
            return None
        return _conclude(context, member, self._connection, self.request, self._epoch, self.asks, response)

    def foresees(self, answer: Any) -> Answer | None:
        """See :class:`translation.engine.procedure.ReplyHandler`."""
        if (
            self._membership == self._member.incarnation
            and is_unchanged(self._member, answer)
            and self._context.connections.is_waiting(self.request)
        ):
            return Answer(self.request.id, _NOTHING_NEW)
        return None


def _is_still_connected(context: Context, member: Member, request: Request) -> bool:
    """Where other processes may serve a client: has it not hung up before this call of it could count?

    If it has, it may have joined elsewhere, and hold what was never handed out here; a full heartbeat of this process
    would release it.
    """
    if context.settings.sole_process or member.adopted:  # of an adopted member a heartbeat releases nothing
        return True
    return context.connections.is_still_connected(request)


def _start_rebalance_timeout(context: Context, member: Member) -> None:
    if member.rebalance_deadline == math.inf and member.waiting_join is None:
        member.rebalance_deadline = context.now + member.rebalance_timeout_ms / 1000
        context.book(member)
