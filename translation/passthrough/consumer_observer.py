"""Observes members that speak the new protocol themselves: follows each by its ConsumerGroupHeartbeats (KIP-848)."""

from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from translation.actions import MemberProtocol
from translation.passthrough.heartbeat_observer import HeartbeatObserver
from translation.passthrough.observed_partitions import Owned, in_heartbeat


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
