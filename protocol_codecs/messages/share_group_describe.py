"""ShareGroupDescribe (77): state and members of share groups (KIP-932).

Flexible from the start. v0 was in Kafka 4.0 alone, as a preview, and is not declared.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int16, int32, string, struct, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class ShareGroupDescribeRequest(Message, api_key=ApiKey.SHARE_GROUP_DESCRIBE, versions="1", flexible="0+"):
    """Asks for the state and members of share groups."""

    group_ids: tuple[str, ...] = array(string)
    include_authorized_operations: bool = boolean()


class ShareGroupDescribeResponseTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: tuple[int, ...] = array(int32)


class ShareGroupDescribeResponseAssignment(Message):
    """The partitions that a member may read from; others may have them too."""

    topic_partitions: tuple[ShareGroupDescribeResponseTopicPartitions, ...] = array(
        ShareGroupDescribeResponseTopicPartitions
    )


class ShareGroupDescribeResponseMember(Message):
    """One member."""

    member_id: str = string()
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: tuple[str, ...] = array(string)
    assignment: ShareGroupDescribeResponseAssignment = struct(ShareGroupDescribeResponseAssignment)


class ShareGroupDescribeResponseDescribedGroup(Message):
    """One group."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: tuple[ShareGroupDescribeResponseMember, ...] = array(ShareGroupDescribeResponseMember)
    authorized_operations: int = int32(default=-2147483648)


class ShareGroupDescribeResponse(Message, api_key=ApiKey.SHARE_GROUP_DESCRIBE, versions="1", flexible="0+"):
    """The groups that were asked for."""

    throttle_time_ms: int = int32()
    groups: tuple[ShareGroupDescribeResponseDescribedGroup, ...] = array(
        ShareGroupDescribeResponseDescribedGroup
    )
