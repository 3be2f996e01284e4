"""SyncGroup (14), v0 to v5: returns a member's assignment; the leader of a classic group sends those of all."""

from coordinator.classic_groups.group import ClassicGroup
from coordinator.classic_groups.sync import sync as sync_classic_group
from coordinator.consumer_groups.classic_members import sync as sync_consumer_group
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from coordinator.share_groups.group import ShareGroup
from protocol_codecs.all_messages import SyncGroupRequest, SyncGroupResponse
from protocol_codecs.error_code import ErrorCode

FIRST_VERSION_WITH_PROTOCOL = 5


def serve(shard: Shard, request: SyncGroupRequest, call: Call) -> SyncGroupResponse | None:
    """Serve the request; return None if it has to wait."""
    try:
        if call.version >= FIRST_VERSION_WITH_PROTOCOL and None in {
            request.protocol_type,
            request.protocol_name,
        }:
            raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no protocol type or name")
        if not request.group_id:
            raise RequestRefused(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        group = shard.groups.get(request.group_id)
        if group is None or isinstance(group, ShareGroup) or group.is_empty:
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"nobody is in group {request.group_id!r}")
        if isinstance(group, ClassicGroup):
            return sync_classic_group(shard, group, request, call)
        return sync_consumer_group(shard, group, request)
    except RequestRefused as refused:
        return SyncGroupResponse(error_code=refused.code)
