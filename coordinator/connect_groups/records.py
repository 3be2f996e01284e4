"""Builds the records of a Connect group from its state, and reads them back."""

from collections.abc import Mapping

from coordinator.connect_groups.group import Leader, Part
from coordinator.connect_groups.member import Assignor, ClassicWorker, ConnectMember, Details, MemberState
from coordinator.connect_groups.work import WorkSet, as_message, from_message
from protocol_codecs import connect_groups as c
from protocol_codecs.all_messages import JoinGroupRequestProtocol
from protocol_codecs.records import CoordinatorRecord


def group_epoch(group_id: str, epoch: int) -> CoordinatorRecord:
    """Build the record of the group epoch."""
    return CoordinatorRecord(
        c.ConnectWorkerGroupMetadataKey(group_id=group_id), c.ConnectWorkerGroupMetadataValue(epoch=epoch)
    )


def configured(group_id: str, epoch: int, works: WorkSet, config_offset: int) -> CoordinatorRecord:
    """Build the record of what has to be assigned, since this group epoch."""
    return CoordinatorRecord(
        c.ConnectWorkerGroupConnectorsTasksMetadataKey(group_id=group_id),
        c.ConnectWorkerGroupConnectorsTasksMetadataValue(
            epoch=epoch, connectors_tasks=as_message(works), config_offset=config_offset
        ),
    )


def declarations(group_id: str, epoch: int, member: ConnectMember) -> CoordinatorRecord:
    """Build the record of what a worker declares, since this group epoch."""
    return CoordinatorRecord(
        c.ConnectWorkerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        c.ConnectWorkerGroupMemberMetadataValue(
            group_epoch=epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            assignors=tuple(
                c.MemberAssignor(
                    name=assignor.name,
                    minimum_version=assignor.minimum_version,
                    maximum_version=assignor.maximum_version,
                    reason=assignor.reason,
                    version=assignor.version,
                    metadata=assignor.metadata,
                )
                for assignor in member.assignors
            ),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            config_offset=member.config_offset,
            session_timeout_ms=-1 if member.classic is None else member.classic.session_timeout_ms,
            classic_protocols=tuple(
                c.MemberClassicProtocol(name=one.name, metadata=one.metadata)
                for one in (member.classic.protocols if member.classic is not None else ())
            ),
        ),
    )


def target(group_id: str, epoch: int, parts: Mapping[str, Part], leader: Leader) -> CoordinatorRecord:
    """Build the record of the target assignment."""
    return CoordinatorRecord(
        c.ConnectWorkerGroupTargetAssignmentKey(group_id=group_id),
        c.ConnectWorkerGroupTargetAssignmentValue(
            assignment_epoch=epoch,
            members=tuple(
                c.ConnectWorkerGroupTargetAssignmentMember(
                    member_id=member_id,
                    error=part.details.error,
                    connectors_tasks=as_message(part.works),
                    version=part.details.version,
                    metadata=part.details.metadata,
                )
                for member_id, part in parts.items()
            ),
            leader=leader.member_id,
            leader_url=leader.url,
            config_offset=leader.config_offset,
        ),
    )


def current(group_id: str, member: ConnectMember) -> CoordinatorRecord:
    """Build the record of a worker's current assignment."""
    return CoordinatorRecord(
        c.ConnectWorkerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        c.ConnectWorkerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            error=member.details.error,
            connectors_tasks=as_message(member.assigned),
            version=member.details.version,
            metadata=member.details.metadata,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            pending_revocation=as_message(member.pending_revocation),
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Build the tombstones of a worker that has gone. The current assignment goes first, as it came last."""
    return [
        CoordinatorRecord(
            c.ConnectWorkerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
        ),
        CoordinatorRecord(c.ConnectWorkerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    """Build the tombstones of a group without workers."""
    return [
        CoordinatorRecord(c.ConnectWorkerGroupTargetAssignmentKey(group_id=group_id)),
        CoordinatorRecord(c.ConnectWorkerGroupConnectorsTasksMetadataKey(group_id=group_id)),
        CoordinatorRecord(c.ConnectWorkerGroupMetadataKey(group_id=group_id)),
    ]


def with_declarations(member: ConnectMember, value: c.ConnectWorkerGroupMemberMetadataValue) -> ConnectMember:
    """Return the worker with what the record says."""
    return member.replace(
        client_id=value.client_id,
        client_host=value.client_host,
        assignors=tuple(
            Assignor(
                name=assignor.name,
                minimum_version=assignor.minimum_version,
                maximum_version=assignor.maximum_version,
                version=assignor.version,
                metadata=assignor.metadata,
                reason=assignor.reason,
            )
            for assignor in value.assignors
        ),
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        config_offset=value.config_offset,
        classic=None
        if value.session_timeout_ms < 0
        else ClassicWorker(
            value.session_timeout_ms,
            tuple(
                JoinGroupRequestProtocol(name=one.name, metadata=one.metadata)
                for one in value.classic_protocols
            ),
        ),
    )


def with_current(
    member: ConnectMember, value: c.ConnectWorkerGroupCurrentMemberAssignmentValue
) -> ConnectMember:
    """Return the worker with what the record says."""
    return member.replace(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=from_message(value.connectors_tasks),
        pending_revocation=from_message(value.pending_revocation),
        details=Details(value.error, value.version, value.metadata),
    )


def parts(value: c.ConnectWorkerGroupTargetAssignmentValue) -> dict[str, Part]:
    """Return the target that the record says."""
    return {
        member.member_id: Part(
            from_message(member.connectors_tasks), Details(member.error, member.version, member.metadata)
        )
        for member in value.members
    }
