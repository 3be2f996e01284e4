"""Chooses the worker that computes the assignment, tells it, and takes another when its time is over.

The KIP does not say which member. Here it is the one that computed last, if it still can, so that its assignor knows
what it did; else the one that joined first of those that have read furthest, of either protocol. One whose time has
passed is not chosen again before all others were, so a worker that is dead or stuck costs one rebalance timeout.
"""

from msgspec.structs import replace

from coordinator.connect_groups.choice import chosen_assignor
from coordinator.connect_groups.computation import Computation
from coordinator.connect_groups.group import ConnectGroup
from coordinator.connect_groups.shard import ConnectShard
from coordinator.connect_groups.timers import ConnectComputationTimeout


def keep_up(shard: ConnectShard, group_id: str) -> None:
    """Begin, keep or end the group's computation, as the group is now."""
    group = shard.groups.get(group_id)
    if group is None:
        shard.timers.cancel(_timer(group_id, "", 0))
        return
    assignor = chosen_assignor(group.members.values())
    if assignor is None or group.assignment_epoch >= group.group_epoch:
        end(shard, group)
        return
    now = group.computation
    if now is not None and now.assignor == assignor and now.member_id in group.members:
        return
    end(shard, group)
    shard.computations_begun += 1
    _start(
        shard,
        group,
        Computation(member_id=_next(group), assignor=assignor, attempt=shard.computations_begun),
    )


def tell(shard: ConnectShard, group: ConnectGroup, member_id: str) -> bool:
    """Whether the answer to the worker's heartbeat says that it should compute the assignment.

    The rebalance timeout begins when it is told for the first time.
    """
    computation = group.computation
    if computation is None or computation.member_id != member_id:
        return False
    if not computation.is_told:
        _start(shard, group, replace(computation, is_told=True))
    return True


def end(shard: ConnectShard, group: ConnectGroup) -> None:
    """End the group's computation, if there is one."""
    if group.computation is not None:
        shard.timers.cancel(_timer(group.group_id, "", 0))
        group.computation = None


def on_timeout(shard: ConnectShard, timer: ConnectComputationTimeout) -> None:
    """Let the next worker compute. The former one is not fenced: that is only the session's business."""
    group = shard.groups.get(timer.group_id)
    now = None if group is None else group.computation
    if (
        group is None
        or now is None
        or (now.member_id, now.attempt) != (timer.computing_member, timer.attempt)
    ):
        return
    shard.counts.computation_timeouts += 1
    group.expired_computing.append(now.member_id)
    end(shard, group)
    keep_up(shard, timer.group_id)


def _next(group: ConnectGroup) -> str:
    """Return the worker whose turn it is, of a group with workers."""
    rested = [member_id for member_id in group.members if member_id not in group.expired_computing]
    if not rested:
        latest = group.expired_computing[-1]
        group.expired_computing = [latest] if len(group.members) > 1 else []
        rested = [member_id for member_id in group.members if member_id not in group.expired_computing]
    if group.leader.member_id in rested:
        return group.leader.member_id
    return max(rested, key=lambda member_id: group.members[member_id].config_offset)


def _start(shard: ConnectShard, group: ConnectGroup, computation: Computation) -> None:
    """Set the computation, and its deadline. One whose worker is never heard of again ends by it, too."""
    group.computation = computation
    member_id = computation.member_id
    shard.schedule(
        _timer(group.group_id, member_id, computation.attempt),
        max(group.members[member_id].rebalance_timeout_ms, shard.settings.min_computation_timeout_ms),
    )


def _timer(group_id: str, member_id: str, attempt: int) -> ConnectComputationTimeout:
    return ConnectComputationTimeout(group_id, computing_member=member_id, attempt=attempt)
