"""Asks the broker who is in a group, and with which protocol: what shares of its members are counted by."""

from collections.abc import Set as AbstractSet

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseMember,
)
from protocol_codecs.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from translation.actions import Call, Connection
from translation.engine.registry import Registry
from translation.members.conversion import is_helper
from translation.members.procedure import Procedure
from translation.rollout.moves import Moves
from translation.rollout.slots import GroupMembers

_DESCRIBE_GROUPS_VERSION = 5
_CLASSIC_MEMBER = 0
_HIDDEN = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED})
_HIDDEN_CENSUS = GroupMembers(
    is_consumer_group=True, translated=frozenset(), classic=frozenset(), instances={}, is_hidden=True
)


def describe_members(
    moves: Moves, registry: Registry, group_id: str, connection: Connection
) -> Procedure[GroupMembers | None]:
    """Return who is in the group; None if the broker does not say now.

    It never tells a principal that may not describe all topics of a consumer group's members
    (:attr:`GroupMembers.is_hidden`).
    """
    version = connection.version(ApiKey.CONSUMER_GROUP_DESCRIBE, newest=1)
    if version is not None:
        response: ConsumerGroupDescribeResponse = yield Call(
            ApiKey.CONSUMER_GROUP_DESCRIBE, version, ConsumerGroupDescribeRequest(group_ids=(group_id,))
        )
        codes = {group.error_code for group in response.groups}
        if codes == {ErrorCode.NONE}:
            return _of_consumer_group(moves, registry, group_id, response.groups[0].members)
        if codes != {ErrorCode.GROUP_ID_NOT_FOUND}:
            return _HIDDEN_CENSUS if codes and codes <= _HIDDEN else None
    classic: DescribeGroupsResponse = yield Call(
        ApiKey.DESCRIBE_GROUPS, _DESCRIBE_GROUPS_VERSION, DescribeGroupsRequest(groups=(group_id,))
    )
    codes = {group.error_code for group in classic.groups}
    if codes != {ErrorCode.NONE}:
        return _HIDDEN_CENSUS if codes and codes <= _HIDDEN else None
    members = classic.groups[0].members
    return GroupMembers(
        is_consumer_group=False,
        translated=frozenset(),
        classic=frozenset(one.member_id for one in members),
        instances={},
        static=frozenset(one.group_instance_id for one in members if one.group_instance_id is not None),
    )


def _of_consumer_group(
    moves: Moves, registry: Registry, group_id: str, members: tuple[ConsumerGroupDescribeResponseMember, ...]
) -> GroupMembers:
    members = tuple(one for one in members if not is_helper(one.member_id))
    slots = (stored.record.slot for stored in moves.slots(group_id).values())
    holders = {slot.member_id for slot in slots if slot is not None}
    classic = frozenset(one.member_id for one in members if one.member_type == _CLASSIC_MEMBER)
    translated = frozenset(
        one.member_id
        for one in members
        if one.member_id not in classic and _is_translated(registry, group_id, one.member_id, holders)
    )
    instances = {one.instance_id: one.member_id for one in members if one.instance_id is not None}
    return GroupMembers(
        is_consumer_group=True,
        translated=translated,
        classic=classic,
        instances={instance: one for instance, one in instances.items() if one in translated},
        static=frozenset(instances),
        has_natives=len(classic) + len(translated) < len(members),
    )


def _is_translated(registry: Registry, group_id: str, member_id: str, holders: AbstractSet[str]) -> bool:
    """Whether a member of the new protocol is a client that is translated, and no native member."""
    return member_id in holders or registry.is_ours(group_id, member_id)
