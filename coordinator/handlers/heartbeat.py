"""Heartbeat (12), v0 to v4: renews a classic member's session, and tells it whether it has to rejoin."""

from coordinator.classic_groups.group import ClassicGroup
from coordinator.classic_groups.leave import heartbeat as heartbeat_to_classic_group
from coordinator.consumer_groups.classic_members import heartbeat as heartbeat_to_consumer_group
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from coordinator.share_groups.group import ShareGroup
from protocol_codecs.all_messages import HeartbeatRequest, HeartbeatResponse
from protocol_codecs.error_code import ErrorCode


def serve(shard: Shard, request: HeartbeatRequest, _call: Call) -> HeartbeatResponse:
    """Serve the request."""
    try:
        if not request.group_id:
            raise RequestRefused(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        group = shard.groups.get(request.group_id)
        if group is None or isinstance(group, ShareGroup):
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"nobody is in group {request.group_id!r}")
        if isinstance(group, ClassicGroup):
            return heartbeat_to_classic_group(shard, group, request)
        return heartbeat_to_consumer_group(shard, group, request)
    except RequestRefused as refused:
        return HeartbeatResponse(error_code=refused.code)
