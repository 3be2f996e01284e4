"""ConsumerGroupDescribe (69): state and members of consumer groups of the new protocol (KIP-848).

Flexible from the start.

- v1: whether a member speaks the classic or the new protocol (KIP-1099).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int8, int16, int32, string, struct, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class ConsumerGroupDescribeRequest(
    Message, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    """Asks for the state and members of consumer groups."""

    group_ids: tuple[str, ...] = array(string)
    include_authorized_operations: bool = boolean()


class ConsumerGroupDescribeResponseTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: tuple[int, ...] = array(int32)


class ConsumerGroupDescribeResponseAssignment(Message):
    """The partitions that a member owns, or those of its target assignment."""

    topic_partitions: tuple[ConsumerGroupDescribeResponseTopicPartitions, ...] = array(
        ConsumerGroupDescribeResponseTopicPartitions
    )


class ConsumerGroupDescribeResponseMember(Message):
    """One member; member type 0 is classic, 1 is of the new protocol, -1 unknown."""

    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: tuple[str, ...] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: ConsumerGroupDescribeResponseAssignment = struct(ConsumerGroupDescribeResponseAssignment)
    target_assignment: ConsumerGroupDescribeResponseAssignment = struct(
        ConsumerGroupDescribeResponseAssignment
    )
    member_type: int = int8("1+", default=-1, ignorable=True)


class ConsumerGroupDescribeResponseDescribedGroup(Message):
    """One group."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: tuple[ConsumerGroupDescribeResponseMember, ...] = array(ConsumerGroupDescribeResponseMember)
    authorized_operations: int = int32(default=-2147483648)


class ConsumerGroupDescribeResponse(
    Message, api_key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    """The groups that were asked for."""

    throttle_time_ms: int = int32()
    groups: tuple[ConsumerGroupDescribeResponseDescribedGroup, ...] = array(
        ConsumerGroupDescribeResponseDescribedGroup
    )
