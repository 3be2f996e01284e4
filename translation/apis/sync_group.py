"""SyncGroup: answers with the assignment that the broker's last response gave. Clients may repeat it.

Nothing is sent to the broker, unless a topic's name has to be looked up, another process may have served the client, or
the broker waits for partitions that were assigned to the member and withdrawn before its client got them. Then others
wait for them, and the SyncGroup shows that the client is here and does not have them.
"""

import math

from protocol_codecs import ErrorCode
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartition,
    encode_assignment,
)
from protocol_codecs.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from translation.actions import EventKind, Request
from translation.apis.assignment_wait import others_give_up
from translation.engine.context import Context
from translation.joining.adoption import Adoption
from translation.joining.resumption import Resumption
from translation.members import generation, session_timeout
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_state import MemberEvent, MemberState
from translation.members.procedure import Procedure, Wait, WakeReason
from translation.membership import static_members
from translation.partitions import NONE, Partitions, by_name, created_anew, visible_to_client
from translation.upstream.heartbeat_outcome import HeartbeatOutcomes
from translation.upstream.metadata_lookup import learn_topic_names

_TO_JOIN = frozenset({MemberState.PREPARE_REBALANCE, MemberState.ABSENT})
"""The states in which a client has to join first. In ABSENT the broker may have it, but no JoinGroup was answered."""


class SyncGroups:
    """Translates SyncGroups."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._memberships = context.memberships
        self._member_log = context.member_log
        self._events = context.events
        self._scheduler = context.scheduler
        self._connections = context.connections
        self._topic_names = context.topic_names
        self._resumption = Resumption(context)
        self._adoption = Adoption(context)
        self._heartbeat_outcomes = HeartbeatOutcomes(context)

    def sync(self, member: Member, request: Request) -> Procedure[None]:
        """Answer with the newest assignment, which may be newer than the JoinGroup answer.

        A member's procedures run one at a time, so none of its heartbeats is under way, and what the broker answered
        last is what the client gets.
        """
        generation.learn(member, request.message.generation_id)
        self._connections.record_call(member, request.connection, request.message.generation_id)
        code: int = ErrorCode.NONE
        sole_process = self._environment.settings.sole_process
        stayed: bool | None = True
        if generation.served_elsewhere(member, request.message.generation_id, sole_process=sole_process):
            stayed = yield from self._resumption.has_stayed(member, request)
        if stayed is None:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif not stayed:
            readopted = yield from self._adoption.readopt(member, request)
            if readopted is None:
                return
            code = readopted
        if code == ErrorCode.NONE:
            code = self._why_not(member, request)
        if code == ErrorCode.NONE and self._keeps_from_others(member, request):
            yield from self._heartbeat_outcomes.heartbeat_upstream(member, client_is_here=True)
            yield from self._await_what_others_give_up(member)
            # Its membership may have ended. If the broker did not take it, the next Heartbeat tries again.
            code = self._why_not(member, request)
        if code != ErrorCode.NONE:
            if member.generation >= 0:
                session_timeout.renew(member, self._environment.now)
            self._connections.answer(request, SyncGroupResponse(error_code=code))
            return
        yield from learn_topic_names(
            self._environment, self._topic_names, member.partitions.broker_assignment
        )
        session_timeout.renew(member, self._environment.now)
        member.deadlines.rebalance_deadline = math.inf
        self._environment.book(member)
        kept = member.partitions.possibly_owned
        member.partitions.synced_assignment = visible_to_client(
            member.partitions.broker_assignment, self._topic_names, member.client.subscription
        )
        member.partitions.possibly_owned -= created_anew(
            kept, member.partitions.synced_assignment, self._topic_names
        )
        withheld = member.partitions.possibly_owned - member.partitions.synced_assignment
        member.partitions.possibly_owned |= member.partitions.synced_assignment
        if member.partitions.synced_assignment - kept:
            self._events.emit(
                EventKind.ASSIGNED, member, partitions=member.partitions.synced_assignment - kept
            )
        if withheld:
            reason = "it claims partitions that are withheld"
            self._memberships.change_state(member, MemberEvent.SYNC_ANSWERED_WITHHOLDING, reason)
            self._events.emit(EventKind.REVOKE_REQUESTED, member, partitions=withheld)
        else:
            self._memberships.change_state(member, MemberEvent.SYNC_ANSWERED, "SyncGroup answered")
        self._member_log.has_synced(member)
        self._connections.answer(
            request,
            SyncGroupResponse(
                error_code=ErrorCode.NONE,
                protocol_type=member.client.protocol_type,
                protocol_name=member.client.protocol_name,
                assignment=self._embedded(member, member.partitions.synced_assignment),
            ),
        )

    def _keeps_from_others(self, member: Member, request: Request) -> bool:
        """Whether the broker waits for partitions that the client never had, and the client has not hung up since."""
        return not (
            member.partitions.pending_revocation <= member.partitions.possibly_owned
        ) and self._connections.is_still_connected(request)

    def _await_what_others_give_up(self, member: Member) -> Procedure[None]:
        """After an initial rebalance, wait for what others give up with their SyncGroups, so that the client gets it
        now.

        With the last of these, the members whose JoinGroups wait for it are heartbeated.
        """
        waited = False
        while others_give_up(self._environment, member):
            yield Wait(self._environment.now + self._environment.settings.join_poll_s)
            waited = True
        if waited and member.joined:
            yield from self._heartbeat_outcomes.heartbeat_upstream(member)
        for other in list(member.group.members.values()):
            if other.join.waiting is not None:
                self._scheduler.wake(other.join.waiting, WakeReason.TIME)

    def _why_not(self, member: Member, request: Request) -> int:
        """The code that a SyncGroup is refused with; NONE if it is answered with the assignment."""
        message: SyncGroupRequest = request.message
        code = generation.why_refused(member, request)
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            return static_members.membership_error(self._environment, self._registry, member, message)
        if code != ErrorCode.NONE:
            return code
        if member.state in _TO_JOIN:  # if it was adopted, its protocol is not known yet
            return ErrorCode.REBALANCE_IN_PROGRESS
        if message.protocol_type not in (None, member.client.protocol_type):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if message.protocol_name not in (None, member.client.protocol_name):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _embedded(self, member: Member, partitions: Partitions) -> bytes:
        """Encode an assignment in the client's embedded version; an empty one is an empty list, never zero bytes."""
        topics = by_name(partitions, self._topic_names) if partitions is not NONE else {}
        return encode_assignment(
            ConsumerProtocolAssignment(
                assigned_partitions=tuple(
                    ConsumerProtocolTopicPartition(topic=topic, partitions=indexes)
                    for topic, indexes in topics.items()
                )
            ),
            member.client.embedded_version,
        )
