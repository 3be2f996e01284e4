"""A member of the new protocol goes back to the classic one, in the JoinGroup of its client.

With the last of them that leaves a group in which classic members stay, the broker makes it a classic group again,
takes the members' targets for what they hold, and begins a rebalance, which puts that right (KIP-848, "Supporting
Online Consumer Group Upgrade"). A first heartbeat that arrives in that rebalance, from another client or through
another process, converts the group once more, and what its members still have to give up is given away while they work
on it. So the last one waits until nobody has anything to give up; then the targets are what is held.
"""

import math
from collections.abc import Generator
from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from translation.actions import Connection, Request
from translation.context import Context
from translation.exchange import Ask, Park, Steps, UpstreamLost
from translation.heartbeat import beat
from translation.member import Member
from translation.outcomes import (
    Failed,
    Outcome,
    overtake,
    park,
    patience,
    refuse_overtaken,
    resume_session,
)
from translation.switching import end_left_behind, join_classic, leave_translated

_TELLS_TYPES = 1
"""The version of ConsumerGroupDescribe since which the broker says who speaks which protocol (KIP-1099)."""
_NEW_PROTOCOL = 1


def back_to_classic(
    context: Context, member: Member | None, connection: Connection, request: Request
) -> Steps:
    """Relay a JoinGroup of a client that was translated, after its memberships in the new protocol are ended."""
    if member is not None and any(one.joined for one in _memberships(member, request)):
        try:
            yield from _leave(context, member, connection, request)
        except Outcome as outcome:
            outcome.settle(context, member, request)
            return
        except UpstreamLost:
            resume_session(context, member)
            refuse_overtaken(context, member)  # on other connections, which are still there
            raise
        refuse_overtaken(context, member)
    yield from join_classic(context, request)


def _memberships(member: Member, request: Request) -> list[Member]:
    """What is known of this client: the member whose turn it is, and any other with its instance id.

    The broker would put the classic client in the place of such a one, and make the group a classic one at once,
    without a rebalance.
    """
    instance_id = request.message.group_instance_id or None
    others = member.group.members.values()
    return [one for one in others if one is member or (instance_id and one.instance_id == instance_id)]


def _leave(
    context: Context, member: Member, connection: Connection, request: Request
) -> Generator[Ask | Park, Any, None]:
    """End its memberships, each if the client still has it when its turn comes."""
    overtake(context, member)
    # As in any JoinGroup: while the client waits for the answer, no deadline of its own runs.
    member.session_deadline = member.rebalance_deadline = math.inf
    deadline = context.now + patience(context, member)
    yield from end_left_behind(member)
    for one in _memberships(member, request):
        while one.joined and (yield from _has_to_wait(context, one, connection)):
            if context.now >= deadline:
                raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "others have partitions to give up")
            yield from park(member, request, context.now + context.settings.join_poll_s)
            if one is member and one.joined:
                yield from beat(context, one)
        if one.joined:
            yield from leave_translated(context, one, "back to the classic protocol")
            context.drop_if_idle(one)


def _has_to_wait(
    context: Context, member: Member, connection: Connection
) -> Generator[Ask | Park, Any, bool]:
    """Whether this is the last member of the new protocol, and others still have something to give up.

    False if the broker does not say who is in the group.
    """
    version = context.version(connection, ApiKey.CONSUMER_GROUP_DESCRIBE, newest=_TELLS_TYPES)
    if version != _TELLS_TYPES or _is_known_not_to_be_the_last(member):
        return False
    message = ConsumerGroupDescribeRequest(group_ids=(member.group.id,))
    response: ConsumerGroupDescribeResponse = yield Ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, message)
    return any(_others_have_to_give_up(group, member) for group in response.groups)


def _is_known_not_to_be_the_last(member: Member) -> bool:
    """Whether another client of this process is in the group, and stays: the broker need not be asked."""
    group = member.group
    return any(
        other.joined and not other.away and other.id not in group.leaving
        for other in group.members.values()
        if other is not member
    )


def _others_have_to_give_up(group: ConsumerGroupDescribeResponseDescribedGroup, member: Member) -> bool:
    """Whether all others are classic members, and one of them has not come to the target assignment."""
    others = [
        other
        for other in group.members
        if other.member_id != member.id and other.member_id not in member.group.leaving
    ]
    return (
        group.error_code == ErrorCode.NONE
        and all(other.member_type != _NEW_PROTOCOL for other in others)
        and any(0 <= other.member_epoch < group.assignment_epoch for other in others)
    )
