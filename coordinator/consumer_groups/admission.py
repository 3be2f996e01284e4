"""Finds the group and the member of a heartbeat or a classic JoinGroup, and checks that the request may proceed."""

from collections.abc import Sequence

from coordinator import records
from coordinator.classic_groups.group import ClassicGroup
from coordinator.consumer_groups.client_side.declarations import NO_DETAILS
from coordinator.consumer_groups.conversion import check_upgrade, upgraded
from coordinator.consumer_groups.draft import Draft
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import STATIC_LEAVE_EPOCH, ConsumerGroupMember
from coordinator.errors import RequestRefused
from coordinator.partitions import TopicPartitionsMessage, is_subset
from coordinator.shard import Shard
from coordinator.share_groups.group import ShareGroup
from protocol_codecs.error_code import ErrorCode

JOIN_EPOCH = 0
"""The member epoch that says hello."""


def open_group(shard: Shard, group_id: str, *, create: bool) -> Draft:
    """Return the group of a heartbeat: an existing one, a new one, or a converted classic one.

    Raises RequestRefused with GROUP_ID_NOT_FOUND.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return Draft(shard, group)
    if not create or isinstance(group, ShareGroup):
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no consumer group {group_id!r}")
    if isinstance(group, ClassicGroup):
        if group.is_empty:
            return Draft(shard, ConsumerGroup(group_id), [records.classic_group_tombstone(group_id)])
        check_upgrade(shard, group)
        return upgraded(shard, group)
    return Draft(shard, ConsumerGroup(group_id))


def check_size(draft: Draft, member_id: str, instance_id: str | None) -> None:
    """Raise RequestRefused with GROUP_MAX_SIZE_REACHED if the group is full and the sender is not a member of it.

    A static member that returns under another id takes its own place (KAFKA-20601; Kafka up to 4.3.1 refuses it).
    """
    group = draft.group
    is_known = member_id in group.members or instance_id in group.static_members
    if not is_known and len(group.members) >= draft.shard.config.consumer_max_size:
        raise RequestRefused(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {group.group_id!r} has {len(group.members)} members"
        )


def dynamic_member(draft: Draft, member_id: str, *, create: bool) -> ConsumerGroupMember:
    """Return the member, or a new one. Raises RequestRefused with UNKNOWN_MEMBER_ID."""
    if create and member_id not in draft.group.members:
        return ConsumerGroupMember(member_id=member_id)
    return draft.group.member(member_id)


def static_member(
    draft: Draft, member_id: str, instance_id: str, *, create: bool, uses_classic_protocol: bool
) -> ConsumerGroupMember:
    """Return the member with this instance id: an existing one, a new one, or one that replaces another.

    To be replaced, a member of the new protocol must have left with epoch -2. Raises RequestRefused with
    UNRELEASED_INSTANCE_ID, UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID.
    """
    existing = draft.group.static_member(instance_id)
    if not create:
        return check_static_member(draft.group, existing, member_id, instance_id)
    if existing is None:
        return draft.group.members.get(member_id) or ConsumerGroupMember(member_id=member_id)
    both_new = not uses_classic_protocol and not existing.uses_classic_protocol
    if both_new and existing.member_epoch != STATIC_LEAVE_EPOCH:
        raise RequestRefused(
            ErrorCode.UNRELEASED_INSTANCE_ID, f"{instance_id!r} is in use by member {existing.member_id!r}"
        )
    replacement = existing.replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    _replace(draft, existing, replacement)
    return replacement


def check_static_member(
    group: ConsumerGroup, existing: ConsumerGroupMember | None, member_id: str, instance_id: str
) -> ConsumerGroupMember:
    """Return the member of the instance id. Raises RequestRefused with UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID."""
    if existing is None:
        raise RequestRefused(
            ErrorCode.UNKNOWN_MEMBER_ID, f"group {group.group_id!r} has no instance id {instance_id!r}"
        )
    if existing.member_id != member_id:
        raise RequestRefused(
            ErrorCode.FENCED_INSTANCE_ID, f"{instance_id!r} belongs to member {existing.member_id!r}"
        )
    return existing


def check_epoch(
    member: ConsumerGroupMember, epoch: int, owned: Sequence[TopicPartitionsMessage] | None
) -> None:
    """Raise RequestRefused with FENCED_MEMBER_EPOCH unless the member's epoch is valid.

    Epoch 0 (rejoin) is valid, and so is the previous epoch if the member owns nothing beyond its assignment: then the
    answer with the newer epoch was lost.
    """
    if epoch in {JOIN_EPOCH, member.member_epoch}:
        return
    if epoch == member.previous_member_epoch < member.member_epoch and is_subset(owned, member.assigned):
        return
    raise RequestRefused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"epoch {epoch} of member {member.member_id!r}, which is at {member.member_epoch}",
    )


def _replace(draft: Draft, old: ConsumerGroupMember, new: ConsumerGroupMember) -> None:
    """Replace a member by another one, which gets its target assignment and its partitions."""
    group_id = draft.group_id
    target = draft.group.target_assignment.get(old.member_id, {})
    details = draft.group.target_details.get(old.member_id, NO_DETAILS)
    draft.records += [
        records.current_assignment_tombstone(group_id, old.member_id),
        records.target_assignment_tombstone(group_id, old.member_id),
        records.member_subscription_tombstone(group_id, old.member_id),
        records.member_subscription(group_id, new),
        records.target_assignment(group_id, new.member_id, target, details),
        records.current_assignment(group_id, new),
    ]
