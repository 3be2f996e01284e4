"""Splits requests about several groups by coordinator, and merges the answers."""

import msgspec

from protocol_codecs import all_messages as m
from protocol_codecs.message import Message


def groups_of(request: Message) -> tuple[str, ...] | None:
    """Return the groups that a request is about; None if it is about all of them."""
    match request:
        case m.ListGroupsRequest():
            return None
        case m.DescribeGroupsRequest():
            return request.groups
        case m.ConsumerGroupDescribeRequest() | m.ShareGroupDescribeRequest():
            return request.group_ids
        case m.DeleteGroupsRequest():
            return request.groups_names
        case m.OffsetFetchRequest() | m.DescribeShareGroupOffsetsRequest() if request.groups:
            return tuple(group.group_id for group in request.groups)
        case _:
            return (str(getattr(request, "group_id", "")),)


def restricted_to(request: Message, group_ids: frozenset[str]) -> Message:
    """Return the request with only these of its groups."""
    match request:
        case m.DescribeGroupsRequest():
            return msgspec.structs.replace(request, groups=_only(request.groups, group_ids))
        case m.ConsumerGroupDescribeRequest() | m.ShareGroupDescribeRequest():
            return msgspec.structs.replace(request, group_ids=_only(request.group_ids, group_ids))
        case m.DeleteGroupsRequest():
            return msgspec.structs.replace(request, groups_names=_only(request.groups_names, group_ids))
        case m.OffsetFetchRequest() | m.DescribeShareGroupOffsetsRequest() if request.groups:
            groups = tuple(group for group in request.groups if group.group_id in group_ids)
            return msgspec.structs.replace(request, groups=groups)
        case _:
            return request


def merged(responses: list[Message]) -> Message:
    """Merge the answers to the parts of a request about several groups."""
    first = responses[0]
    for field in ("groups", "results"):
        if len(responses) > 1 and hasattr(first, field):
            parts = tuple(part for response in responses for part in getattr(response, field))
            return msgspec.structs.replace(first, **{field: parts})
    return first


def _only(group_ids: tuple[str, ...], wanted: frozenset[str]) -> tuple[str, ...]:
    return tuple(group_id for group_id in group_ids if group_id in wanted)
