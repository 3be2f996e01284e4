"""Builds the records of share groups: one function for each of Kafka's record types."""

from coordinator.image import MetadataImage
from coordinator.partitions import Partitions
from coordinator.share_groups.group import PartitionStates, ShareGroup, TopicStates
from coordinator.share_groups.member import STABLE, ShareGroupMember
from protocol_codecs import records as r
from protocol_codecs.records import CoordinatorRecord

UNKNOWN_TOPIC = "<UNKNOWN>"
"""The name of a topic that exists no more."""


def member_subscription(group_id: str, member: ShareGroupMember) -> CoordinatorRecord:
    """Build the record of a member's metadata and subscription (type 10)."""
    return CoordinatorRecord(
        r.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        r.ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=member.subscribed_topic_names,
        ),
    )


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Build the record of the group epoch (type 11)."""
    return CoordinatorRecord(
        r.ShareGroupMetadataKey(group_id=group_id),
        r.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Build the record of the target assignment's epoch and of when it was computed (type 12)."""
    return CoordinatorRecord(
        r.ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        r.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target_assignment(group_id: str, member_id: str, partitions: Partitions) -> CoordinatorRecord:
    """Build the record of a member's target assignment (type 13)."""
    return CoordinatorRecord(
        r.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        r.ShareGroupTargetAssignmentMemberValue(
            topic_partitions=tuple(
                r.ShareGroupTargetAssignmentTopicPartition(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in partitions.items()
            )
        ),
    )


def current_assignment(group_id: str, member: ShareGroupMember) -> CoordinatorRecord:
    """Build the record of a member's current assignment and epochs (type 14)."""
    return CoordinatorRecord(
        r.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        r.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=STABLE,
            assigned_partitions=tuple(
                r.ShareGroupCurrentMemberAssignmentTopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in member.assigned.items()
            ),
        ),
    )


def partition_states(group_id: str, states: PartitionStates, image: MetadataImage) -> CoordinatorRecord:
    """Build the record of the partitions with state (type 15)."""
    return CoordinatorRecord(
        r.ShareGroupStatePartitionMetadataKey(group_id=group_id),
        r.ShareGroupStatePartitionMetadataValue(
            initializing_topics=_topics(states.initializing),
            initialized_topics=_topics(states.initialized),
            deleting_topics=tuple(
                r.ShareGroupStateTopic(
                    topic_id=topic_id, topic_name=UNKNOWN_TOPIC if topic is None else topic.name
                )
                for topic_id, topic in ((topic_id, image.by_id(topic_id)) for topic_id in states.deleting)
            ),
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Build the tombstones of a member: its current assignment, its target, its subscription."""
    return [
        CoordinatorRecord(r.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        CoordinatorRecord(r.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        CoordinatorRecord(r.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group: ShareGroup) -> list[CoordinatorRecord]:
    """Build the tombstones of a group without members, in Kafka's order."""
    return [
        CoordinatorRecord(r.ShareGroupTargetAssignmentMetadataKey(group_id=group.group_id)),
        CoordinatorRecord(r.ShareGroupStatePartitionMetadataKey(group_id=group.group_id)),
        CoordinatorRecord(r.ShareGroupMetadataKey(group_id=group.group_id)),
    ]


def _topics(topics: TopicStates) -> tuple[r.ShareGroupStateTopicPartitions, ...]:
    return tuple(
        r.ShareGroupStateTopicPartitions(
            topic_id=topic_id, topic_name=topic.name, partitions=tuple(sorted(topic.partitions))
        )
        for topic_id, topic in topics.items()
    )
