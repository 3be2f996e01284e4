"""Serves ConnectGroupPrepareAssignment: tells the computing member of its group."""

from msgspec.structs import replace

from coordinator.connect_groups.computation import Computation, Prepared
from coordinator.connect_groups.group import ConnectGroup
from coordinator.connect_groups.shard import ConnectShard
from coordinator.connect_groups.validation import check_prepare
from coordinator.connect_groups.work import as_message
from coordinator.errors import RequestRefused
from coordinator.shard import Call
from protocol_codecs.connect_groups import (
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
    ConnectGroupPrepareAssignmentResponseAssignor,
    ConnectGroupPrepareAssignmentResponseMember,
)
from protocol_codecs.error_code import ErrorCode


def serve(
    shard: ConnectShard, request: ConnectGroupPrepareAssignmentRequest, _call: Call
) -> ConnectGroupPrepareAssignmentResponse:
    """Serve the request. Raises RequestRefused."""
    group, computation = computation_of(shard, request)
    offers = [
        (member, offer)
        for member in group.members.values()
        if (offer := member.assignor(computation.assignor)) is not None
    ]
    prepared = Prepared(
        group_epoch=group.group_epoch,
        members={member.member_id: offer for member, offer in offers},
        configured=group.configured,
        config_offset=group.config_offset,
    )
    group.computation = replace(computation, prepared=prepared)
    return ConnectGroupPrepareAssignmentResponse(
        group_epoch=group.group_epoch,
        assignor_name=computation.assignor,
        members=tuple(
            ConnectGroupPrepareAssignmentResponseMember(
                member_id=member.member_id,
                member_epoch=member.member_epoch,
                assignor=ConnectGroupPrepareAssignmentResponseAssignor(
                    version=offer.version, reason=offer.reason, metadata=offer.metadata
                ),
                connectors_and_tasks=as_message(group.part_of(member.member_id).works),
            )
            for member, offer in offers
        ),
        configured=as_message(group.configured),
        config_offset=group.config_offset,
    )


def computation_of(
    shard: ConnectShard,
    request: ConnectGroupPrepareAssignmentRequest | ConnectGroupInstallAssignmentRequest,
) -> tuple[ConnectGroup, Computation]:
    """Return the group and the computation of the worker that asks, in the order of the KIP's checks.

    Raises RequestRefused with INVALID_REQUEST, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID (also if it is another's turn),
    and STALE_MEMBER_EPOCH (the later wording; the revision for Connect has FENCED_MEMBER_EPOCH still).
    """
    check_prepare(request)
    group = shard.group(request.group_id)
    member = group.member(request.member_id)
    if request.member_epoch != member.member_epoch:
        raise RequestRefused(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"epoch {request.member_epoch} of member {member.member_id!r}, which is at {member.member_epoch}",
        )
    computation = group.computation
    if computation is None or computation.member_id != member.member_id:
        raise RequestRefused(
            ErrorCode.UNKNOWN_MEMBER_ID, f"member {member.member_id!r} is not to compute the assignment"
        )
    return group, computation
