"""ListGroups (16), v0 to v5: lists the groups of this coordinator, optionally filtered by state and type."""

from coordinator.consumer_groups.group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from coordinator.shard import Call, Group, Shard
from coordinator.share_groups.group import SHARE_PROTOCOL_TYPE, ShareGroup
from protocol_codecs.all_messages import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"


def serve(shard: Shard, request: ListGroupsRequest, _call: Call) -> ListGroupsResponse:
    """Serve the request. Filters ignore case; an unknown type matches nothing."""
    states = {state.lower().strip() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed = (_listed(group) for group in shard.groups.values())
    return ListGroupsResponse(
        groups=tuple(
            group
            for group in listed
            if (not states or group.group_state.lower() in states)
            and (not types or group.group_type in types)
        )
    )


def _listed(group: Group) -> ListedGroup:
    match group:
        case ConsumerGroup():
            protocol_type, group_type = CONSUMER_PROTOCOL_TYPE, CONSUMER
        case ShareGroup():
            protocol_type, group_type = SHARE_PROTOCOL_TYPE, SHARE
        case _:
            protocol_type, group_type = group.protocol_type or "", CLASSIC
    return ListedGroup(
        group_id=group.group_id, protocol_type=protocol_type, group_state=group.state, group_type=group_type
    )
