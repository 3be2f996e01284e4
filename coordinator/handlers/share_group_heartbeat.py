"""ShareGroupHeartbeat (76), v1: a member of a share group joins, stays, or leaves.

The checks come in Kafka's order. Epochs: 0 joins, -1 leaves.
"""

from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from coordinator.share_groups import fencing
from coordinator.share_groups.heartbeat import JOIN_EPOCH, heartbeat
from protocol_codecs.all_messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from protocol_codecs.error_code import ErrorCode

LEAVE_EPOCH = -1
MAX_MEMBER_ID = 36
"""The longest member id, in characters: that of a UUID with hyphens."""


def serve(shard: Shard, request: ShareGroupHeartbeatRequest, call: Call) -> ShareGroupHeartbeatResponse:
    """Serve the request."""
    try:
        check(request)
        if request.member_epoch == LEAVE_EPOCH:
            group = shard.share_group(request.group_id)
            fencing.fence(shard, group, group.member(request.member_id))
            return ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        return heartbeat(shard, request, call)
    except RequestRefused as refused:
        return ShareGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message)


def check(request: ShareGroupHeartbeatRequest) -> None:
    """Raise RequestRefused unless the request is valid by itself."""
    if not 0 < len(request.member_id) <= MAX_MEMBER_ID:
        raise _invalid(f"a member id has 1 to {MAX_MEMBER_ID} characters, not {len(request.member_id)}")
    named = (
        ("member id", request.member_id),
        ("group id", request.group_id),
        ("rack id", request.rack_id),
    )
    for what, text in named:
        if text is not None and not text.strip():
            raise _invalid(f"the {what} is empty")
    if request.member_epoch == JOIN_EPOCH:
        if not request.subscribed_topic_names:
            raise _invalid("a joining member must say what it subscribes to")
    elif request.member_epoch < LEAVE_EPOCH:
        raise _invalid(f"member epoch {request.member_epoch}")


def _invalid(reason: str) -> RequestRefused:
    return RequestRefused(ErrorCode.INVALID_REQUEST, reason)
