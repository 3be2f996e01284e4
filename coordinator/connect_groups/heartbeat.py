"""Serves ConnectGroupHeartbeat: a worker joins, declares, goes on towards its target, or leaves."""

from coordinator.classic_groups.group import ClassicGroup
from coordinator.connect_groups import computing, conversion, fencing, records
from coordinator.connect_groups.choice import chosen_assignor
from coordinator.connect_groups.group import ConnectGroup
from coordinator.connect_groups.member import ConnectMember, MemberState
from coordinator.connect_groups.reconciliation import reconciled
from coordinator.connect_groups.shard import ConnectShard
from coordinator.connect_groups.timers import ConnectRebalanceTimeout, ConnectSessionTimeout
from coordinator.connect_groups.validation import JOIN_EPOCH, LEAVE_EPOCH, assignors_of, check_heartbeat
from coordinator.connect_groups.work import WorkSet, as_message, work_set
from coordinator.errors import RequestRefused
from coordinator.shard import Call
from protocol_codecs.connect_groups import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupHeartbeatResponseAssignment,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord


def serve(
    shard: ConnectShard, request: ConnectGroupHeartbeatRequest, call: Call
) -> ConnectGroupHeartbeatResponse:
    """Serve the request. Raises RequestRefused."""
    check_heartbeat(request, shard.settings)
    if request.member_epoch == LEAVE_EPOCH:
        group = _existing(shard, request.group_id)
        fencing.remove(shard, group, group.member(request.member_id).member_id)
        return ConnectGroupHeartbeatResponse(member_epoch=LEAVE_EPOCH)
    limit = shard.settings.max_configured
    owned = None if request.connectors_and_tasks is None else work_set(request.connectors_and_tasks, limit)
    change: list[CoordinatorRecord] = []

    # 1, 2, 3: the group, the worker, its epoch.
    group = _group(shard, request, change)
    is_converted = request.group_id not in shard.groups
    member = _member(shard, group, request)
    _check_epoch(member, request.member_epoch, owned)

    # 4: what it declares, and what is configured. Each change moves the group epoch, what it runs does not: that
    #    changes with every assignment.
    declared = _declared(member, request, call)
    _check_assignors(group, declared)
    is_new = member.member_id not in group.members
    bump = is_new or declared.assignors != member.assignors or _asks(request)
    configured = None if request.configured is None else work_set(request.configured, limit)
    is_newer = configured is not None and request.config_offset > group.config_offset
    if configured is not None:
        _check_reading(group, request.config_offset, configured)
        bump = bump or (is_newer and configured != group.configured)
    epoch = group.group_epoch + bump
    if bump:
        change.append(records.group_epoch(group.group_id, epoch))
    if configured is not None and is_newer:
        change.append(records.configured(group.group_id, epoch, configured, request.config_offset))
    if declared != member or is_new:
        change.append(records.declarations(group.group_id, epoch, declared))

    # 5: its next step.
    updated = reconciled(
        declared, group.assignment_epoch, group.part_of(member.member_id), group.owners, owned
    )
    if updated != declared or is_new:
        change.append(records.current(group.group_id, updated))
    shard.apply(change)
    if is_converted:
        conversion.take_over(shard, request.group_id)
    _set_timers(shard, group.group_id, member, updated)
    computing.keep_up(shard, group.group_id)
    news = (
        request.member_epoch != updated.member_epoch
        or updated.state is MemberState.UNREVOKED
        or updated.assigned != member.assigned
        or (owned is not None and owned != updated.assigned)
    )
    return ConnectGroupHeartbeatResponse(
        member_epoch=updated.member_epoch,
        heartbeat_interval_ms=shard.settings.heartbeat_interval_ms,
        assignment=_assignment(updated) if news else None,
        should_compute_assignment=computing.tell(shard, shard.groups[group.group_id], member.member_id),
    )


def _existing(shard: ConnectShard, group_id: str) -> ConnectGroup:
    """Return the group. The KIP's errors of this call have none for a group that is not there: it has no members."""
    group = shard.groups.get(group_id)
    if group is None:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no Connect group {group_id!r}")
    return group


def _group(
    shard: ConnectShard, request: ConnectGroupHeartbeatRequest, change: list[CoordinatorRecord]
) -> ConnectGroup:
    """Return the group, or a new one, which takes the place of a classic group of its id. Raises RequestRefused."""
    group = shard.groups.get(request.group_id)
    if group is not None:
        return group
    if request.member_epoch != JOIN_EPOCH:
        return _existing(shard, request.group_id)
    before = None if shard.others is None else shard.others.groups.get(request.group_id)
    if before is not None and not isinstance(before, ClassicGroup):
        raise RequestRefused(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{request.group_id!r} is of another type"
        )
    if len(shard.groups) >= shard.settings.max_groups:
        raise RequestRefused(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"there are {len(shard.groups)} Connect groups"
        )
    if before is not None:
        group, created = conversion.upgraded(before)
        change += created
    else:
        group = ConnectGroup(request.group_id)
        change.append(records.group_epoch(group.group_id, group.group_epoch))
    return group


def _member(shard: ConnectShard, group: ConnectGroup, request: ConnectGroupHeartbeatRequest) -> ConnectMember:
    """Return the worker, or a new one if it says hello. Raises RequestRefused."""
    if request.member_epoch != JOIN_EPOCH or request.member_id in group.members:
        member = group.member(request.member_id)
        if member.classic is not None:
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member.member_id!r} is a classic worker")
        return member
    if len(group.members) >= shard.settings.max_size:
        raise RequestRefused(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {group.group_id!r} has {len(group.members)} members"
        )
    return ConnectMember(member_id=request.member_id)


def _check_epoch(member: ConnectMember, epoch: int, owned: WorkSet | None) -> None:
    """Raise RequestRefused with FENCED_MEMBER_EPOCH unless the epoch is 0, the worker's, or its previous one.

    With the previous one it must run nothing beyond its assignment: then the answer with the newer epoch was lost. The
    KIP also removes a worker that it fences. Here, as in Kafka, it stays until it comes back with epoch 0 or until its
    session expires: it may run its tasks until it has read the answer, so nobody else may have them before.
    """
    if epoch in {JOIN_EPOCH, member.member_epoch}:
        return
    is_previous = epoch == member.previous_member_epoch < member.member_epoch
    if is_previous and owned is not None and owned <= member.assigned:
        return
    raise RequestRefused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"epoch {epoch} of member {member.member_id!r}, which is at {member.member_epoch}",
    )


def _declared(member: ConnectMember, request: ConnectGroupHeartbeatRequest, call: Call) -> ConnectMember:
    """Return the worker with what the request says; what it does not say stays."""
    timeout_ms = request.rebalance_timeout_ms
    assignors = request.client_assignors
    return member.replace(
        client_id=call.client_id,
        client_host=call.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms < 0 else timeout_ms,
        assignors=member.assignors if assignors is None else assignors_of(assignors),
        config_offset=max(member.config_offset, request.config_offset),
    )


def _check_assignors(group: ConnectGroup, declared: ConnectMember) -> None:
    """Raise RequestRefused with UNSUPPORTED_ASSIGNOR if the group would have no assignor that all support."""
    if (
        declared.member_id in group.members
        and declared.assignors == group.members[declared.member_id].assignors
    ):
        return
    others = [member for member in group.members.values() if member.member_id != declared.member_id]
    if chosen_assignor([*others, declared]) is None:
        raise RequestRefused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"no assignor of {declared.member_id!r} is one that all members of {group.group_id!r} support",
        )


def _asks(request: ConnectGroupHeartbeatRequest) -> bool:
    """Whether the worker asks for an assignment by a reason other than 0."""
    return any(assignor.reason != 0 for assignor in request.client_assignors or ())


def _check_reading(group: ConnectGroup, config_offset: int, configured: WorkSet) -> None:
    """Raise RequestRefused with INVALID_REQUEST if another worker has read something else up to the same offset."""
    if config_offset == group.config_offset and configured != group.configured:
        raise RequestRefused(
            ErrorCode.INVALID_REQUEST,
            f"up to config offset {config_offset} another worker of {group.group_id!r} has read something else",
        )


def _set_timers(shard: ConnectShard, group_id: str, before: ConnectMember, now: ConnectMember) -> None:
    shard.schedule(ConnectSessionTimeout(group_id, now.member_id), shard.settings.session_timeout_ms)
    rebalance = ConnectRebalanceTimeout(group_id, now.member_id)
    if now.state is not MemberState.UNREVOKED:
        shard.timers.cancel(rebalance)
    elif before.state is not MemberState.UNREVOKED or now.pending_revocation != before.pending_revocation:
        shard.schedule(rebalance, now.rebalance_timeout_ms)


def _assignment(member: ConnectMember) -> ConnectGroupHeartbeatResponseAssignment:
    return ConnectGroupHeartbeatResponseAssignment(
        error=member.details.error,
        connectors_and_tasks=as_message(member.assigned),
        version=member.details.version,
        metadata=member.details.metadata,
    )
