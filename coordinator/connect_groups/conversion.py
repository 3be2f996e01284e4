"""Turns a classic group of Connect workers into a Connect group, and back.

KIP-848's revision for Connect, "Upgrading": the first worker that speaks the new protocol converts the group, the last
one to leave turns it back, and the group epoch starts at the generation. The KIP does not say what the members of a
converted group run; here it follows from their last JoinGroup and SyncGroup, so nothing is stopped.
"""

from coordinator import records as classic_records
from coordinator.classic_groups import rebalance, waiting
from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.classic_groups.member import EMPTY_ASSIGNMENT, ClassicMember
from coordinator.connect_groups import formats, records
from coordinator.connect_groups.formats import Difference, Said
from coordinator.connect_groups.group import FIRST_EPOCH, ConnectGroup, Leader, Part
from coordinator.connect_groups.member import CONNECT_PROTOCOL_TYPE, ClassicWorker, ConnectMember, MemberState
from coordinator.connect_groups.shard import ConnectShard
from coordinator.connect_groups.timers import ConnectRebalanceTimeout, ConnectSessionTimeout
from coordinator.connect_groups.work import WorkSet
from coordinator.errors import RequestRefused
from coordinator.timers import ClassicHeartbeat, ClassicJoin, ClassicSync
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord


def upgraded(group: ClassicGroup) -> tuple[ConnectGroup, list[CoordinatorRecord]]:
    """Return the Connect group that a classic group becomes, and its records. Raises RequestRefused."""
    if group.protocol_type != CONNECT_PROTOCOL_TYPE and not group.is_empty:
        raise _stays(group.group_id, "it is no group of Connect workers")
    # "the group epoch starts at the current group generation" holds for the target and for each member as well.
    into = ConnectGroup(group.group_id, max(group.generation, FIRST_EPOCH))
    for member in group.members.values():
        into.put_member(_taken_over(group, member, into))
    into.target = {member.member_id: Part(member.assigned) for member in into.members.values()}
    leader = into.members.get(group.leader_id or "")
    if leader is not None and leader.classic is not None:
        into.leader = Leader(leader.member_id, leader.classic.said.url, leader.config_offset)
    return into, [
        records.group_epoch(into.group_id, into.group_epoch),
        *(records.declarations(into.group_id, into.group_epoch, one) for one in into.members.values()),
        records.target(into.group_id, into.group_epoch, into.target, into.leader),
        *(records.current(into.group_id, one) for one in into.members.values()),
    ]


def take_over(shard: ConnectShard, group_id: str) -> None:
    """Delete the classic group that a Connect group has taken the place of. Who waits in a rebalance joins again."""
    others = shard.others
    group = None if others is None else others.groups.get(group_id)
    if others is None or not isinstance(group, ClassicGroup):
        return
    others.now_ms = shard.now_ms
    for member in group.members.values():
        waiting.answer_join_with_error(others, member, ErrorCode.REBALANCE_IN_PROGRESS)
        waiting.answer_sync_with_error(others, member, ErrorCode.REBALANCE_IN_PROGRESS)
        shard.schedule(ConnectSessionTimeout(group_id, member.member_id), member.session_timeout_ms)
    for member_id in (*group.members, *group.pending_joins):
        others.timers.cancel(ClassicHeartbeat(group_id, member_id))
    others.timers.cancel(ClassicJoin(group_id))
    others.timers.cancel(ClassicSync(group_id, generation=0))
    others.apply([classic_records.classic_group_tombstone(group_id)])


def _taken_over(group: ClassicGroup, member: ClassicMember, into: ConnectGroup) -> ConnectMember:
    worker = ClassicWorker(member.session_timeout_ms, member.protocols)
    said = formats.read_worker(member.protocols)
    if said is None or member.instance_id is not None:
        raise _stays(group.group_id, f"{member.member_id!r} offers no incremental protocol")
    runs, stopping = _runs(group, member, said)
    converted = ConnectMember(
        member_id=member.member_id,
        member_epoch=into.group_epoch,
        previous_member_epoch=into.group_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        assignors=worker.assignors,
        config_offset=said.config_offset,
        classic=worker,
        pending_revocation=stopping,
        state=MemberState.UNREVOKED if stopping else MemberState.STABLE,
    )
    return into.claimed(converted, runs)


def _runs(group: ClassicGroup, member: ClassicMember, said: Said) -> tuple[WorkSet, WorkSet]:
    """Return what a worker goes on running, and what it may still be stopping.

    Its assignment is a difference to its last JoinGroup, but older than a JoinGroup that waits for the next one.
    """
    is_newer = member.awaiting_join is not None or group.state is ClassicGroupState.COMPLETING_REBALANCE
    if is_newer or member.assignment == EMPTY_ASSIGNMENT:
        return said.runs, frozenset()
    read = formats.read_differences({"": member.assignment})
    if read is None:
        raise _stays(group.group_id, f"the assignment of {member.member_id!r} can't be read")
    return (said.runs | read[""].assigned) - read[""].revoked, said.runs & read[""].revoked


def _stays(group_id: str, reason: str) -> RequestRefused:
    return RequestRefused(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group_id!r} stays classic: {reason}"
    )


def _difference(group: ConnectGroup, member: ConnectMember, said: Said) -> bytes:
    """Return what a worker was given since its JoinGroup, should the group be converted again before its next one."""
    leader = group.leader
    difference = Difference(
        0,
        leader.member_id,
        leader.url,
        max(leader.config_offset, said.config_offset),
        member.assigned - said.runs,
        said.runs - member.assigned,
    )
    return formats.for_worker(difference, next(one.name for one in member.assignors))


def _lead(group: ClassicGroup, member_id: str) -> None:
    group.leader_id = member_id if member_id in group.members else next(iter(group.members))


def resume(shard: ConnectShard) -> None:
    """Begin the rebalances of groups that became classic when the log was written, as their leaders say."""
    others = shard.others
    for group in () if others is None else others.groups.values():
        if (
            others is not None
            and isinstance(group, ClassicGroup)
            and group.protocol_type == CONNECT_PROTOCOL_TYPE
            and group.members
            and group.leader_id not in group.members
        ):
            others.now_ms = shard.now_ms
            _lead(group, "")
            rebalance.prepare(others, group)


def downgrades(shard: ConnectShard, group: ConnectGroup, leaving: str) -> bool:
    """Whether the group becomes classic when this worker goes: only classic ones are left."""
    left = [one for one in group.members.values() if one.member_id != leaving]
    return bool(left) and shard.others is not None and all(one.classic is not None for one in left)


def downgrade(shard: ConnectShard, group: ConnectGroup, leaving: str) -> None:
    """Make the group classic again without this worker, with its epoch as the generation, and begin a rebalance.

    In the log it is led by the worker that has gone, until that rebalance has ended (:func:`resume`).
    """
    others, group_id = shard.classic_groups, group.group_id
    others.now_ms = shard.now_ms
    classic = ClassicGroup(group_id, now_ms=shard.now_ms)
    classic.generation, classic.protocol_type = group.group_epoch, CONNECT_PROTOCOL_TYPE
    classic.state = ClassicGroupState.STABLE
    others.groups[group_id] = classic
    for member_id, member in group.members.items():
        shard.timers.cancel(ConnectSessionTimeout(group_id, member_id))
        shard.timers.cancel(ConnectRebalanceTimeout(group_id, member_id))
        if member.classic is None or member_id == leaving:
            continue
        classic.add(
            ClassicMember(
                member_id,
                instance_id=None,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocol_type=CONNECT_PROTOCOL_TYPE,
                protocols=member.classic.protocols,
                assignment=_difference(group, member, member.classic.said),
            )
        )
    classic.protocol_name = classic.select_protocol()
    classic.leader_id = leaving
    assignments = {one.member_id: one.assignment for one in classic.members.values()}
    others.append([classic_records.classic_group(classic, assignments)])
    _lead(classic, group.leader.member_id)  # its assignor knows what it did
    shard.apply(
        [
            *(one for member_id in group.members for one in records.member_tombstones(group_id, member_id)),
            *records.group_tombstones(group_id),
        ]
    )
    for one in classic.members_in_order():
        rebalance.expect_heartbeat(others, classic, one)
    rebalance.prepare(others, classic)
