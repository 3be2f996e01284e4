"""The phases of a classic group's rebalance: how each begins and ends."""

from coordinator import records
from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.classic_groups.member import EMPTY_ASSIGNMENT, ClassicMember
from coordinator.classic_groups.waiting import answer_join, answer_join_with_error, answer_sync
from coordinator.shard import Shard
from coordinator.timers import ClassicHeartbeat, ClassicJoin, ClassicSync, InitialRebalance
from protocol_codecs.all_messages import JoinGroupResponse, SyncGroupResponse
from protocol_codecs.error_code import ErrorCode

_S = ClassicGroupState


def prepare_or_complete(shard: Shard, group: ClassicGroup) -> None:
    """Begin a rebalance, or end the join phase of the current one if all members have joined."""
    if group.can_rebalance:
        prepare(shard, group)
    else:
        complete_if_all_joined(shard, group)


def prepare(shard: Shard, group: ClassicGroup) -> None:
    """Begin a rebalance. A group's first one waits for the initial rebalance delay, so that many members can join."""
    if group.state is _S.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = EMPTY_ASSIGNMENT
        hand_out_assignments(shard, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_syncs.clear()
    shard.timers.cancel(ClassicSync(group.group_id, generation=0))
    was_empty = group.is_empty
    if was_empty:
        delay_ms = shard.config.classic_initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        timer = InitialRebalance(group.group_id, delay_ms=delay_ms, remaining_ms=remaining_ms)
        shard.schedule(timer, delay_ms)
    group.transition_to(_S.PREPARING_REBALANCE, shard.now_ms)
    if was_empty:
        return
    if group.all_members_joined:
        complete_join_phase(shard, group)
    else:
        shard.schedule(ClassicJoin(group.group_id), group.rebalance_timeout_ms)


def complete_if_all_joined(shard: Shard, group: ClassicGroup) -> None:
    """End the join phase if all members have joined, except in the first rebalance of a group."""
    if (
        group.state is _S.PREPARING_REBALANCE
        and group.previous_state is not _S.EMPTY
        and group.all_members_joined
    ):
        complete_join_phase(shard, group)


def complete_join_phase(shard: Shard, group: ClassicGroup) -> None:
    """Remove members that did not join (static members stay), and begin the next generation with the others."""
    shard.timers.cancel(ClassicJoin(group.group_id))
    for member in list(group.members.values()):
        if member.awaiting_join is None and member.instance_id is None:
            group.remove(member.member_id)
            shard.timers.cancel(ClassicHeartbeat(group.group_id, member.member_id))
    if group.state is _S.DEAD:
        return
    if not group.elect_joined_leader() and group.members:
        # Only static members are left, and none of them has joined: wait for their sessions to end.
        shard.schedule(ClassicJoin(group.group_id), group.rebalance_timeout_ms)
        return
    group.begin_generation(shard.now_ms)
    if group.is_empty:
        shard.append([records.classic_group(group, {})])
        return
    for member in group.members_in_order():
        is_leader = member.member_id == group.leader_id
        answer_join(shard, member, joined(group, member.member_id, with_members=is_leader))
        expect_heartbeat(shard, group, member)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    shard.schedule(ClassicSync(group.group_id, generation=group.generation), group.rebalance_timeout_ms)


def joined(
    group: ClassicGroup, member_id: str, *, with_members: bool = False, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Return the answer to a JoinGroup at the end of the join phase."""
    return JoinGroupResponse(
        members=group.member_list() if with_members else (),
        member_id=member_id,
        generation_id=group.generation,
        protocol_name=group.protocol_name,
        protocol_type=group.protocol_type,
        leader=group.leader_id or "",
        skip_assignment=skip_assignment,
    )


def hand_out_assignments(shard: Shard, group: ClassicGroup, error: ErrorCode = ErrorCode.NONE) -> None:
    """Answer every waiting SyncGroup with its member's assignment, or with an error."""
    fine = error is ErrorCode.NONE
    for member in group.members_in_order():
        response = SyncGroupResponse(
            protocol_name=group.protocol_name if fine else None,
            protocol_type=group.protocol_type if fine else None,
            assignment=member.assignment,
            error_code=error,
        )
        if answer_sync(shard, member, response):
            # Its session may have ended unnoticed while the request was waiting.
            expect_heartbeat(shard, group, member)


def remove_member(shard: Shard, group: ClassicGroup, member: ClassicMember) -> None:
    """Remove a member whose session expired, and continue the rebalance without it."""
    answer_join_with_error(shard, member, ErrorCode.UNKNOWN_MEMBER_ID, member_id="")
    group.remove(member.member_id)
    if group.state in {_S.STABLE, _S.COMPLETING_REBALANCE}:
        prepare_or_complete(shard, group)
    elif group.state is _S.PREPARING_REBALANCE and group.all_members_joined:
        complete_join_phase(shard, group)


def expect_heartbeat(
    shard: Shard, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None
) -> None:
    """Restart the member's session timer, with this timeout if given."""
    delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    shard.schedule(ClassicHeartbeat(group.group_id, member.member_id), delay_ms)


# Timers


def on_heartbeat_missed(shard: Shard, group_id: str, member_id: str) -> None:
    """Expire the session of a member, or of a member id that was never used to join."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup) or group.state is _S.DEAD:
        return
    if member_id in group.pending_joins:
        group.remove(member_id)
        if group.state is _S.PREPARING_REBALANCE and group.all_members_joined:
            complete_join_phase(shard, group)
        return
    member = group.members.get(member_id)
    if member is not None and not member.has_satisfied_heartbeat:
        remove_member(shard, group, member)


def on_join_timeout(shard: Shard, group_id: str) -> None:
    """End the join phase at its timeout."""
    group = shard.groups.get(group_id)
    # The group that the timer was set for may have been converted meanwhile, and this one created after it.
    if isinstance(group, ClassicGroup) and group.state is _S.PREPARING_REBALANCE:
        complete_join_phase(shard, group)


def on_initial_rebalance(shard: Shard, timer: InitialRebalance) -> None:
    """End the initial rebalance delay, or extend it if more members joined meanwhile."""
    group = shard.groups.get(timer.group_id)
    if not isinstance(group, ClassicGroup):
        return
    if not group.new_member_added or timer.remaining_ms == 0:
        complete_join_phase(shard, group)
        return
    group.new_member_added = False
    delay_ms = min(shard.config.classic_initial_rebalance_delay_ms, timer.remaining_ms)
    remaining_ms = max(timer.remaining_ms - timer.delay_ms, 0)
    shard.schedule(InitialRebalance(timer.group_id, delay_ms=delay_ms, remaining_ms=remaining_ms), delay_ms)


def on_sync_timeout(shard: Shard, timer: ClassicSync) -> None:
    """Remove members that did not send SyncGroup in time."""
    group = shard.groups.get(timer.group_id)
    if not isinstance(group, ClassicGroup) or group.generation != timer.generation:
        return
    if group.state not in {_S.COMPLETING_REBALANCE, _S.STABLE} or not group.pending_syncs:
        return
    for member_id in list(group.pending_syncs):
        group.remove(member_id)
        shard.timers.cancel(ClassicHeartbeat(group.group_id, member_id))
    prepare(shard, group)
