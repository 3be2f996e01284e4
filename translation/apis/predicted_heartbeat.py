"""The short way for a Heartbeat that brings nothing new, as nearly all do: its request to the broker is predictable.

The result is the same as that of :class:`~translation.apis.heartbeat.Heartbeats`. The shell may send the request to the
broker before it hands the Heartbeat over (:meth:`translation.translator.Translator.predict`).
"""

from typing import Any

from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from translation.actions import Answer, Connection, Request
from translation.apis.heartbeat import Heartbeats
from translation.engine.context import Context
from translation.members import session_timeout
from translation.members.member import Member
from translation.members.member_state import MemberState
from translation.members.procedure import Procedure, UpstreamLost
from translation.membership import static_members
from translation.policy.policy import Mode
from translation.upstream.consumer_group_heartbeat import (
    check_incarnation,
    is_unchanged,
    keepalive_request,
    mark_reply_lost,
    record_contact,
    to_send,
)

# Bound once: Python 3.11 looks for a member of an enum for as long as a small message takes to be decoded.
_NOTHING_NEW = HeartbeatResponse()
_STABLE = MemberState.STABLE
_TRANSLATE = Mode.TRANSLATE


def is_predictable(
    context: Context, member: Member, connection: Connection, message: HeartbeatRequest
) -> bool:
    """Whether the member has no procedure under way, and its Heartbeat says nothing new.

    Such a Heartbeat passes every check that comes before the request to the broker, and no check changes anything but
    the client's session deadline. Nor is the broker asked about the group's wave with it.
    """
    rule = context.rules.rule_for(message.group_id)
    return (
        member.generation == message.generation_id
        and member.machine.state is _STABLE
        and member.queue.running is None
        and not member.queue.waiting
        and not member.queue.beside
        and member.connection_id == connection.id
        and not member.may_have_moved
        and not member.group.pending_switches
        and message.member_id not in member.group.asked_to_rejoin
        and rule.mode is _TRANSLATE
        and (rule.wave is None or not context.moves.is_wave_check_due(message.group_id, rule))
        and (
            message.group_instance_id is None
            or not static_members.is_fenced(
                context, context.registry, message.group_id, message.member_id, message.group_instance_id
            )
        )
        and (
            context.settings.sole_process
            or (not connection.peer_closed() and context.member_log.serves(member, connection.id))
        )
    )


class PredictedHeartbeat:
    """One Heartbeat on the short way."""

    __slots__ = ("_context", "_epoch", "_heartbeats", "_member", "_membership", "request", "upstream_request")

    def __init__(self, context: Context, heartbeats: Heartbeats, member: Member, request: Request) -> None:
        self._context = context
        self._heartbeats = heartbeats
        self._member = member
        self._epoch = member.member_epoch
        self._membership = member.incarnation
        self.request = request
        self.upstream_request = keepalive_request(context, context.member_log, member, client_is_here=True)
        """The heartbeat that the broker gets."""

    def begin(self) -> None:
        """Send the heartbeat. The member still has no procedure under way."""
        context, member, request = self._context, self._member, self.request
        session_timeout.renew(member, context.now)
        member.broker.sent_at = context.now
        if not context.settings.sole_process:
            context.member_log.heard(member, request.connection.id)
        context.scheduler.start_with(
            to_send(self.upstream_request), self, member.queue, request.connection.id, request.client_id
        )

    def __call__(self, answer: Any) -> Procedure[None] | None:
        """See :class:`translation.members.procedure.ReplyHandler`."""
        context, member = self._context, self._member
        if isinstance(answer, UpstreamLost):
            mark_reply_lost(member, self._membership)
            return None
        response = check_incarnation(member, self._membership, self.upstream_request, answer)
        if is_unchanged(member, response):
            reported = self.upstream_request.topic_partitions is not None
            record_contact(context, context.reach, member, response, reported=reported)
            context.connections.answer(self.request, _NOTHING_NEW)
            return None
        return self._heartbeats.conclude(member, self.request, self._epoch, self.upstream_request, response)

    def answer_to(self, reply: Any) -> Answer | None:
        """The client's answer, if this response of the broker is certain to give it; else None. Changes nothing."""
        if (
            self._membership == self._member.incarnation
            and is_unchanged(self._member, reply)
            and self._context.connections.is_waiting(self.request)
        ):
            return Answer(self.request.id, _NOTHING_NEW)
        return None
