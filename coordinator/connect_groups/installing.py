"""Serves ConnectGroupInstallAssignment: checks what a worker computed, and makes it the group's target.

It is checked against what its assignor was told, not against the group as it is: that may have gone on meanwhile. It is
the target of the epoch that it was computed for, and if the group is at a newer one, the next computation begins at
once. A worker that has left since then is left out; one that has come since then has no part yet.
"""

from coordinator.connect_groups import computing, records
from coordinator.connect_groups.computation import Prepared
from coordinator.connect_groups.formats import read_metadata
from coordinator.connect_groups.group import ConnectGroup, Leader, Part
from coordinator.connect_groups.member import Details
from coordinator.connect_groups.preparing import computation_of
from coordinator.connect_groups.settings import MAX_METADATA_BYTES
from coordinator.connect_groups.shard import ConnectShard
from coordinator.connect_groups.work import Work, listed
from coordinator.errors import CoordinatorError
from coordinator.shard import Call
from protocol_codecs.connect_groups import (
    ConnectErrorCode,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupInstallAssignmentRequestMember,
    ConnectGroupInstallAssignmentResponse,
)
from protocol_codecs.records import CoordinatorRecord


class InvalidAssignment(CoordinatorError):
    """What a worker computed is no assignment of the group that it was told of (INVALID_ASSIGNMENT)."""


def serve(
    shard: ConnectShard, request: ConnectGroupInstallAssignmentRequest, _call: Call
) -> ConnectGroupInstallAssignmentResponse:
    """Serve the request. Raises RequestRefused."""
    group, computation = computation_of(shard, request)
    try:
        prepared, parts = checked(computation.prepared, request)
    except InvalidAssignment as invalid:
        shard.counts.refused_installs += 1
        return ConnectGroupInstallAssignmentResponse(
            error_code=ConnectErrorCode.INVALID_ASSIGNMENT, error_message=str(invalid)
        )
    if has_only_failed(request):
        details = Details(error=request.error)
        parts = {member_id: Part(group.part_of(member_id).works, details) for member_id in group.members}
    remaining = {member_id: part for member_id, part in parts.items() if member_id in group.members}
    said = read_metadata(prepared.members[request.member_id].metadata)
    leader = Leader(request.member_id, said.url if said is not None else "", prepared.config_offset)
    install(shard, group, [records.target(group.group_id, prepared.group_epoch, remaining, leader)])
    return ConnectGroupInstallAssignmentResponse()


def install(shard: ConnectShard, group: ConnectGroup, change: list[CoordinatorRecord]) -> None:
    """Make a change with a new target, and begin the next computation if the group is at a newer epoch already."""
    group.expired_computing = []
    computing.end(shard, group)
    shard.apply(change)
    shard.counts.installs += 1
    computing.keep_up(shard, group.group_id)


def checked(
    prepared: Prepared | None, request: ConnectGroupInstallAssignmentRequest
) -> tuple[Prepared, dict[str, Part]]:
    """Return what it was computed from, and each worker's part. Raises InvalidAssignment.

    - It was computed for the epoch that this worker was told last.
    - Its members are those that it was told of, each at most once, and each with metadata that its assignor reads.
    - Every connector and task that is configured is assigned once, and nothing else.

    An assignor that failed (``error``) may name no members at all; then all keep what they have, and hear of the error.
    """
    if prepared is None or request.group_epoch != prepared.group_epoch:
        raise InvalidAssignment(
            f"it is for group epoch {request.group_epoch}; what was asked for is "
            + ("nothing" if prepared is None else f"epoch {prepared.group_epoch}")
        )
    parts: dict[str, Part] = {}
    assigned: set[Work] = set()
    for member in request.members:
        if member.member_id in parts:
            raise InvalidAssignment(f"member {member.member_id!r} is named twice")
        parts[member.member_id] = _part(prepared, member, request.error, assigned)
    missing = prepared.configured - assigned
    if missing and not has_only_failed(request):
        raise InvalidAssignment(f"{min(missing)} is assigned to nobody, as {len(missing)} are in all")
    return prepared, parts


def has_only_failed(request: ConnectGroupInstallAssignmentRequest) -> bool:
    """Whether the assignor reports an error, and no assignment."""
    return request.error != 0 and not request.members


def _part(
    prepared: Prepared,
    member: ConnectGroupInstallAssignmentRequestMember,
    error: int,
    assigned: set[Work],
) -> Part:
    """Return one worker's part, and add it to what is assigned. Raises InvalidAssignment."""
    told = prepared.members.get(member.member_id)
    if told is None:
        raise InvalidAssignment(f"there is no member {member.member_id!r}")
    if not told.reads(member.version):
        raise InvalidAssignment(
            f"metadata of version {member.version} for {member.member_id!r}, which reads "
            f"{told.minimum_version} to {told.maximum_version}"
        )
    if len(member.metadata) > MAX_METADATA_BYTES:
        raise InvalidAssignment(f"{len(member.metadata)} bytes of metadata for {member.member_id!r}")
    works = listed(member.connectors_and_tasks)
    for work in works:
        if work not in prepared.configured:
            raise InvalidAssignment(f"{work} is not configured")
        if work in assigned:
            raise InvalidAssignment(f"{work} is assigned twice")
        assigned.add(work)
    return Part(frozenset(works), Details(error, member.version, member.metadata))
