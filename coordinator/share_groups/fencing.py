"""Removes members from a share group: they leave, or their sessions expire."""

from coordinator.image import metadata_hash
from coordinator.modern_group import counts_after
from coordinator.shard import Shard
from coordinator.share_groups import records
from coordinator.share_groups.group import ShareGroup
from coordinator.share_groups.member import ShareGroupMember
from coordinator.timers import ShareSessionTimeout


def fence(shard: Shard, group: ShareGroup, member: ShareGroupMember) -> None:
    """Remove the member and bump the group epoch."""
    group_id = group.group_id
    topics = counts_after(group.subscribed_topics, member, None)
    epoch = group.group_epoch + 1
    change = [
        *records.member_tombstones(group_id, member.member_id),
        records.group_epoch(group_id, epoch, metadata_hash(topics, shard.image)),
    ]
    if len(group.members) == 1:
        # Nobody is left to wait for an assignment. A time of 0 lets the next member have its assignment at once.
        change.append(records.target_epoch(group_id, epoch, 0))
    shard.timers.cancel(ShareSessionTimeout(group_id, member.member_id))
    shard.apply(change)


def expire(shard: Shard, group_id: str, member_id: str) -> None:
    """Remove a member whose session has expired, if it still exists."""
    group = shard.groups.get(group_id)
    member = group.members.get(member_id) if isinstance(group, ShareGroup) else None
    if isinstance(group, ShareGroup) and member is not None:
        fence(shard, group, member)
