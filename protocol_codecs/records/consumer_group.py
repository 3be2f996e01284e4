"""A KIP-848 consumer group in ``__consumer_offsets`` (record types 3 to 8 and 16), as Kafka ships it.

Each fact of the group has its own record, so that a change of one member rewrites only that member:

    3  group epoch                   6  epoch of the target assignment
    5  subscription of a member      7  target assignment of a member
    16 resolved regular expression   8  current assignment of a member

Type 4, the partition metadata, was replaced in Kafka 4.1 by a hash in type 3 (KIP-1101); only its tombstone is
still written.
"""

from protocol_codecs.fields import array, binary, int8, int32, int64, string, struct, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class ConsumerGroupMetadataKey(Message, versions="0"):
    """Identifies the group (type 3)."""

    group_id: str = string()


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch, and a hash of the subscribed topics."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ConsumerGroupPartitionMetadataKey(Message, versions="0"):
    """Identifies the group (type 4)."""

    group_id: str = string()


class ConsumerGroupPartitionMetadataPartition(Message):
    """One partition and the racks of its replicas; not used since Kafka 4.0."""

    partition: int = int32()
    racks: tuple[str, ...] = array(string)


class ConsumerGroupPartitionMetadataTopic(Message):
    """One subscribed topic."""

    topic_id: Uuid = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: tuple[ConsumerGroupPartitionMetadataPartition, ...] = array(
        ConsumerGroupPartitionMetadataPartition
    )


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    """The subscribed topics at the last bump of the group epoch (before Kafka 4.1)."""

    topics: tuple[ConsumerGroupPartitionMetadataTopic, ...] = array(ConsumerGroupPartitionMetadataTopic)


class ConsumerGroupMemberMetadataKey(Message, versions="0"):
    """Identifies group and member (type 5)."""

    group_id: str = string()
    member_id: str = string()


class ConsumerGroupClassicProtocol(Message):
    """An assignor that a classic member of the group offers, with its embedded subscription."""

    name: str = string()
    metadata: bytes = binary()


class ConsumerGroupClassicMemberMetadata(Message):
    """The declarations of a member that still speaks the classic protocol."""

    session_timeout_ms: int = int32()
    supported_protocols: tuple[ConsumerGroupClassicProtocol, ...] = array(ConsumerGroupClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """The declarations of a member: client, subscription, rebalance timeout.

    Kafka's default of the last field is an empty struct: for a member of the new protocol it writes a null.
    """

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: tuple[str, ...] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ConsumerGroupClassicMemberMetadata | None = struct(
        ConsumerGroupClassicMemberMetadata,
        nullable="0+",
        default=ConsumerGroupClassicMemberMetadata(),
        tag=0,
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="0"):
    """Identifies the group (type 6)."""

    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The epoch of the target assignment, and when it was computed (KIP-1263; 0 if that is not known)."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(ignorable=True, tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="0"):
    """Identifies group and member (type 7)."""

    group_id: str = string()
    member_id: str = string()


class ConsumerGroupTargetAssignmentTopicPartition(Message):
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(int32)


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """The target assignment of a member."""

    topic_partitions: tuple[ConsumerGroupTargetAssignmentTopicPartition, ...] = array(
        ConsumerGroupTargetAssignmentTopicPartition
    )


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="0"):
    """Identifies group and member (type 8)."""

    group_id: str = string()
    member_id: str = string()


class ConsumerGroupCurrentMemberAssignmentTopicPartitions(Message):
    """Partitions of one topic, each with the epoch at which the member got it (KIP-1251)."""

    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(int32)
    assignment_epochs: tuple[int, ...] | None = array(int32, nullable="0+", default=None, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """The current assignment of a member.

    State 0 is stable, 1 unrevoked partitions, 2 unreleased partitions.
    """

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: tuple[ConsumerGroupCurrentMemberAssignmentTopicPartitions, ...] = array(
        ConsumerGroupCurrentMemberAssignmentTopicPartitions
    )
    partitions_pending_revocation: tuple[ConsumerGroupCurrentMemberAssignmentTopicPartitions, ...] = array(
        ConsumerGroupCurrentMemberAssignmentTopicPartitions
    )


class ConsumerGroupRegularExpressionKey(Message, versions="0"):
    """Identifies group and regular expression (type 16)."""

    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    """The topics that matched, with the version of the cluster's metadata and the time."""

    topics: tuple[str, ...] = array(string)
    version: int = int64()
    timestamp: int = int64()
