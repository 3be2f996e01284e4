"""DescribeGroups (15), v0 to v6: describes classic groups. Consumer groups are answered like unknown groups."""

from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.classic_groups.member import ClassicMember
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from protocol_codecs.all_messages import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND = 6


def serve(shard: Shard, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    """Serve the request."""
    return DescribeGroupsResponse(
        groups=tuple(_described(shard, group_id, call.version) for group_id in request.groups)
    )


def _described(shard: Shard, group_id: str, version: int) -> DescribedGroup:
    try:
        group = shard.classic_group(group_id)
    except RequestRefused as refused:
        if version < FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND:
            return DescribedGroup(group_id=group_id, group_state=ClassicGroupState.DEAD)
        return DescribedGroup(
            group_id=group_id,
            group_state=ClassicGroupState.DEAD,
            error_code=refused.code,
            error_message=refused.message,
        )
    is_stable = group.state is ClassicGroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=tuple(_member(group, member) for member in group.members_in_order()),
    )


def _member(group: ClassicGroup, member: ClassicMember) -> DescribedGroupMember:
    """Return one member; its subscription is included only while the group is stable."""
    is_stable = group.state is ClassicGroupState.STABLE
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name or "") if is_stable else b"",
        member_assignment=member.assignment,
    )
