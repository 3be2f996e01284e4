"""Observes members that speak the new protocol themselves: follows each by its ConsumerGroupHeartbeats (KIP-848)."""

from protocol_codecs import ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
)
from translation.actions import Connection, EventKind, MemberProtocol, Request
from translation.member_state import MemberEvent, MemberState
from translation.passthrough.observed_member import ObservedMember
from translation.passthrough.observed_members import ObservedMembers
from translation.passthrough.observed_partitions import NOTHING, in_heartbeat
from translation.passthrough.topic_names import TopicNames


class ConsumerObserver:
    """Applies ConsumerGroupHeartbeats to ``members``. ``now`` is in seconds of the caller's clock."""

    def __init__(self, members: ObservedMembers, topics: TopicNames) -> None:
        self._members = members
        self._topics = topics

    def heartbeat_forwarded(self, member: ObservedMember, message: ConsumerGroupHeartbeatRequest) -> None:
        """A member says what it owns: what it was to give up and does not name any more it has given up."""
        if message.topic_partitions is None or member.owned is None:
            return
        given_up = member.owned - in_heartbeat(message.topic_partitions)
        if given_up & member.pending_revocation:
            member.owned -= given_up
            member.pending_revocation -= given_up
            self._members.emit(EventKind.REVOKED, member, partitions=given_up)
        if not member.pending_revocation and member.state is MemberState.PREPARE_REBALANCE:
            self._members.change(
                member, MemberEvent.REVOCATION_ACKNOWLEDGED, "everything asked back was given up"
            )

    def heartbeat_answered(
        self, now: float, connection: Connection, request: Request, response: ConsumerGroupHeartbeatResponse
    ) -> None:
        """The broker answered a ConsumerGroupHeartbeat: with an epoch, perhaps an assignment, or an error."""
        message: ConsumerGroupHeartbeatRequest = request.message
        members = self._members
        if response.error_code != ErrorCode.NONE:
            members.call_failed(connection, request, response.error_code, "ConsumerGroupHeartbeat")
            return
        member_id = response.member_id or message.member_id
        member = members.by_id.get((message.group_id, member_id))
        if member is not None:
            self.heartbeat_forwarded(member, message)  # if that was not believed when it was sent
        if message.member_epoch < 0:
            if member is not None:
                members.end(member, EventKind.LEFT, f"epoch {message.member_epoch}")
            return
        if message.subscribed_topic_names:
            self._topics.subscribed(message.group_id, member_id, message.subscribed_topic_names)
        if member is None or message.member_epoch == 0:
            member = self._new_member(connection, request, member_id, response.member_epoch)
        member.connection_id = connection.id
        member.touch(now)
        epoch_moved = member.member_epoch != response.member_epoch
        member.member_epoch = member.generation = response.member_epoch
        if response.assignment is not None:
            self._reassigned(member, response.assignment)
        elif epoch_moved:
            members.emit(EventKind.EPOCH_MOVED, member)

    def _new_member(
        self, connection: Connection, request: Request, member_id: str, epoch: int
    ) -> ObservedMember:
        message: ConsumerGroupHeartbeatRequest = request.message
        members = self._members
        members.fence_predecessor(message.group_id, member_id, message.instance_id)
        member = members.get_or_add(connection, request, member_id, MemberProtocol.CONSUMER)
        member.instance_id = message.instance_id
        member.rebalance_timeout_ms = message.rebalance_timeout_ms
        member.member_epoch = member.generation = epoch
        if message.member_epoch == 0:
            member.owned = NOTHING
            members.emit(EventKind.JOINED, member)
            members.change(member, MemberEvent.CONSUMER_JOINED, "joined")
        else:
            member.machine.handle(MemberEvent.FIRST_SEEN)
            members.emit(EventKind.ADOPTED, member, reason="first seen at its heartbeat")
        return member

    def _reassigned(
        self, member: ObservedMember, assignment: ConsumerGroupHeartbeatResponseAssignment
    ) -> None:
        members = self._members
        added, member.pending_revocation = member.assign(in_heartbeat(assignment.topic_partitions))
        if added:
            members.emit(EventKind.ASSIGNED, member, partitions=added)
        if member.pending_revocation:
            members.change(member, MemberEvent.ASSIGNMENT_CHANGED, "partitions are to be revoked")
            members.emit(EventKind.REVOKE_REQUESTED, member, partitions=member.pending_revocation)
