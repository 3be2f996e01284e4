"""Applies one record to the groups: the only place where they change, now and when the log is read again."""

from coordinator.connect_groups import records
from coordinator.connect_groups.group import NO_LEADER, ConnectGroup, Leader
from coordinator.connect_groups.member import NO_DETAILS, ConnectMember, MemberState
from coordinator.connect_groups.work import from_message
from coordinator.errors import BrokenInvariant
from protocol_codecs import connect_groups as c
from protocol_codecs.records import CoordinatorRecord


def replay(groups: dict[str, ConnectGroup], record: CoordinatorRecord) -> None:
    """Apply the record. Raises BrokenInvariant if it is about a group that no record has begun."""
    key, value = record.key, record.value
    match key:
        case c.ConnectWorkerGroupMetadataKey():
            _group_epoch(groups, key, value)
        case c.ConnectWorkerGroupConnectorsTasksMetadataKey():
            _configured(_group(groups, key.group_id), value)
        case c.ConnectWorkerGroupMemberMetadataKey():
            _declarations(_group(groups, key.group_id), key.member_id, value)
        case c.ConnectWorkerGroupTargetAssignmentKey():
            _target(_group(groups, key.group_id), value)
        case c.ConnectWorkerGroupCurrentMemberAssignmentKey():
            _current(_group(groups, key.group_id), key.member_id, value)
        case _:
            raise BrokenInvariant(f"{type(key).__name__} is no record of a Connect group")


def _group(groups: dict[str, ConnectGroup], group_id: str) -> ConnectGroup:
    group = groups.get(group_id)
    if group is None:
        raise BrokenInvariant(f"a record of Connect group {group_id!r}, which has no epoch")
    return group


def _group_epoch(
    groups: dict[str, ConnectGroup], key: c.ConnectWorkerGroupMetadataKey, value: object
) -> None:
    if not isinstance(value, c.ConnectWorkerGroupMetadataValue):
        groups.pop(key.group_id, None)
        return
    group = groups.get(key.group_id)
    if group is None:
        groups[key.group_id] = ConnectGroup(key.group_id, value.epoch)
    else:
        group.group_epoch = value.epoch


def _configured(group: ConnectGroup, value: object) -> None:
    if isinstance(value, c.ConnectWorkerGroupConnectorsTasksMetadataValue):
        group.configured = from_message(value.connectors_tasks)
        group.config_offset = value.config_offset
    else:
        group.configured, group.config_offset = frozenset(), -1


def _declarations(group: ConnectGroup, member_id: str, value: object) -> None:
    if isinstance(value, c.ConnectWorkerGroupMemberMetadataValue):
        member = group.members.get(member_id) or ConnectMember(member_id=member_id)
        group.put_member(records.with_declarations(member, value))
    else:
        group.remove_member(member_id)


def _target(group: ConnectGroup, value: object) -> None:
    if isinstance(value, c.ConnectWorkerGroupTargetAssignmentValue):
        group.target = records.parts(value)
        group.assignment_epoch = value.assignment_epoch
        group.leader = Leader(value.leader, value.leader_url, value.config_offset)
    else:
        group.target, group.leader = {}, NO_LEADER


def _current(group: ConnectGroup, member_id: str, value: object) -> None:
    member = group.members.get(member_id)
    if member is None:
        raise BrokenInvariant(f"a current assignment of {member_id!r}, which declared nothing")
    if isinstance(value, c.ConnectWorkerGroupCurrentMemberAssignmentValue):
        group.put_member(records.with_current(member, value))
    else:
        group.put_member(
            member.replace(
                member_epoch=0,
                previous_member_epoch=0,
                state=MemberState.STABLE,
                assigned=frozenset(),
                pending_revocation=frozenset(),
                details=NO_DETAILS,
            )
        )
