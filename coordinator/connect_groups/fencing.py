"""Removes a worker from its group: it leaves, or a timeout has passed. A group without workers ends."""

from coordinator.connect_groups import computing, conversion, records
from coordinator.connect_groups.group import ConnectGroup
from coordinator.connect_groups.shard import ConnectShard
from coordinator.connect_groups.timers import ConnectRebalanceTimeout, ConnectSessionTimeout


def remove(shard: ConnectShard, group: ConnectGroup, member_id: str) -> None:
    """Remove the worker and move the group epoch, or end the group, or make it classic if only such are left."""
    group_id = group.group_id
    if group.members[member_id].classic is None and conversion.downgrades(shard, group, member_id):
        conversion.downgrade(shard, group, member_id)
        computing.keep_up(shard, group_id)
        return
    change = records.member_tombstones(group_id, member_id)
    if len(group.members) == 1:
        change += records.group_tombstones(group_id)
    else:
        change.append(records.group_epoch(group_id, group.group_epoch + 1))
    shard.timers.cancel(ConnectSessionTimeout(group_id, member_id))
    shard.timers.cancel(ConnectRebalanceTimeout(group_id, member_id))
    if member_id in group.expired_computing:
        group.expired_computing.remove(member_id)
    shard.apply(change)
    computing.keep_up(shard, group_id)


def expire(shard: ConnectShard, group_id: str, member_id: str) -> None:
    """Remove a worker whose session has expired, or that did not stop in time, if it still exists."""
    group = shard.groups.get(group_id)
    if group is not None and member_id in group.members:
        shard.counts.fenced += 1
        remove(shard, group, member_id)
