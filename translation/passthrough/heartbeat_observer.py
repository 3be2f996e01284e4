"""Observes members to whom the broker assigns partitions or tasks: follows each by its heartbeats.

Consumers of the new protocol (KIP-848), share consumers (KIP-932) and Streams applications (KIP-1071) each have a
heartbeat of their own, and its rules are the same: member epoch 0 joins, one below 0 leaves, and what has not changed
is left out of request and response. So all of it is here, and one class for each protocol reads its messages.

In a share group nothing is exclusive: members share a partition's records, so an assignment holds from the response on,
without revocations. In a streams group a member has active, standby and warm-up tasks; the broker waits until a member
has given up a task in its role before another one gets it, so all of them are revoked as partitions of consumers are.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from protocol_codecs import ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from protocol_codecs.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from translation.actions import EventKind, MemberProtocol, Request
from translation.members.member_state import MemberEvent, MemberState
from translation.passthrough.observed_member import ObservedMember
from translation.passthrough.observed_members import ObservedMembers
from translation.passthrough.observed_partitions import NOTHING, Owned, in_heartbeat, in_tasks
from translation.passthrough.topic_names import TopicNames


class HeartbeatObserver(ABC):
    """Applies the heartbeats of one protocol to ``members``. ``now`` is in seconds of the caller's clock."""

    protocol: ClassVar[MemberProtocol]
    api_name: ClassVar[str]

    def __init__(self, members: ObservedMembers, topics: TopicNames) -> None:
        self._members = members
        self._topics = topics

    @abstractmethod
    def _reported(self, message: Any) -> Owned | None:
        """Return what a request says that the member has; None if it says nothing of that."""

    @abstractmethod
    def _assigned(self, response: Any) -> Owned | None:
        """Return what a response assigns to the member; None if that has not changed."""

    @abstractmethod
    def _subscribed(self, message: Any, member_id: str) -> None:
        """Learn what the member subscribes to, if the request says so."""

    def heartbeat_forwarded(self, member: ObservedMember, message: Any) -> None:
        """A member says what it owns: what it was to give up and does not name any more it has given up."""
        reported = self._reported(message)
        if reported is None or member.owned is None or member.protocol is not self.protocol:
            return
        given_up = member.owned - reported
        if given_up & member.pending_revocation:
            member.owned -= given_up
            member.pending_revocation -= given_up
            self._members.emit(EventKind.REVOKED, member, partitions=given_up)
        if not member.pending_revocation and member.state is MemberState.PREPARE_REBALANCE:
            self._members.change(
                member, MemberEvent.REVOCATION_ACKNOWLEDGED, "everything asked back was given up"
            )

    def heartbeat_answered(self, now: float, request: Request, response: Any) -> None:
        """The broker answered a heartbeat: with an epoch, perhaps an assignment, or an error."""
        message, members = request.message, self._members
        if response.error_code != ErrorCode.NONE:
            members.call_failed(request, response.error_code, self.api_name)
            return
        member_id = response.member_id or message.member_id
        member = members.by_id.get((message.group_id, member_id))
        if member is not None:
            self.heartbeat_forwarded(member, message)  # if that was not believed when it was sent
        if message.member_epoch < 0:
            if member is not None:
                members.end(member, EventKind.LEFT, f"epoch {message.member_epoch}")
            return
        self._subscribed(message, member_id)
        if member is None or message.member_epoch == 0:
            member = self._new_member(request, member_id, response.member_epoch)
        member.connection_id = request.connection.id
        members.touch(member, now)
        epoch_moved = member.member_epoch != response.member_epoch
        member.member_epoch = member.generation = response.member_epoch
        assigned = self._assigned(response)
        if assigned is not None:
            self._reassigned(member, assigned)
        elif epoch_moved:
            members.emit(EventKind.EPOCH_MOVED, member)

    def _new_member(self, request: Request, member_id: str, epoch: int) -> ObservedMember:
        message, members = request.message, self._members
        instance_id = getattr(message, "instance_id", None)
        members.fence_predecessor(message.group_id, member_id, instance_id)
        member = members.get_or_add(request, member_id, self.protocol)
        member.instance_id = instance_id
        member.rebalance_timeout_ms = getattr(message, "rebalance_timeout_ms", -1)
        member.member_epoch = member.generation = epoch
        if message.member_epoch == 0:
            member.owned = NOTHING
            members.emit(EventKind.JOINED, member)
            members.change(member, MemberEvent.CONSUMER_JOINED, "joined")
        else:
            member.machine.handle(MemberEvent.FIRST_SEEN)
            members.emit(EventKind.ADOPTED, member, reason="first seen at its heartbeat")
        return member

    def _reassigned(self, member: ObservedMember, assigned: Owned) -> None:
        """Give the member what is new, and ask back the rest: it has that until a request no longer names it."""
        members = self._members
        added, member.pending_revocation = member.assign(assigned)
        if added:
            members.emit(EventKind.ASSIGNED, member, partitions=added)
        if member.pending_revocation:
            members.change(member, MemberEvent.ASSIGNMENT_CHANGED, "partitions are to be revoked")
            members.emit(EventKind.REVOKE_REQUESTED, member, partitions=member.pending_revocation)


class ConsumerObserver(HeartbeatObserver):
    """Applies ConsumerGroupHeartbeats."""

    protocol = MemberProtocol.CONSUMER
    api_name = "ConsumerGroupHeartbeat"

    def _reported(self, message: ConsumerGroupHeartbeatRequest) -> Owned | None:
        return None if message.topic_partitions is None else in_heartbeat(message.topic_partitions)

    def _assigned(self, response: ConsumerGroupHeartbeatResponse) -> Owned | None:
        assignment = response.assignment
        return None if assignment is None else in_heartbeat(assignment.topic_partitions)

    def _subscribed(self, message: ConsumerGroupHeartbeatRequest, member_id: str) -> None:
        if message.subscribed_topic_names:
            self._topics.subscribed(message.group_id, member_id, message.subscribed_topic_names)


class ShareObserver(HeartbeatObserver):
    """Applies ShareGroupHeartbeats."""

    protocol = MemberProtocol.SHARE
    api_name = "ShareGroupHeartbeat"

    def _reported(self, message: ShareGroupHeartbeatRequest) -> Owned | None:  # noqa: ARG002
        return None

    def _assigned(self, response: ShareGroupHeartbeatResponse) -> Owned | None:
        assignment = response.assignment
        return None if assignment is None else in_heartbeat(assignment.topic_partitions)

    def _subscribed(self, message: ShareGroupHeartbeatRequest, member_id: str) -> None:
        if message.subscribed_topic_names:
            self._topics.subscribed(message.group_id, member_id, message.subscribed_topic_names)

    def _reassigned(self, member: ObservedMember, assigned: Owned) -> None:
        before = member.owned
        if assigned == before:
            return  # the broker repeats the assignment when the member names its topics again
        member.owned = assigned
        self._members.emit(EventKind.ASSIGNED, member, partitions=assigned - (before or NOTHING))


class StreamsObserver(HeartbeatObserver):
    """Applies StreamsGroupHeartbeats."""

    protocol = MemberProtocol.STREAMS
    api_name = "StreamsGroupHeartbeat"

    def _reported(self, message: StreamsGroupHeartbeatRequest) -> Owned | None:
        return _tasks(message)

    def _assigned(self, response: StreamsGroupHeartbeatResponse) -> Owned | None:
        return _tasks(response)

    def _subscribed(self, message: StreamsGroupHeartbeatRequest, member_id: str) -> None:
        """Tasks need no names of topics."""


def _tasks(message: StreamsGroupHeartbeatRequest | StreamsGroupHeartbeatResponse) -> Owned | None:
    """Return the tasks of all roles; None if nothing has changed. A message names either all roles or none."""
    if message.active_tasks is None:
        return None
    return in_tasks(message.active_tasks, message.standby_tasks or (), message.warmup_tasks or ())
