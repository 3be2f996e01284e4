"""LeaveGroup (13), v0 to v5: members leave, or are removed; several at once from v3 on."""

import msgspec

from coordinator.classic_groups.group import ClassicGroup
from coordinator.classic_groups.leave import leave as leave_classic_group
from coordinator.consumer_groups.classic_members import leave as leave_consumer_group
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from coordinator.share_groups.group import ShareGroup
from protocol_codecs.all_messages import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from protocol_codecs.error_code import ErrorCode

FIRST_VERSION_WITH_SEVERAL_MEMBERS = 3


def serve(shard: Shard, request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    """Serve the request."""
    if call.version >= FIRST_VERSION_WITH_SEVERAL_MEMBERS:
        return _leave(shard, request)
    one = (MemberIdentity(member_id=request.member_id),)
    response = _leave(shard, msgspec.structs.replace(request, members=one))
    return LeaveGroupResponse(error_code=response.error_code or response.members[0].error_code)


def _leave(shard: Shard, request: LeaveGroupRequest) -> LeaveGroupResponse:
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    group = shard.groups.get(request.group_id)
    if group is None or isinstance(group, ShareGroup):
        return LeaveGroupResponse(
            members=tuple(
                MemberResponse(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    error_code=ErrorCode.UNKNOWN_MEMBER_ID,
                )
                for member in request.members
            )
        )
    try:
        if isinstance(group, ClassicGroup):
            return leave_classic_group(shard, group, request)
        return leave_consumer_group(shard, group, request)
    except RequestRefused as refused:
        return LeaveGroupResponse(error_code=refused.code)
