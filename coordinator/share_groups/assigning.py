"""Computes the target assignment of a share group when the group epoch is ahead of it (KIP-932, KIP-1263)."""

import msgspec

from coordinator import java_order
from coordinator.assignors import AssignmentImpossible, GroupSpec, MemberSpec, assign_shared
from coordinator.errors import RequestRefused
from coordinator.partitions import Partitions
from coordinator.shard import Shard
from coordinator.share_groups import records
from coordinator.share_groups.group import ShareGroup, in_order
from coordinator.share_groups.member import ShareGroupMember
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord


class Target(msgspec.Struct, frozen=True):
    """The target of a member: the assignment epoch, and its part of the assignment."""

    epoch: int
    partitions: Partitions


def target_for(
    shard: Shard,
    group: ShareGroup,
    group_epoch: int,
    member: ShareGroupMember,
    change: list[CoordinatorRecord],
    *,
    is_homogeneous: bool,
) -> Target:
    """Return the member's target, computed anew if it is due; its records are added to ``change``.

    Raises RequestRefused with UNKNOWN_SERVER_ERROR where Kafka's assignor fails.
    """
    if group.assignment_epoch >= group_epoch or not _is_time(shard, group):
        return Target(group.assignment_epoch, group.target_assignment.get(member.member_id, {}))
    spec = _group_spec(shard, group, member, is_homogeneous=is_homogeneous)
    try:
        assignment = assign_shared(spec)
    except AssignmentImpossible as error:
        raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    for member_id in spec.members:
        before, after = group.target_assignment.get(member_id), in_order(assignment.get(member_id, {}))
        if before != after:
            change.append(records.target_assignment(group.group_id, member_id, after))
    change.append(records.target_epoch(group.group_id, group_epoch, shard.now_ms))
    return Target(group_epoch, in_order(assignment.get(member.member_id, {})))


def _is_time(shard: Shard, group: ShareGroup) -> bool:
    interval_ms = shard.share_assignment_interval_ms(group.group_id)
    computed_ms = group.assignment_timestamp_ms
    return computed_ms == 0 or interval_ms == 0 or shard.now_ms >= computed_ms + interval_ms


def _group_spec(
    shard: Shard, group: ShareGroup, updated: ShareGroupMember, *, is_homogeneous: bool
) -> GroupSpec:
    """Return the assignor's input, with one member updated."""
    members = group.members_in_order_with(updated)
    specs = {
        member.member_id: _member_spec(shard, member, group.target_assignment.get(member.member_id, {}))
        for member in members
    }
    topic_ids = {topic_id for spec in specs.values() for topic_id in spec.topic_ids}
    topics = [topic for topic_id in topic_ids if (topic := shard.image.by_id(topic_id)) is not None]
    return GroupSpec(
        members={m: specs[m] for m in java_order.hash_order(specs, java_order.text_hash)},
        is_homogeneous=is_homogeneous,
        partition_counts={topic.topic_id: topic.partitions for topic in topics},
        assigned_to={},
        assignable={topic_id: topic.partitions for topic_id, topic in group.initialized.items()},
    )


def _member_spec(shard: Shard, member: ShareGroupMember, assigned: Partitions) -> MemberSpec:
    names = member.subscribed_topic_names
    topics = (shard.image.by_name(name) for name in java_order.text_order(names))
    return MemberSpec(
        None, tuple(topic.topic_id for topic in topics if topic is not None), len(names), assigned
    )
