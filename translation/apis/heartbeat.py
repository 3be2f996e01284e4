"""Heartbeat: becomes one ConsumerGroupHeartbeat in which every field that has not changed is null; when it is
answered REBALANCE_IN_PROGRESS.

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
from translation.actions import EventKind, Request
from translation.engine.context import Context
from translation.joining.adoption import Adoption
from translation.joining.resumption import Resumption
from translation.members import generation, rebalance_timeout, session_timeout
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_state import MemberState
from translation.members.procedure import Procedure
from translation.membership import static_members
from translation.moving.downgrade import Downgrade
from translation.upstream.consumer_group_heartbeat import (
    UpstreamHeartbeats,
    keepalive_request,
    send_heartbeat,
)
from translation.upstream.heartbeat_outcome import HeartbeatOutcomes


class Heartbeats:
    """Translates Heartbeats."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._member_log = context.member_log
        self._events = context.events
        self._connections = context.connections
        self._resumption = Resumption(context)
        self._adoption = Adoption(context)
        self._downgrade = Downgrade(context)
        self._upstream_heartbeats = UpstreamHeartbeats(context)
        self._heartbeat_outcomes = HeartbeatOutcomes(context)

    def heartbeat(self, member: Member, request: Request) -> Procedure[None]:
        """Translate a Heartbeat. Its membership may have ended while it waited for its turn."""
        message: HeartbeatRequest = request.message
        generation.learn(member, message.generation_id)
        self._connections.record_call(member, request.connection, message.generation_id)
        if member.generation >= 0:
            session_timeout.renew(member, self._environment.now)
        sole_process = self._environment.settings.sole_process
        stayed: bool | None = True
        if generation.served_elsewhere(member, message.generation_id, sole_process=sole_process):
            stayed = yield from self._resumption.has_stayed(member, request)
        if stayed is None:
            self._connections.answer(
                request, HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            )
            return
        if not stayed:
            readopted = yield from self._adoption.readopt(member, request)
            if readopted is None:
                return
            code: int = readopted
            if code == ErrorCode.NONE:
                self._start_rebalance_timeout(member, request)
                code = ErrorCode.REBALANCE_IN_PROGRESS
            self._connections.answer(request, HeartbeatResponse(error_code=code))
            return
        if not self._is_still_connected(member, request):
            self._events.emit(EventKind.CALL_REFUSED, member, reason="Heartbeat of a client that has hung up")
            # Nobody reads it; but what the client sent behind, such as LeaveGroup, waits for this answer.
            self._connections.answer(
                request, HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            )
            return
        code = generation.why_refused(member, request)
        if code != ErrorCode.NONE:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                code = static_members.membership_error(self._environment, self._registry, member, message)
            else:
                reason = f"Heartbeat with generation {message.generation_id}"
                self._events.emit(EventKind.CALL_REFUSED, member, reason=reason)
            self._connections.answer(request, HeartbeatResponse(error_code=code))
            return
        # It was not asked for a client that another replica may have served: one that loses each connection would never
        # go.
        code_to_rejoin = self._downgrade.why_to_rejoin(request)
        if code_to_rejoin is not None:
            self._connections.answer(request, HeartbeatResponse(error_code=code_to_rejoin))
            return
        epoch = member.member_epoch
        asked = keepalive_request(self._environment, self._member_log, member, client_is_here=True)
        response = yield from send_heartbeat(self._environment, self._member_log, member, asked)
        yield from self.conclude(member, request, epoch, asked, response)

    def conclude(
        self,
        member: Member,
        request: Request,
        epoch: int,
        asked: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
    ) -> Procedure[None]:
        """Answer the client according to the broker's response. ``epoch`` is the member epoch that was sent with it."""
        response = yield from self._upstream_heartbeats.complete_heartbeat(
            member, asked, response, client_is_here=True
        )
        code = yield from self._heartbeat_outcomes.map_result(member, epoch, response)
        if code == ErrorCode.FENCED_MEMBER_EPOCH:
            readopted = yield from self._adoption.readopt(member, request)
            if readopted is None:
                return
            code = readopted
        if code == ErrorCode.NONE:
            if member.state is MemberState.PREPARE_REBALANCE:
                self._start_rebalance_timeout(member, request)
                code = ErrorCode.REBALANCE_IN_PROGRESS
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            code = static_members.membership_error(self._environment, self._registry, member, request.message)
        self._connections.answer(request, HeartbeatResponse(error_code=code))

    def _is_still_connected(self, member: Member, request: Request) -> bool:
        """With several proxy processes, whether the client of a Heartbeat is still connected.

        A client that has disconnected may have joined through another process, which gave it partitions that are
        unknown here. A full heartbeat of this process would release them.
        """
        # Of an adopted member a heartbeat releases nothing.
        if self._environment.settings.sole_process or member.adopted:
            return True
        return self._connections.is_still_connected(request)

    def _start_rebalance_timeout(self, member: Member, request: Request) -> None:
        """Start the client's time to rejoin when it is told to, and not by a call whose connection has ended
        meanwhile."""
        is_told = self._connections.is_waiting(request)
        if is_told and member.deadlines.rebalance_deadline == math.inf and member.join.waiting is None:
            rebalance_timeout.start(member, self._environment.now)
            self._environment.book(member)
