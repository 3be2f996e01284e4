"""Classic workers of a Connect group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup as steps of the new protocol.

KIP-848's revision for Connect, "Upgrading": the three calls are translated into what ConnectGroupHeartbeat does, each
worker is served on its own, and its own rebalance loop tells the coordinator what it runs and fetches its assignment.

    JoinGroup   declarations, what the worker runs, one step towards its target; answered at once
    SyncGroup   the difference between what it said that it runs and what it may run; from the leader, an assignment
    Heartbeat   REBALANCE_IN_PROGRESS if another JoinGroup would change something
    generation  the worker's member epoch

Our own choices, where the KIP is silent:

* The computing member may be a classic worker. It is the leader of the JoinGroup that it sends then, and is shown the
  target, not what the others run at that moment: the steps of each worker make sure that none gets what another still
  holds. Its generation is the epoch that it computes for, so its SyncGroup takes it straight to its new part.
* The leader computes at each of its JoinGroups. Its assignor forgets what it did, and so its delay for what a lost
  worker ran, if a generation lies between; and it joins by itself when that delay is over.
* What it takes away from a worker is assigned in the next computation, which begins at once.
* A worker that joins again with tasks keeps those that are free, and stops the others.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from coordinator.connect_groups import computing, fencing, formats, records
from coordinator.connect_groups.choice import chosen_assignor
from coordinator.connect_groups.computation import Computation, Prepared
from coordinator.connect_groups.formats import INCREMENTAL, Difference, Said
from coordinator.connect_groups.group import ConnectGroup, Leader, Part
from coordinator.connect_groups.installing import install
from coordinator.connect_groups.member import (
    CONNECT_PROTOCOL_TYPE,
    ClassicWorker,
    ConnectMember,
    Details,
    MemberState,
)
from coordinator.connect_groups.reconciliation import reconciled
from coordinator.connect_groups.shard import ConnectShard
from coordinator.connect_groups.timers import ConnectRebalanceTimeout, ConnectSessionTimeout
from coordinator.connect_groups.work import Work, WorkSet
from coordinator.errors import RequestRefused
from coordinator.shard import Call
from coordinator.uuids import hyphenated
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from protocol_codecs.error_code import ErrorCode

FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4
FIRST_VERSION_WITH_SEVERAL_LEAVING = 3


# JoinGroup


def join(
    shard: ConnectShard, group: ConnectGroup, request: JoinGroupRequest, call: Call
) -> JoinGroupResponse:
    """Serve a JoinGroup. Raises RequestRefused."""
    said = formats.read_worker(request.protocols)
    if (
        request.protocol_type != CONNECT_PROTOCOL_TYPE
        or request.group_instance_id is not None
        or said is None
    ):
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no worker with an incremental protocol")
    if not _is_session_timeout(shard, request.session_timeout_ms):
        raise RequestRefused(ErrorCode.INVALID_SESSION_TIMEOUT, f"{request.session_timeout_ms} ms")
    member_id = request.member_id or f"{call.client_id}-{hyphenated(shard.classic_groups.uuids.next())}"
    known = group.members.get(member_id)
    if known is not None and known.classic is None:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} speaks the new protocol")
    if known is None and len(group.members) >= shard.settings.max_size:
        raise RequestRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {group.group_id!r} is full")
    declared = _declared(known or ConnectMember(member_id=member_id), request, said, call)
    others = [one for one in group.members.values() if one.member_id != member_id]
    protocol = chosen_assignor([*others, declared])
    if protocol is None:
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no protocol that all workers support")
    if not request.member_id and call.version >= FIRST_VERSION_WITH_MEMBER_ID_REQUIRED:
        return JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED)

    _declare(shard, group, known, declared, said)
    computation = group.computation
    leads = computation is not None and computation.member_id == member_id
    if computation is not None and leads:
        computing.tell(shard, group, member_id)
        updated = _at_its_turn(group, group.members[member_id], said.runs)
        group.computation = replace(group.computation or computation, prepared=_shown(group, protocol))
    else:
        updated = _stepped(group, group.members[member_id], said.runs)
    _put(shard, group, updated)
    shard.schedule(ConnectSessionTimeout(group.group_id, member_id), request.session_timeout_ms)
    shard.schedule(ConnectRebalanceTimeout(group.group_id, member_id), request.rebalance_timeout_ms)
    leader = group.leader.member_id if group.leader.member_id != member_id else ""
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=updated.member_epoch,
        protocol_type=CONNECT_PROTOCOL_TYPE,
        protocol_name=protocol,
        leader=member_id if leads else leader,
        members=_for_leader(group, protocol) if leads else (),
    )


def _is_session_timeout(shard: ConnectShard, timeout_ms: int) -> bool:
    config = shard.classic_groups.config
    return config.classic_min_session_timeout_ms <= timeout_ms <= config.classic_max_session_timeout_ms


def _declared(member: ConnectMember, request: JoinGroupRequest, said: Said, call: Call) -> ConnectMember:
    """Return the worker with what its JoinGroup declares."""
    worker = ClassicWorker(request.session_timeout_ms, request.protocols)
    return member.replace(
        client_id=call.client_id,
        client_host=call.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        assignors=worker.assignors,
        config_offset=said.config_offset,
        classic=worker,
    )


def _declare(
    shard: ConnectShard, group: ConnectGroup, known: ConnectMember | None, declared: ConnectMember, said: Said
) -> None:
    """Note a JoinGroup. The group epoch moves if the worker is new, offers something else, or leads and joins again."""
    member_id, group_id = declared.member_id, group.group_id
    rests = group.assignment_epoch >= group.group_epoch
    bump = (
        known is None
        or _identity(known) != _identity(declared)
        or (rests and group.leader.member_id == member_id)
    )
    epoch = group.group_epoch + bump
    before = declared
    if known is None:
        at = group.assignment_epoch
        before = declared.replace(member_epoch=at, previous_member_epoch=at, state=MemberState.UNRELEASED)
    holding = group.claimed(before, said.runs)
    change = [records.group_epoch(group_id, epoch)] if bump else []
    change.append(records.declarations(group_id, epoch, declared))
    kept = holding.assigned - before.assigned - _targeted(group)
    if kept:
        mine = group.part_of(member_id)
        parts = {**group.target, member_id: replace(mine, works=mine.works | kept)}
        change.append(records.target(group_id, group.assignment_epoch, parts, group.leader))
    if known is None or holding != declared:
        change.append(records.current(group_id, holding))
    shard.apply(change)
    computing.keep_up(shard, group_id)


def _identity(member: ConnectMember) -> tuple[object, ...]:
    url = "" if member.classic is None else member.classic.said.url
    return url, [assignor.name for assignor in member.assignors]


def _targeted(group: ConnectGroup) -> WorkSet:
    return frozenset(work for member_id in group.members for work in group.part_of(member_id).works)


def _at_its_turn(group: ConnectGroup, member: ConnectMember, runs: WorkSet) -> ConnectMember:
    """Return the worker at the epoch that it is to compute for, which is ahead of the target's."""
    if not member.pending_revocation & runs:
        member = member.replace(state=MemberState.UNRELEASED, pending_revocation=frozenset())
    return member.replace(member_epoch=group.group_epoch, previous_member_epoch=member.member_epoch)


def _stepped(group: ConnectGroup, member: ConnectMember, runs: WorkSet | None) -> ConnectMember:
    """Return the worker after its next step. One that was to compute an epoch that is no target yet waits for it."""
    if member.member_epoch > group.assignment_epoch:
        has_stopped = runs is not None and not member.pending_revocation & runs
        waiting = member.replace(state=MemberState.UNRELEASED, pending_revocation=frozenset())
        return waiting if has_stopped else member
    part = group.part_of(member.member_id)
    return reconciled(member, group.assignment_epoch, part, group.owners, runs)


def _put(shard: ConnectShard, group: ConnectGroup, updated: ConnectMember) -> None:
    if updated != group.members[updated.member_id]:
        shard.apply([records.current(group.group_id, updated)])


def _shown(group: ConnectGroup, protocol: str) -> Prepared:
    offers = {one.member_id: offer for one in group.members.values() if (offer := one.assignor(protocol))}
    shown = {member_id: group.part_of(member_id).works for member_id in offers}
    return Prepared(group.group_epoch, offers, group.configured, group.config_offset, shown)


def _for_leader(group: ConnectGroup, protocol: str) -> tuple[JoinGroupResponseMember, ...]:
    """Return all workers as a classic leader gets them: each runs its part of the target."""
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            metadata=formats.for_leader(
                Said(_url(member), member.config_offset, group.part_of(member.member_id).works), protocol
            ),
        )
        for member in group.members.values()
    )


def _url(member: ConnectMember) -> str:
    """Return where a worker's REST API listens; a new one says so in its assignor's metadata, as classic ones do."""
    said = [formats.read_metadata(one.metadata) for one in member.assignors if one.name in INCREMENTAL]
    return next((one.url for one in said if one is not None), "")


# SyncGroup


def sync(shard: ConnectShard, group: ConnectGroup, request: SyncGroupRequest) -> SyncGroupResponse:
    """Serve a SyncGroup. Raises RequestRefused."""
    member, worker = _classic_member(group, request.member_id, request.generation_id)
    offered = {one.name for one in worker.protocols} & INCREMENTAL.keys()
    protocol = request.protocol_name or chosen_assignor(group.members.values())
    if request.protocol_type not in {None, CONNECT_PROTOCOL_TYPE} or protocol not in offered:
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "not what JoinGroup answered")
    shard.schedule(ConnectSessionTimeout(group.group_id, member.member_id), worker.session_timeout_ms)
    computation = group.computation
    delay_ms = 0
    if _is_computing(computation, member.member_id):
        own = _install(shard, group, member, request.assignments, protocol)
        if own.error:
            # It has not read what others have. It reads on and joins again; nothing was computed.
            return _answer(own, protocol)
        delay_ms = own.delay_ms
        member = _stepped(group, group.members[member.member_id], worker.said.runs)
        _put(shard, group, member)
    elif member.state is not MemberState.UNREVOKED and member.member_epoch != group.assignment_epoch:
        _expect_join(shard, group, member)
        raise RequestRefused(
            ErrorCode.REBALANCE_IN_PROGRESS, "there is a newer target, or its turn has passed"
        )
    shard.timers.cancel(ConnectRebalanceTimeout(group.group_id, member.member_id))
    if member.state is MemberState.UNREVOKED:
        _expect_join(shard, group, member)
    said, leader = worker.said, group.leader
    difference = Difference(
        member.details.error,
        leader.member_id,
        leader.url,
        # A worker that hears of a reading older than its own would join again at once, for ever.
        max(leader.config_offset, said.config_offset),
        member.assigned - said.runs,
        said.runs - member.assigned,
        delay_ms,
    )
    return _answer(difference, protocol)


def _answer(difference: Difference, protocol: str) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=CONNECT_PROTOCOL_TYPE,
        protocol_name=protocol,
        assignment=formats.for_worker(difference, protocol),
    )


def _is_computing(computation: Computation | None, member_id: str) -> bool:
    """Whether the worker has been shown the group, and its assignment has not come yet."""
    return computation is not None and computation.member_id == member_id and computation.prepared is not None


def _install(
    shard: ConnectShard,
    group: ConnectGroup,
    member: ConnectMember,
    assignments: Iterable[SyncGroupRequestAssignment],
    protocol: str,
) -> Difference:
    """Make what a classic leader computed the target; return its own difference. Raises RequestRefused.

    Unlike what a new worker installs it may leave unassigned what a lost worker ran, or what is taken from another.
    """
    computation = group.computation
    if computation is None or computation.prepared is None:
        raise RequestRefused(ErrorCode.REBALANCE_IN_PROGRESS, "its turn has passed")
    prepared = computation.prepared
    contents = {one.member_id: bytes(one.assignment) for one in assignments}
    computed = _checked(prepared, contents, member.member_id)
    if computed is None:
        shard.counts.refused_installs += 1
        group.expired_computing.append(member.member_id)
        computing.end(shard, group)
        computing.keep_up(shard, group.group_id)
        _expect_join(shard, group, member)
        raise RequestRefused(
            ErrorCode.REBALANCE_IN_PROGRESS, "it is no assignment of the group that was shown"
        )
    own = computed[member.member_id]
    if own.error:
        group.computation = replace(computation, prepared=None)
        return own
    parts = {
        member_id: Part(
            (prepared.shown[member_id] - difference.revoked) | difference.assigned,
            Details(0, INCREMENTAL[protocol], contents[member_id]),
        )
        for member_id, difference in computed.items()
        if member_id in group.members
    }
    leader = Leader(member.member_id, own.leader_url, own.config_offset)
    change = [records.target(group.group_id, prepared.group_epoch, parts, leader)]
    if any(difference.revoked for difference in computed.values()):
        change.append(records.group_epoch(group.group_id, group.group_epoch + 1))
    install(shard, group, change)
    return own


def _checked(prepared: Prepared, contents: dict[str, bytes], leader: str) -> dict[str, Difference] | None:
    """Return each worker's difference; None unless they are of this leader, for all it was shown, each thing once."""
    if contents.keys() != prepared.shown.keys():
        return None
    computed = formats.read_differences(contents)
    if computed is None:
        return None
    works: list[Work] = []
    for member_id, one in computed.items():
        if one.leader != leader or one.error != computed[leader].error:
            return None
        works += (prepared.shown[member_id] - one.revoked) | one.assigned
    # Only then is an error an assignment: else two workers would get the same.
    return None if len(works) > len(set(works)) and not computed[leader].error else computed


# Heartbeat, LeaveGroup


def heartbeat(shard: ConnectShard, group: ConnectGroup, request: HeartbeatRequest) -> HeartbeatResponse:
    """Serve a Heartbeat: REBALANCE_IN_PROGRESS triggers the JoinGroup that is needed. Raises RequestRefused."""
    member, worker = _classic_member(group, request.member_id, request.generation_id)
    shard.schedule(ConnectSessionTimeout(group.group_id, member.member_id), worker.session_timeout_ms)
    if not _has_to_join(group, member):
        return HeartbeatResponse()
    _expect_join(shard, group, member)
    return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def _has_to_join(group: ConnectGroup, member: ConnectMember) -> bool:
    """Whether the worker is to compute, or its next JoinGroup would change something."""
    computation = group.computation
    if computation is not None and computation.member_id == member.member_id:
        return computation.prepared is None
    if member.state is MemberState.UNREVOKED or member.member_epoch < group.assignment_epoch:
        return True
    return member.state is MemberState.UNRELEASED and _stepped(group, member, None) != member


def leave(
    shard: ConnectShard, group: ConnectGroup, request: LeaveGroupRequest, call: Call
) -> LeaveGroupResponse:
    """Serve a LeaveGroup, for workers of either protocol."""
    several = call.version >= FIRST_VERSION_WITH_SEVERAL_LEAVING
    leaving = request.members if several else (MemberIdentity(member_id=request.member_id),)
    answers = []
    for one in leaving:
        is_member = group.group_id in shard.groups and one.member_id in group.members
        if is_member:
            fencing.remove(shard, group, one.member_id)
        error = ErrorCode.NONE if is_member else ErrorCode.UNKNOWN_MEMBER_ID
        answers.append(MemberResponse(member_id=one.member_id, error_code=error))
    if several:
        return LeaveGroupResponse(members=tuple(answers))
    return LeaveGroupResponse(error_code=answers[0].error_code)


def _expect_join(shard: ConnectShard, group: ConnectGroup, member: ConnectMember) -> None:
    timer = ConnectRebalanceTimeout(group.group_id, member.member_id)
    shard.timers.schedule_if_absent(timer, shard.now_ms + member.rebalance_timeout_ms)


def _classic_member(
    group: ConnectGroup, member_id: str, generation: int
) -> tuple[ConnectMember, ClassicWorker]:
    """Return the worker of a classic call. Raises RequestRefused: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION."""
    member = group.member(member_id)
    if member.classic is None:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} speaks the new protocol")
    if generation != member.member_epoch:
        raise RequestRefused(
            ErrorCode.ILLEGAL_GENERATION,
            f"generation {generation} of a worker at epoch {member.member_epoch}",
        )
    return member, member.classic
