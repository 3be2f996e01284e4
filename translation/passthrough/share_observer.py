"""Observes the members of share groups: follows each by its ShareGroupHeartbeats (KIP-932).

A partition is assigned to several members at once, which share its records. So nothing is exclusive here, and nobody
waits until a member has given something up: an assignment holds from the response on, and there are no revocations.
"""

from protocol_codecs.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from translation.actions import EventKind, MemberProtocol
from translation.passthrough.heartbeat_observer import HeartbeatObserver
from translation.passthrough.observed_member import ObservedMember
from translation.passthrough.observed_partitions import NOTHING, Owned, in_heartbeat


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
