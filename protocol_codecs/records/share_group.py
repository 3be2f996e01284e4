"""A KIP-932 share group in ``__consumer_offsets`` (record types 10 to 15), as Kafka ships it since 4.1.

    11 group epoch                   12 epoch of the target assignment
    10 subscription of a member      13 target assignment of a member
    15 share partitions' state       14 current assignment of a member

Types 10 to 14 correspond to a consumer group's (:mod:`consumer_group`). Type 15 says of which partitions the share
coordinator keeps state; only those are assigned. The KIP's text has other fields and numbers; Kafka's are these.
"""

from protocol_codecs.fields import array, int8, int32, int64, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class ShareGroupMemberMetadataKey(Message, versions="0"):
    """Identifies group and member (type 10)."""

    group_id: str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """The declarations of a member: client and subscription."""

    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: tuple[str, ...] = array(string)


class ShareGroupMetadataKey(Message, versions="0"):
    """Identifies the group (type 11)."""

    group_id: str = string()


class ShareGroupMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch, and a hash of the subscribed topics."""

    epoch: int = int32()
    metadata_hash: int = int64()


class ShareGroupTargetAssignmentMetadataKey(Message, versions="0"):
    """Identifies the group (type 12)."""

    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The epoch of the target assignment, and when it was computed (KIP-1263; 0 if that is not known)."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0)


class ShareGroupTargetAssignmentMemberKey(Message, versions="0"):
    """Identifies group and member (type 13)."""

    group_id: str = string()
    member_id: str = string()


class ShareGroupTargetAssignmentTopicPartition(Message):
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(int32)


class ShareGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """The target assignment of a member."""

    topic_partitions: tuple[ShareGroupTargetAssignmentTopicPartition, ...] = array(
        ShareGroupTargetAssignmentTopicPartition
    )


class ShareGroupCurrentMemberAssignmentKey(Message, versions="0"):
    """Identifies group and member (type 14)."""

    group_id: str = string()
    member_id: str = string()


class ShareGroupCurrentMemberAssignmentTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(int32)


class ShareGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """The current assignment of a member. Its state is always 0, stable: share groups revoke nothing."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: tuple[ShareGroupCurrentMemberAssignmentTopicPartitions, ...] = array(
        ShareGroupCurrentMemberAssignmentTopicPartitions
    )


class ShareGroupStatePartitionMetadataKey(Message, versions="0"):
    """Identifies the group (type 15)."""

    group_id: str = string()


class ShareGroupStateTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: tuple[int, ...] = array(int32)


class ShareGroupStateTopic(Message):
    """One topic."""

    topic_id: Uuid = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(Message, versions="0", flexible="0+"):
    """Of which partitions the share coordinator has state, or is about to get or to delete it."""

    initializing_topics: tuple[ShareGroupStateTopicPartitions, ...] = array(ShareGroupStateTopicPartitions)
    initialized_topics: tuple[ShareGroupStateTopicPartitions, ...] = array(ShareGroupStateTopicPartitions)
    deleting_topics: tuple[ShareGroupStateTopic, ...] = array(ShareGroupStateTopic)
