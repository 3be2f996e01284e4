"""JoinGroup to a classic group, which the first one creates."""

from coordinator import records
from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState, same_protocols
from coordinator.classic_groups.member import ClassicMember
from coordinator.classic_groups.rebalance import (
    complete_if_all_joined,
    expect_heartbeat,
    joined,
    prepare,
    prepare_or_complete,
)
from coordinator.classic_groups.waiting import answer_join, answer_sync_with_error
from coordinator.errors import BrokenInvariant, RequestRefused
from coordinator.shard import Call, Shard
from coordinator.timers import ClassicHeartbeat
from coordinator.uuids import hyphenated
from protocol_codecs.all_messages import JoinGroupRequest, JoinGroupResponse
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord

_S = ClassicGroupState
FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT = 9


def join(
    shard: Shard, request: JoinGroupRequest, call: Call, before: list[CoordinatorRecord]
) -> JoinGroupResponse | None:
    """Serve a JoinGroup; return None if it has to wait. ``before`` are the tombstones of an empty consumer group.

    Raises RequestRefused.
    """
    existing = shard.groups.get(request.group_id)
    if isinstance(existing, ClassicGroup):
        return _join(shard, existing, request, call)
    if request.member_id:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, "there is no such group")
    group = shard.groups[request.group_id] = ClassicGroup(request.group_id, now_ms=shard.now_ms)
    shard.append([*before, records.new_classic_group(group)])
    return _join(shard, group, request, call)


def _join(
    shard: Shard, group: ClassicGroup, request: JoinGroupRequest, call: Call
) -> JoinGroupResponse | None:
    if not _has_room(shard, group, request.member_id):
        group.remove(request.member_id)
        return JoinGroupResponse(member_id="", error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
    if group.state is _S.DEAD:
        raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group has gone to another coordinator")
    if not group.supports_protocols(request.protocol_type, [p.name for p in request.protocols]):
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no assignor that all members offer")
    if not request.member_id:
        return _join_new(shard, group, request, call)
    if request.member_id in group.pending_joins:
        if request.group_instance_id is not None:
            raise BrokenInvariant(f"{request.member_id!r} was given out to a dynamic member")
        _add(shard, group, request, call, request.member_id)
        return None
    member = group.check_member(request.member_id, request.group_instance_id)
    return _join_again(shard, group, member, request, call)


def _has_room(shard: Shard, group: ClassicGroup, member_id: str) -> bool:
    limit = shard.config.classic_max_size
    member = group.members.get(member_id)
    match group.state:
        case _S.PREPARING_REBALANCE:
            # Those who have joined are counted, so that the last ones to join are the ones to go.
            return (member is not None and member.awaiting_join is not None) or group.awaiting_joins < limit
        case _S.COMPLETING_REBALANCE | _S.STABLE:
            return member is not None or len(group.members) < limit
        case _:
            return True


def _join_new(
    shard: Shard, group: ClassicGroup, request: JoinGroupRequest, call: Call
) -> JoinGroupResponse | None:
    """Serve a JoinGroup without a member id."""
    instance_id = request.group_instance_id
    prefix = call.client_id if instance_id is None else instance_id
    new_id = f"{prefix}-{hyphenated(shard.uuids.next())}"
    if instance_id is not None:
        old_id = group.static_members.get(instance_id)
        if old_id is None:
            _add(shard, group, request, call, new_id)
        else:
            _replace(shard, group, request, call, old_id, new_id)
        return None
    if call.version < FIRST_VERSION_WITH_MEMBER_ID_REQUIRED:
        _add(shard, group, request, call, new_id)
        return None
    group.pending_joins[new_id] = None
    shard.schedule(ClassicHeartbeat(group.group_id, new_id), request.session_timeout_ms)
    return JoinGroupResponse(member_id=new_id, error_code=ErrorCode.MEMBER_ID_REQUIRED)


def _join_again(
    shard: Shard, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest, call: Call
) -> JoinGroupResponse | None:
    """Serve a JoinGroup with a member id."""
    unchanged = same_protocols(member.protocols, request.protocols)
    is_leader = member.member_id == group.leader_id
    match group.state:
        case _S.COMPLETING_REBALANCE if unchanged:
            # It may have missed the answer to its first JoinGroup.
            return joined(group, member.member_id, with_members=is_leader)
        case _S.STABLE if unchanged and not is_leader:
            return joined(group, member.member_id)
        case _S.PREPARING_REBALANCE | _S.COMPLETING_REBALANCE | _S.STABLE:
            # In a stable group the leader joins when it wants a new assignment, others when their subscription changed.
            _update(member, request, call)
            prepare_or_complete(shard, group)
            return None
        case _:
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"nobody is in group {group.group_id!r}")


def _add(shard: Shard, group: ClassicGroup, request: JoinGroupRequest, call: Call, member_id: str) -> None:
    """Add a new member, let its request wait, and continue the rebalance."""
    member = ClassicMember(
        member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id,
        client_host=call.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=request.protocols,
    )
    member.is_new = True
    if group.state is _S.PREPARING_REBALANCE and group.previous_state is _S.EMPTY:
        group.new_member_added = True
    group.add(member)
    member.awaiting_join = call.request_id
    # A new member cannot send heartbeats yet; its client may have given up and joined again under another id.
    expect_heartbeat(shard, group, member, shard.config.classic_new_member_join_timeout_ms)
    prepare_or_complete(shard, group)


def _replace(
    shard: Shard,
    group: ClassicGroup,
    request: JoinGroupRequest,
    call: Call,
    old_id: str,
    new_id: str,
) -> None:
    """Let a restarted static member take its old place; in a stable group this needs no rebalance."""
    leader_before = group.leader_id
    old = group.members[old_id]
    answer_join(
        shard,
        old,
        JoinGroupResponse(member_id=old_id, error_code=ErrorCode.FENCED_INSTANCE_ID, protocol_name=None),
    )
    answer_sync_with_error(shard, old, ErrorCode.FENCED_INSTANCE_ID)
    member = group.replace_static_member(request.group_instance_id or "", old_id, new_id)
    expect_heartbeat(shard, group, member)
    _update(member, request, call)
    if group.state is _S.STABLE:
        if group.select_protocol() != group.protocol_name:
            prepare_or_complete(shard, group)
            return
        assignments = {m.member_id: m.assignment for m in group.members.values()}
        shard.append([records.classic_group(group, assignments)])
        answer_join(shard, member, _replaced(group, new_id, leader_before, call))
    elif group.state is _S.COMPLETING_REBALANCE:
        # The leader may already assign to the old member id.
        prepare(shard, group)
    else:
        complete_if_all_joined(shard, group)


def _replaced(
    group: ClassicGroup, member_id: str, leader_before: str | None, call: Call
) -> JoinGroupResponse:
    """Return the answer to a static member that took its old place in a stable group."""
    is_leader = group.leader_id == member_id
    if call.version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT:
        return joined(group, member_id, with_members=is_leader, skip_assignment=is_leader)
    # Before v9, a client that saw itself as the leader would compute an assignment, which is not needed here.
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=group.generation,
        protocol_name=group.protocol_name,
        protocol_type=group.protocol_type,
        leader=leader_before or "",
    )


def _update(member: ClassicMember, request: JoinGroupRequest, call: Call) -> None:
    member.protocols = request.protocols
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.awaiting_join = call.request_id
