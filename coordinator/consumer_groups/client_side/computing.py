"""Chooses the member that computes the assignment, tells it, and takes another when its time is over.

The KIP does not say which member. Here it is the one that computed last, if it still can, so that its assignor knows
what it did; else the one that joined first. One whose time has passed is not chosen again before all others were, so
a member that is dead or stuck costs one timeout.
"""

from msgspec.structs import replace

from coordinator.consumer_groups.client_side.choice import chosen_assignor, offers_of
from coordinator.consumer_groups.client_side.computation import Computation
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import STATIC_LEAVE_EPOCH, ConsumerGroupMember
from coordinator.shard import Shard
from coordinator.timers import ComputationTimeout

LEAST_TIMEOUT_MS = 1_000
"""The shortest turn: a member's rebalance timeout may be 0, and timers must not keep the coordinator busy."""


def keep_up(shard: Shard, group_id: str) -> None:
    """Begin, keep or end the group's computation, as the group is now."""
    group = shard.groups.get(group_id)
    if not shard.config.experimental_client_assignors or not isinstance(group, ConsumerGroup):
        return
    assignor = chosen_assignor(group.members.values())
    if assignor is None or group.assignment_epoch >= group.group_epoch:
        end(shard, group)
        return
    now = group.computation
    if now is not None and now.assignor == assignor and now.member_id in _able(group, assignor):
        return
    end(shard, group)
    _choose(shard, group, assignor)


def tell(shard: Shard, group_id: str, member: ConsumerGroupMember) -> bool:
    """Whether the answer to the member's heartbeat says that it should compute the assignment.

    The rebalance timeout begins when it is told for the first time.
    """
    group = shard.groups.get(group_id)
    computation = group.computation if isinstance(group, ConsumerGroup) else None
    if (
        not isinstance(group, ConsumerGroup)
        or computation is None
        or computation.member_id != member.member_id
    ):
        return False
    if not computation.is_told:
        _start(shard, group, replace(computation, is_told=True), member)
    return True


def end(shard: Shard, group: ConsumerGroup) -> None:
    """End the group's computation, if there is one."""
    if group.computation is not None:
        shard.timers.cancel(ComputationTimeout(group.group_id, computing_member="", attempt=0))
        group.computation = None


def on_timeout(shard: Shard, timer: ComputationTimeout) -> None:
    """Let the next member compute. The former one is not fenced: that is only the session's business."""
    group = shard.groups.get(timer.group_id)
    if not isinstance(group, ConsumerGroup) or group.computation is None:
        return
    expired = group.computation
    if (expired.member_id, expired.attempt) != (timer.computing_member, timer.attempt):
        return
    shard.activity.client_side_timeouts += 1
    tried = [one for one in group.expired_computing if one != expired.member_id]
    group.expired_computing = [*tried, expired.member_id]
    end(shard, group)
    keep_up(shard, timer.group_id)


def _choose(shard: Shard, group: ConsumerGroup, assignor: str) -> None:
    able = _able(group, assignor)
    if not able:
        return  # those who could have left for a while
    tried = group.expired_computing
    if group.last_computing_member in able and group.last_computing_member not in tried:
        member_id = group.last_computing_member
    else:  # who has not tried comes first, then who tried longest ago
        member_id = min(able, key=lambda one: tried.index(one) if one in tried else -1)
    shard.computations_begun += 1
    computation = Computation(member_id=member_id, assignor=assignor, attempt=shard.computations_begun)
    _start(shard, group, computation, group.members[member_id])


def _start(shard: Shard, group: ConsumerGroup, computation: Computation, member: ConsumerGroupMember) -> None:
    """Set the computation, and its deadline. One whose member is never heard of again ends by it, too."""
    group.computation = computation
    timer = ComputationTimeout(group.group_id, computing_member=member.member_id, attempt=computation.attempt)
    shard.schedule(timer, max(member.rebalance_timeout_ms, LEAST_TIMEOUT_MS))


def _able(group: ConsumerGroup, assignor: str) -> list[str]:
    """Return the members that can run the assignor, in the order in which they joined."""
    return [
        member.member_id
        for member in group.members.values()
        if not member.uses_classic_protocol
        and member.member_epoch != STATIC_LEAVE_EPOCH
        and assignor in offers_of(member)
    ]
