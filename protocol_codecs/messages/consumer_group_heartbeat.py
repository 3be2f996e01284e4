"""ConsumerGroupHeartbeat (68): the one call of the new consumer protocol (KIP-848).

Member epoch 0 joins, -1 leaves, -2 leaves for a while (static members). Flexible from the start.

- v1: subscription by regular expression; the client makes its own member id (KIP-1082).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, string, struct, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class ConsumerGroupHeartbeatRequestTopicPartitions(Message):
    """Partitions of one topic that the member owns."""

    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(int32)


class ConsumerGroupHeartbeatRequest(
    Message, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    """Joins, stays in or leaves a group; null fields have not changed since the last heartbeat."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: tuple[str, ...] | None = array(string, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...] | None = array(
        ConsumerGroupHeartbeatRequestTopicPartitions, nullable="0+", default=None
    )


class ConsumerGroupHeartbeatResponseTopicPartitions(Message):
    """Partitions of one topic that the member may own."""

    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(int32)


class ConsumerGroupHeartbeatResponseAssignment(Message):
    """All that the member may own."""

    topic_partitions: tuple[ConsumerGroupHeartbeatResponseTopicPartitions, ...] = array(
        ConsumerGroupHeartbeatResponseTopicPartitions
    )


class ConsumerGroupHeartbeatResponse(
    Message, api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    """The member's epoch, and its assignment if it is new to the member."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = struct(
        ConsumerGroupHeartbeatResponseAssignment, nullable="0+", default=None
    )
