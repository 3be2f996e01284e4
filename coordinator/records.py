"""Builds the records that the coordinator writes: one function for each of Kafka's record types."""

from collections.abc import Mapping
from typing import TypedDict

from msgspec import structs

from coordinator.classic_groups.group import ClassicGroup
from coordinator.consumer_groups.client_side.declarations import NO_DETAILS, AssignmentDetails
from coordinator.consumer_groups.group import ResolvedRegex
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.errors import BrokenInvariant
from coordinator.offsets import CommittedOffset
from coordinator.partitions import EpochedPartitions, Partitions
from protocol_codecs import experimental as x
from protocol_codecs import records as r
from protocol_codecs.records import CoordinatorRecord

Topics = tuple[r.ConsumerGroupCurrentMemberAssignmentTopicPartitions, ...]


def member_subscription(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    """Build the record of a member's metadata and subscription (type 5)."""
    value = r.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )
    if member.client_assignors:
        assignors = tuple(
            x.MemberClientAssignor(
                name=assignor.name,
                minimum_version=assignor.minimum_version,
                maximum_version=assignor.maximum_version,
                reason=assignor.reason,
                version=assignor.metadata_version,
                metadata=assignor.metadata,
            )
            for assignor in member.client_assignors
        )
        value = x.MemberMetadataWithClientAssignors(**structs.asdict(value), client_assignors=assignors)
    return CoordinatorRecord(
        r.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value
    )


def member_subscription_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Build the tombstone of a removed member's subscription (type 5)."""
    return CoordinatorRecord(r.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Build the record of the group epoch (type 3)."""
    return CoordinatorRecord(
        r.ConsumerGroupMetadataKey(group_id=group_id),
        r.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def group_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """Build the tombstone of a deleted consumer group (type 3)."""
    return CoordinatorRecord(r.ConsumerGroupMetadataKey(group_id=group_id))


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Build the tombstone of the group's topic metadata, which only Kafka 4.0 wrote (type 4)."""
    return CoordinatorRecord(r.ConsumerGroupPartitionMetadataKey(group_id=group_id))


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Build the record of the target assignment's epoch and of when it was computed (type 6)."""
    return CoordinatorRecord(
        r.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        r.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """Build the tombstone of a group's target assignment epoch (type 6)."""
    return CoordinatorRecord(r.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))


def target_assignment(
    group_id: str, member_id: str, partitions: Partitions, details: AssignmentDetails = NO_DETAILS
) -> CoordinatorRecord:
    """Build the record of a member's target assignment (type 7)."""
    value = r.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            r.ConsumerGroupTargetAssignmentTopicPartition(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in partitions.items()
        )
    )
    if details != NO_DETAILS:
        value = x.TargetAssignmentWithDetails(**structs.asdict(value), **_details(details))
    return CoordinatorRecord(
        r.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value
    )


def target_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Build the tombstone of a removed member's target assignment (type 7)."""
    return CoordinatorRecord(r.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def current_assignment(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    """Build the record of a member's current assignment and epochs (type 8)."""
    value = r.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_topics(member.assigned),
        partitions_pending_revocation=_topics(member.pending_revocation),
    )
    if member.details != NO_DETAILS:
        value = x.CurrentAssignmentWithDetails(**structs.asdict(value), **_details(member.details))
    return CoordinatorRecord(
        r.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value
    )


def current_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Build the tombstone of a removed member's current assignment (type 8)."""
    return CoordinatorRecord(
        r.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    )


def resolved_regex(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """Build the record of a regular expression's topics (type 16)."""
    return CoordinatorRecord(
        r.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        r.ConsumerGroupRegularExpressionValue(
            topics=resolved.topics, version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def resolved_regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Build the tombstone of an expression that no member subscribes by any more (type 16)."""
    return CoordinatorRecord(r.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def classic_group(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """Build the record of a classic group with its subscriptions and these assignments (type 2)."""
    members = []
    for member in group.members.values():
        if group.protocol_name is None:
            raise BrokenInvariant(f"group {group.group_id} has members and no protocol")
        members.append(
            r.GroupMetadataMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments[member.member_id],
            )
        )
    return CoordinatorRecord(
        r.GroupMetadataKey(group=group.group_id),
        r.GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol_name,
            leader=group.leader_id,
            current_state_timestamp=group.state_timestamp_ms,
            members=tuple(members),
        ),
    )


def new_classic_group(group: ClassicGroup) -> CoordinatorRecord:
    """Build the record of a classic group without members (type 2)."""
    return CoordinatorRecord(
        r.GroupMetadataKey(group=group.group_id),
        r.GroupMetadataValue(current_state_timestamp=group.state_timestamp_ms, protocol=None, leader=None),
    )


def classic_group_tombstone(group_id: str) -> CoordinatorRecord:
    """Build the tombstone of a deleted classic group (type 2)."""
    return CoordinatorRecord(r.GroupMetadataKey(group=group_id))


def offset_commit(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> CoordinatorRecord:
    """Build the record of a committed offset (type 1)."""
    return CoordinatorRecord(
        r.OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        r.OffsetCommitValue(
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_timestamp_ms,
            expire_timestamp=committed.expire_timestamp_ms,
            topic_id=committed.topic_id,
        ),
    )


def offset_commit_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Build the tombstone of a deleted offset (type 1)."""
    return CoordinatorRecord(r.OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def _topics(partitions: EpochedPartitions) -> Topics:
    return tuple(
        r.ConsumerGroupCurrentMemberAssignmentTopicPartitions(
            topic_id=topic_id, partitions=tuple(epochs), assignment_epochs=tuple(epochs.values())
        )
        for topic_id, epochs in partitions.items()
    )


class _Details(TypedDict):
    error: int
    metadata_version: int
    metadata_bytes: bytes


def _details(details: AssignmentDetails) -> _Details:
    return _Details(
        error=details.error, metadata_version=details.metadata_version, metadata_bytes=details.metadata
    )
