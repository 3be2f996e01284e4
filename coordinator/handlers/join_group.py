"""JoinGroup (11), v0 to v9: joins a classic group, or a consumer group as a classic member."""

import msgspec

from coordinator.classic_groups.join import join as join_classic_group
from coordinator.consumer_groups.classic_members import join as join_consumer_group
from coordinator.consumer_groups.conversion import deletion
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from coordinator.share_groups.group import ShareGroup
from protocol_codecs.all_messages import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.error_code import ErrorCode

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_WITH_NULL_PROTOCOL_NAME = 7


def serve(shard: Shard, request: JoinGroupRequest, call: Call) -> JoinGroupResponse | None:
    """Serve the request; return None if it has to wait."""
    if not request.group_id:
        return JoinGroupResponse(member_id=request.member_id, error_code=ErrorCode.INVALID_GROUP_ID)
    config = shard.config
    if (
        not config.classic_min_session_timeout_ms
        <= request.session_timeout_ms
        <= config.classic_max_session_timeout_ms
    ):
        return JoinGroupResponse(member_id=request.member_id, error_code=ErrorCode.INVALID_SESSION_TIMEOUT)
    if call.version < FIRST_VERSION_WITH_REBALANCE_TIMEOUT:
        request = msgspec.structs.replace(request, rebalance_timeout_ms=request.session_timeout_ms)
    group = shard.groups.get(request.group_id)
    if isinstance(group, ShareGroup):  # even an empty one is never converted
        return JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if isinstance(group, ConsumerGroup) and not group.is_empty:
        try:
            return join_consumer_group(shard, group, request, call)
        except RequestRefused as refused:
            return JoinGroupResponse(error_code=refused.code)
    try:
        if not isinstance(group, ConsumerGroup):
            return join_classic_group(shard, request, call, [])
        if request.member_id:
            # Kafka forgets the empty group here too, if only in memory: its epochs begin anew.
            shard.apply(deletion(group))
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"nobody is in group {request.group_id!r}")
        return join_classic_group(shard, request, call, deletion(group))  # an empty one becomes classic
    except RequestRefused as refused:
        return JoinGroupResponse(member_id=request.member_id, error_code=refused.code)


def in_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Return the answer in this version: without protocol, the name is null from v7 on and empty before."""
    name = response.protocol_name or (None if version >= FIRST_VERSION_WITH_NULL_PROTOCOL_NAME else "")
    if name == response.protocol_name:
        return response
    return msgspec.structs.replace(response, protocol_name=name)
