"""Decides when the last member of the new protocol may leave a group in which classic members stay.

When it leaves, the broker makes the group a classic one again. It takes the target assignment of each member for what
the member owns, and starts a rebalance that corrects this (KIP-848, "Supporting Online Consumer Group Upgrade"). A
first heartbeat that arrives in that rebalance, from another client or through another process, converts the group once
more, and partitions are given away while members still work on them. So the last member waits until each classic member
has reached the group epoch; then each owns its target assignment.
"""

from collections.abc import Container

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from translation.actions import Call, Connection
from translation.members.member import Group, Member
from translation.members.procedure import Procedure

TELLS_TYPES = 1
"""The first version of ConsumerGroupDescribe that gives each member's protocol (KIP-1099)."""
CLASSIC, _NEW_PROTOCOL = 0, 1
"""The protocol of a member, as ConsumerGroupDescribe tells it."""


def has_to_wait_for_others(member: Member, connection: Connection) -> Procedure[bool]:
    """Ask the broker whether this is the last member of the new protocol, and others still have something to give up.

    False if it has left already, and if the broker does not say who is in the group.
    """
    return member.joined and (
        yield from would_leave_others_behind(member.group, member.member_id, connection)
    )


def would_leave_others_behind(group: Group, member_id: str, connection: Connection) -> Procedure[bool]:
    """Ask the broker whether the end of this member leaves classic members only, one of them behind the group epoch.

    False if the broker does not say who is in the group.
    """
    version = connection.version(ApiKey.CONSUMER_GROUP_DESCRIBE, newest=TELLS_TYPES)
    if version != TELLS_TYPES or _is_known_not_to_be_the_last(group, member_id):
        return False
    message = ConsumerGroupDescribeRequest(group_ids=(group.group_id,))
    response: ConsumerGroupDescribeResponse = yield Call(ApiKey.CONSUMER_GROUP_DESCRIBE, version, message)
    return any(others_have_to_give_up(described, member_id, group.leaving) for described in response.groups)


def _is_known_not_to_be_the_last(group: Group, member_id: str) -> bool:
    """Whether another client of this process is in the group, and stays: the broker need not be asked."""
    return any(
        other.joined and not other.may_have_moved and other.member_id not in group.leaving
        for other in group.members.values()
        if other.member_id != member_id
    )


def others_have_to_give_up(
    group: ConsumerGroupDescribeResponseDescribedGroup, member_id: str, leaving: Container[str]
) -> bool:
    """Whether all other members are classic, and one of them has not reached the group epoch.

    The broker makes the group epoch the generation of the classic group (``ClassicGroup.fromConsumerGroup``), and
    answers a member with an older epoch ILLEGAL_GENERATION: its client loses its partitions. The group epoch is ahead
    of the assignment epoch from a leave until the next assignment. Those that are ``leaving`` do not count.
    """
    others = [
        other for other in group.members if other.member_id != member_id and other.member_id not in leaving
    ]
    return (
        group.error_code == ErrorCode.NONE
        and all(other.member_type != _NEW_PROTOCOL for other in others)
        and any(0 <= other.member_epoch < group.group_epoch for other in others)
    )
