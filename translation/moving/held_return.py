"""How long the JoinGroup of a client that goes back to the classic protocol is held until its group is a classic one,
and with which generation it commits meanwhile.

The broker answers the JoinGroup of a member that goes back at once, as long as the group is a consumer group, and has
all members rejoin when its last member of the new protocol leaves (:mod:`translation.conversion.helper`). A client that
was answered twice would stop twice. So the first answer is kept here: Heartbeats of the proxy's own keep the member
alive, and when one is answered REBALANCE_IN_PROGRESS the JoinGroup goes to the broker once more, and waits there for
the others as in any rebalance. If the group stays a consumer group, the client gets the answer that was kept; if its
own assignment has changed there, the newer one.

Meanwhile the broker has the member at the generation of that answer, and its client still has the one before. A
Heartbeat and commits of that one go to the broker with the new one (:func:`with_generation_of_broker`).
"""

from typing import Any

from protocol_codecs import ApiKey, ErrorCode, MalformedMessage
from protocol_codecs.messages.consumer_protocol import decode_assignment
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from translation.actions import Call, Request
from translation.conversion import helper
from translation.conversion.classic_join import send_join
from translation.engine.connections import ClientConnections
from translation.engine.context import Context, replaced
from translation.engine.join_outcomes import refused
from translation.engine.join_wait import join_wait_limit_s, suspend_join
from translation.engine.registry import Registry
from translation.members import generation, rebalance_timeout
from translation.members.conversion import is_helper
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.procedure import Procedure, WakeReason
from translation.policy.policy import Mode

_SYNC_GROUP_VERSION = _HEARTBEAT_VERSION = 3
"""The first versions with an instance id."""

_AFTER_THE_LAST_S = 2.0
"""For so long a JoinGroup is still held when no member of the new protocol of this process is left, nor its helper;
and for as long again while the broker describes the helper of another process, which has not seen the policy's change
as early, or has more members to take back."""


class HeldReturn:
    """Holds the answer to a JoinGroup on the way back."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._rules = context.rules
        self._connections = context.connections

    def hold(
        self,
        member: Member,
        request: Request,
        had: int,
        first: JoinGroupResponse,
    ) -> Procedure[JoinGroupResponse]:
        """Return the answer for a client whose member has become a classic one by the answer ``first``.

        ``had`` is the generation that the client had. ``request`` is its JoinGroup as it came: kafka-go can't read the
        form that consumer groups can read when it leads the classic group.
        """
        message: JoinGroupRequest = request.message
        if first.leader:
            return first  # of a classic group
        limit = self._environment.now + join_wait_limit_s(
            self._environment, rebalance_timeout.of_client_ms(message)
        )
        kept: frozenset[tuple[str, int]] | None = None
        try:
            while True:
                # Else a timer of the broker would remove the member when its group has been converted once more.
                synced: SyncGroupResponse = yield Call(
                    ApiKey.SYNC_GROUP,
                    _SYNC_GROUP_VERSION,
                    SyncGroupRequest(
                        group_id=message.group_id,
                        generation_id=first.generation_id,
                        member_id=first.member_id,
                        group_instance_id=message.group_instance_id,
                    ),
                )
                if synced.error_code != ErrorCode.NONE:
                    return first
                assigned = _partitions(synced)
                if kept not in (None, assigned):
                    return first
                kept = assigned
                member.join.held = had, first.generation_id
                answer = yield from self._until_classic(member, request, first, limit)
                if answer is first or answer.error_code != ErrorCode.NONE or answer.leader:
                    return answer
                first = answer  # the group epoch has moved, as when one of several helpers leaves
        finally:
            member.join.held = None

    def _until_classic(
        self, member: Member, request: Request, first: JoinGroupResponse, limit: float
    ) -> Procedure[JoinGroupResponse]:
        message: JoinGroupRequest = request.message
        heartbeat = HeartbeatRequest(
            group_id=message.group_id,
            generation_id=first.generation_id,
            member_id=first.member_id,
            group_instance_id=message.group_instance_id,
        )
        until = limit
        while self._may_become_classic(member):
            conversion = member.group.conversion
            if until == limit and (conversion is None or conversion.has_left):
                until = min(limit, self._environment.now + _AFTER_THE_LAST_S)
            if self._environment.now >= until:
                if until == limit or not (yield from self._has_helper(request)):
                    break
                until = min(limit, self._environment.now + _AFTER_THE_LAST_S)
            why = yield from suspend_join(
                member, self._environment.now + self._environment.settings.join_poll_s
            )
            if why is not WakeReason.TIME or not self._connections.is_waiting(request):
                return refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            beat: HeartbeatResponse = yield Call(ApiKey.HEARTBEAT, _HEARTBEAT_VERSION, heartbeat)
            if beat.error_code != ErrorCode.NONE:
                return (yield from send_join(self._environment, self._connections, request))
        return first

    def _has_helper(self, request: Request) -> Procedure[bool]:
        """Whether the broker describes a helper in the group: it leaves when all members of its process have gone
        back."""
        connection = self._connections.connection_of(request)
        if connection is None or self._environment.settings.sole_process:
            return False
        described = yield from helper.describe(connection, request.message.group_id)
        return described is not None and any(is_helper(member.member_id) for member in described.members)

    def _may_become_classic(self, member: Member) -> bool:
        """Whether the group is still on its way, as far as is known: no native member stays in it."""
        conversion = member.group.conversion
        is_translated = self._rules.rule_for(member.group.group_id).mode is Mode.TRANSLATE
        return not is_translated and (conversion is None or not conversion.stays)


def _partitions(synced: SyncGroupResponse) -> frozenset[tuple[str, int]]:
    try:
        topics = decode_assignment(synced.assignment)[1].assigned_partitions
    except MalformedMessage:
        return frozenset()
    return frozenset((topic.topic, index) for topic in topics for index in topic.partitions)


def with_generation_of_broker(registry: Registry, request: Request) -> Any:
    """The message of a client whose JoinGroup is held, a Heartbeat or a commit, as the broker takes it; None if its
    generation need not change."""
    message = request.message
    member = registry.find(message.group_id, message.member_id)
    if member is None or member.join.held is None:
        return None
    had, has = member.join.held
    if had == has or generation.in_request(request) != had:
        return None
    field = "generation_id" if request.api_key == ApiKey.HEARTBEAT else "generation_id_or_member_epoch"
    return replaced(message, **{field: has})


def relay_held(connections: ClientConnections, request: Request, message: Any) -> Procedure[None]:
    """Relay a call of a client whose JoinGroup is held, as this message."""
    connections.answer(request, (yield Call(request.api_key, request.version, message)))
