"""LeaveGroup and Heartbeat to a classic group."""

from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.classic_groups.rebalance import complete_if_all_joined, expect_heartbeat, prepare_or_complete
from coordinator.classic_groups.waiting import answer_join_with_error
from coordinator.errors import RequestRefused
from coordinator.shard import Shard
from coordinator.timers import ClassicHeartbeat
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from protocol_codecs.error_code import ErrorCode

_S = ClassicGroupState


def heartbeat(shard: Shard, group: ClassicGroup, request: HeartbeatRequest) -> HeartbeatResponse:
    """Serve a Heartbeat. Raises RequestRefused."""
    if group.state is _S.DEAD:
        raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group has gone to another coordinator")
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise RequestRefused(ErrorCode.ILLEGAL_GENERATION, f"the generation is {group.generation}")
    expect_heartbeat(shard, group, member)
    if group.state is _S.PREPARING_REBALANCE:
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatResponse()


def leave(shard: Shard, group: ClassicGroup, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Serve a LeaveGroup of one or several members."""
    if group.state is _S.DEAD:
        raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group has gone to another coordinator")
    responses = []
    for identity in request.members:
        error = ErrorCode.NONE
        try:
            _leave(shard, group, identity)
        except RequestRefused as refused:
            error = refused.code
        responses.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error,
            )
        )
    if any(response.error_code == ErrorCode.NONE for response in responses):
        if group.state in {_S.STABLE, _S.COMPLETING_REBALANCE}:
            prepare_or_complete(shard, group)
        elif group.state is _S.PREPARING_REBALANCE:
            complete_if_all_joined(shard, group)
    return LeaveGroupResponse(members=tuple(responses))


def _leave(shard: Shard, group: ClassicGroup, identity: MemberIdentity) -> None:
    member_id = identity.member_id
    if not member_id:
        # An administrator removes static members by instance id alone.
        instance_id = identity.group_instance_id
        found = None if instance_id is None else group.static_members.get(instance_id)
        if found is None:
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"nobody has instance id {instance_id!r}")
        member_id = found
    elif member_id not in group.pending_joins:
        group.check_member(member_id, identity.group_instance_id)
    member = group.members.get(member_id)
    shard.timers.cancel(ClassicHeartbeat(group.group_id, member_id))
    if member is not None:
        answer_join_with_error(shard, member, ErrorCode.UNKNOWN_MEMBER_ID, member_id="")
    group.remove(member_id)
