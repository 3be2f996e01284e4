"""The timers of one member of a consumer group."""

from coordinator.shard import Shard
from coordinator.timers import JoinTimeout, RebalanceTimeout, SessionTimeout, SyncTimeout


def cancel_timers(shard: Shard, group_id: str, member_id: str) -> None:
    """Cancel all timers of this member."""
    for timer in (
        SessionTimeout(group_id, member_id),
        RebalanceTimeout(group_id, member_id, member_epoch=0),
        JoinTimeout(group_id, member_id),
        SyncTimeout(group_id, member_id),
    ):
        shard.timers.cancel(timer)
