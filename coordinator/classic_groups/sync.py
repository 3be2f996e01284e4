"""SyncGroup to a classic group: the leader sends all assignments, and each member gets its own."""

from coordinator import records
from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.classic_groups.member import EMPTY_ASSIGNMENT
from coordinator.classic_groups.rebalance import hand_out_assignments
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from coordinator.timers import ClassicSync
from protocol_codecs.all_messages import SyncGroupRequest, SyncGroupResponse
from protocol_codecs.error_code import ErrorCode

_S = ClassicGroupState


def sync(
    shard: Shard, group: ClassicGroup, request: SyncGroupRequest, call: Call
) -> SyncGroupResponse | None:
    """Serve a SyncGroup; return None if it has to wait. Raises RequestRefused."""
    if group.state is _S.DEAD:
        raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group has gone to another coordinator")
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise RequestRefused(ErrorCode.ILLEGAL_GENERATION, f"the generation is {group.generation}")
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "not the protocol of the group")
    match group.state:
        case _S.PREPARING_REBALANCE:
            raise RequestRefused(ErrorCode.REBALANCE_IN_PROGRESS, "the next rebalance has begun")
        case _S.COMPLETING_REBALANCE:
            member.awaiting_sync = call.request_id
            _note_synced(shard, group, request.member_id)
            if request.member_id == group.leader_id:
                _assign(shard, group, request)
            return None
        case _:
            _note_synced(shard, group, request.member_id)
            return SyncGroupResponse(
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                assignment=member.assignment,
            )


def _assign(shard: Shard, group: ClassicGroup, request: SyncGroupRequest) -> None:
    """Store the leader's assignment, and answer all waiting SyncGroups."""
    given = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    assignments = {member_id: given.get(member_id, EMPTY_ASSIGNMENT) for member_id in group.members}
    shard.append([records.classic_group(group, assignments)])
    for member in group.members.values():
        member.assignment = assignments[member.member_id]
    hand_out_assignments(shard, group)
    group.transition_to(_S.STABLE, shard.now_ms)
    shard.activity.completed_rebalances += 1


def _note_synced(shard: Shard, group: ClassicGroup, member_id: str) -> None:
    group.pending_syncs.pop(member_id, None)
    if not group.pending_syncs:
        shard.timers.cancel(ClassicSync(group.group_id, generation=0))


def _differs(requested: str | None, actual: str | None) -> bool:
    return requested is not None and actual is not None and requested != actual
