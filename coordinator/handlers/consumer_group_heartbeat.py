"""ConsumerGroupHeartbeat (68), v0 and v1: a member of the new protocol joins, stays, or leaves.

The checks come in Kafka's order. Epochs: 0 joins, -1 leaves, -2 leaves for a while (static members).
"""

from coordinator.consumer_groups import admission, fencing
from coordinator.consumer_groups.client_side import declaring
from coordinator.consumer_groups.heartbeat import heartbeat
from coordinator.consumer_groups.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from protocol_codecs.all_messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.experimental import ClientAssignorsHeartbeatRequest

FIRST_VERSION_WITH_CLIENT_MADE_MEMBER_ID = 1
_NOT_SET = -1


def serve(shard: Shard, request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerGroupHeartbeatResponse:
    """Serve the request."""
    try:
        check(request, call.version, shard.config.consumer_assignors)
        if shard.config.experimental_client_assignors and isinstance(
            request, ClientAssignorsHeartbeatRequest
        ):
            declaring.check(request)
        if request.member_epoch in {LEAVE_EPOCH, STATIC_LEAVE_EPOCH}:
            return _leave(shard, request)
        return heartbeat(shard, request, call)
    except RequestRefused as refused:
        return ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message)


def check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Raise RequestRefused unless the request is valid by itself."""
    needs_member_id = (
        version >= FIRST_VERSION_WITH_CLIENT_MADE_MEMBER_ID
        or request.member_epoch > admission.JOIN_EPOCH
        or request.member_epoch == LEAVE_EPOCH
    )
    if needs_member_id:
        _check_not_blank("member id", request.member_id)
    _check_not_blank("group id", request.group_id)
    _check_not_blank("instance id", request.instance_id)
    _check_not_blank("rack id", request.rack_id)
    if request.member_epoch == admission.JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise _invalid("only a static member leaves with epoch -2")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid(f"member epoch {request.member_epoch}")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise RequestRefused(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"{request.server_assignor!r} is none of {', '.join(assignors)}"
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NOT_SET:
        raise _invalid("a joining member must say its rebalance timeout")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("a joining member must say that it owns nothing")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("a joining member must say what it subscribes to")


def _leave(shard: Shard, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    group = shard.consumer_group(request.group_id)
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        existing = group.static_member(request.instance_id)
        member = admission.check_static_member(group, existing, request.member_id, request.instance_id)
    if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
        fencing.leave_temporarily(shard, group, member)
    else:
        fencing.fence(shard, group, [member])
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


def _check_not_blank(what: str, text: str | None) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"the {what} is empty")


def _invalid(reason: str) -> RequestRefused:
    return RequestRefused(ErrorCode.INVALID_REQUEST, reason)
