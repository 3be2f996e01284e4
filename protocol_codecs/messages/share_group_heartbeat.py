"""ShareGroupHeartbeat (76): joins, stays in or leaves a share group (KIP-932).

Member epoch 0 joins, -1 leaves. Flexible from the start. v0 was in Kafka 4.0 alone, as a preview, and is not declared.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, string, struct, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class ShareGroupHeartbeatRequest(Message, api_key=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1", flexible="0+"):
    """Joins, stays in or leaves a group; null fields have not changed since the last heartbeat."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: tuple[str, ...] | None = array(string, nullable="0+", default=None)


class ShareGroupHeartbeatResponseTopicPartitions(Message):
    """Partitions of one topic that the member may read from."""

    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(int32)


class ShareGroupHeartbeatResponseAssignment(Message):
    """All that the member may read from."""

    topic_partitions: tuple[ShareGroupHeartbeatResponseTopicPartitions, ...] = array(
        ShareGroupHeartbeatResponseTopicPartitions
    )


class ShareGroupHeartbeatResponse(Message, api_key=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1", flexible="0+"):
    """The member's epoch, and its assignment if it is new to the member."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ShareGroupHeartbeatResponseAssignment | None = struct(
        ShareGroupHeartbeatResponseAssignment, nullable="0+", default=None
    )
