"""Serves a heartbeat of a share group's member: declare, assign, take over the target (KIP-932)."""

from coordinator.errors import RequestRefused
from coordinator.image import MetadataImage, metadata_hash
from coordinator.modern_group import METADATA_REFRESH_INTERVAL_MS, are_homogeneous, counts_after
from coordinator.partitions import Partitions
from coordinator.shard import Call, Shard
from coordinator.share_groups import initialization, records
from coordinator.share_groups.assigning import Target, target_for
from coordinator.share_groups.group import ShareGroup
from coordinator.share_groups.member import ShareGroupMember
from coordinator.timers import ShareSessionTimeout
from protocol_codecs.all_messages import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponseAssignment,
    ShareGroupHeartbeatResponseTopicPartitions,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord

JOIN_EPOCH = 0
"""The member epoch that says hello."""


def heartbeat(shard: Shard, request: ShareGroupHeartbeatRequest, call: Call) -> ShareGroupHeartbeatResponse:
    """Serve a heartbeat with an epoch of 0 or more. Raises RequestRefused."""
    joins = request.member_epoch == JOIN_EPOCH
    group = _open_group(shard, request.group_id, create=joins)
    member = _member(shard, group, request.member_id, create=joins)
    _check_epoch(member, request.member_epoch)
    change: list[CoordinatorRecord] = []

    # 1. The member's declarations. The group epoch is bumped by a changed subscription, by changed topics, and by
    #    partitions with state that nobody has, unless an assignment is due anyway.
    declared = _declared(member, request, call)
    if declared != member:
        change.append(records.member_subscription(group.group_id, declared))
    bump = declared.subscribed_topic_names != member.subscribed_topic_names
    if group.assignment_epoch >= group.group_epoch:
        bump = bump or group.has_unassigned_state()
    epoch, is_homogeneous, subscribed = group.group_epoch, group.is_homogeneous, group.subscribed_topics
    if bump or group.metadata_expired(shard.now_ms):
        subscribed = counts_after(subscribed, member, declared)
        new_hash = metadata_hash(subscribed, shard.image)
        is_new = member.member_id not in group.members
        is_homogeneous = are_homogeneous({}, subscribed, len(group.members) + is_new)
        bump = bump or new_hash != group.metadata_hash
        if bump:
            epoch += 1
            change.append(records.group_epoch(group.group_id, epoch, new_hash))
            shard.activity.share_group_rebalances += 1
        group.metadata_refresh_deadline_ms = shard.now_ms + METADATA_REFRESH_INTERVAL_MS
        group.metadata_refresh_epoch = epoch

    # 2. The target assignment, if the group epoch is ahead of it.
    target = target_for(shard, group, epoch, declared, change, is_homogeneous=is_homogeneous)

    # 3. The member takes over its target.
    updated = _reconciled(declared, target, shard.image, subscription_changed=bump)
    if updated != declared:
        change.append(records.current_assignment(group.group_id, updated))
    shard.schedule(
        ShareSessionTimeout(request.group_id, request.member_id),
        shard.share_session_timeout_ms(request.group_id),
    )

    # 4. Partitions without state get it, after the answer.
    change += initialization.begin(shard, group, epoch, subscribed)
    shard.apply(change)
    news = joins or request.subscribed_topic_names is not None or updated.assigned != member.assigned
    return ShareGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.member_epoch,
        heartbeat_interval_ms=shard.share_heartbeat_interval_ms(request.group_id),
        assignment=_assignment(updated.assigned) if news else None,
    )


def _open_group(shard: Shard, group_id: str, *, create: bool) -> ShareGroup:
    """Return the group, or a new one that is not in the shard yet. Groups of other types are never converted."""
    if create and group_id not in shard.groups:
        return ShareGroup(group_id)
    return shard.share_group(group_id)


def _member(shard: Shard, group: ShareGroup, member_id: str, *, create: bool) -> ShareGroupMember:
    """Return the member, or a new one. Raises RequestRefused with GROUP_MAX_SIZE_REACHED and UNKNOWN_MEMBER_ID."""
    if member_id not in group.members and len(group.members) >= shard.config.share_max_size:
        raise RequestRefused(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {group.group_id!r} has {len(group.members)} members"
        )
    if create and member_id not in group.members:
        return ShareGroupMember(member_id=member_id)
    return group.member(member_id)


def _check_epoch(member: ShareGroupMember, epoch: int) -> None:
    """Raise RequestRefused with FENCED_MEMBER_EPOCH unless the epoch is 0, the member's, or its previous one."""
    if epoch in {JOIN_EPOCH, member.member_epoch}:
        return
    if epoch == member.previous_member_epoch < member.member_epoch:
        return
    raise RequestRefused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"epoch {epoch} of member {member.member_id!r}, which is at {member.member_epoch}",
    )


def _declared(member: ShareGroupMember, request: ShareGroupHeartbeatRequest, call: Call) -> ShareGroupMember:
    """Return the member with what the request says; null fields stay as they are."""
    names = request.subscribed_topic_names
    return member.replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=call.client_id,
        client_host=call.client_host,
        subscribed_topic_names=member.subscribed_topic_names if names is None else tuple(sorted(set(names))),
    )


def _reconciled(
    member: ShareGroupMember, target: Target, image: MetadataImage, *, subscription_changed: bool
) -> ShareGroupMember:
    """Return the member with its target, as far as it subscribes to it; the same member if it has reached it."""
    if member.member_epoch == target.epoch and not subscription_changed:
        return member
    topics = (image.by_name(name) for name in member.subscribed_topic_names)
    subscribed = {topic.topic_id for topic in topics if topic is not None}
    assigned = {
        topic_id: numbers for topic_id, numbers in target.partitions.items() if topic_id in subscribed
    }
    if member.member_epoch == target.epoch:
        return member.replace(assigned=assigned)
    return member.replace(
        assigned=assigned, member_epoch=target.epoch, previous_member_epoch=member.member_epoch
    )


def _assignment(assigned: Partitions) -> ShareGroupHeartbeatResponseAssignment:
    return ShareGroupHeartbeatResponseAssignment(
        topic_partitions=tuple(
            ShareGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in assigned.items()
        )
    )
