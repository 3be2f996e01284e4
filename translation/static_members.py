"""Decides which member has a group instance id, and what happens to the member that had it before (KIP-345).

The classic contract, which old clients rely on, is that the newest process wins: a JoinGroup with a known instance id
and without a member id replaces the member that has the id, and that one is answered FENCED_INSTANCE_ID from then on.
A broker of the new protocol refuses the newer process instead (UNRELEASED_INSTANCE_ID) until the older one says that it
is away (epoch -2); so the proxy says it in its place. ``Group.static_members`` keeps the member id by instance id.
"""

from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from translation.actions import EventKind
from translation.engine.context import Context
from translation.engine.join_outcomes import Failed
from translation.engine.member import Member
from translation.engine.procedure import Procedure, Send
from translation.member_state import MemberEvent
from translation.upstream.consumer_group_heartbeat import LEAVE_STATIC_EPOCH, leave_for


def is_fenced(context: Context, group_id: str, member_id: str, instance_id: str | None) -> bool:
    """Whether another member has this instance id now: the classic contract is that the newer one wins."""
    if instance_id is None or not context.settings.sole_process:
        # Another process may have seen a later one: the broker is asked (:mod:`translation.migration.adoption`).
        return False
    group = context.registry.groups.get(group_id)
    holder_id = None if group is None else group.static_members.get(instance_id)
    return holder_id is not None and holder_id != member_id


def membership_error(context: Context, member: Member, message: Any) -> ErrorCode:
    """What a client is answered whose membership has ended, maybe while its call waited."""
    if is_fenced(context, member.group.group_id, member.member_id, message.group_instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.UNKNOWN_MEMBER_ID


def claim_when_join_begins(context: Context, member: Member, *, is_new: bool) -> None:
    """A JoinGroup of this member came; with ``is_new`` it is that of a new process, which came without a member id."""
    if member.client.instance_id is not None and is_new:
        # A new process has it at once, because the newer one wins.
        member.group.static_members[member.client.instance_id] = member.member_id
    elif member.joined:  # else it may be an older one: the broker is asked first
        claim_instance(context, member)


def claim_after_preflight(context: Context, member: Member, instead_of: str | None) -> None:
    """The member has its instance id from now on, in the place of the member that had it when its JoinGroup came.

    :raises Failed: a newer process has taken it meanwhile.
    """
    if member.client.instance_id is not None:
        holder = member.group.static_members.get(member.client.instance_id)
        if holder not in (None, member.member_id, instead_of):
            raise Failed(ErrorCode.FENCED_INSTANCE_ID, "a newer process has its instance id")
        claim_instance(context, member)


def claim_instance(context: Context, member: Member) -> None:
    """The broker has this member with its instance id: so it is here, unless a newer process takes it over.

    A process that alone serves the group knows who is the newest. One of several may know an older one; there a
    newer one is that whose first JoinGroup is under way.
    """
    if member.client.instance_id is None:
        return
    static = member.group.static_members
    holder = member.group.members.get(static.get(member.client.instance_id, member.member_id))
    if holder is None or holder is member or (holder.joined and not context.settings.sole_process):
        static[member.client.instance_id] = member.member_id


def forget_instance(member: Member) -> None:
    """The member's client is a classic one from now on, and so is whoever comes with its instance id."""
    if member.group.static_members.get(member.client.instance_id or "") == member.member_id:
        del member.group.static_members[member.client.instance_id or ""]


def release_instance(context: Context, member: Member, *, is_new: bool) -> Procedure[None]:
    """The broker answered UNRELEASED_INSTANCE_ID: it has another member with this instance id.

    The new process replaces that member at once: it leaves with epoch -2 in its place. As in the classic protocol the
    JoinGroup that came last wins, so an older one gives up, and only a process that comes without a member id is a new
    one (``is_new``); one that has an id already replaces nobody but itself.

    :raises Failed: another process has the instance id.
    """
    _fail_if_replaced(member)
    describe = ConsumerGroupDescribeRequest(group_ids=(member.group.group_id,))
    response: ConsumerGroupDescribeResponse = yield Send(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, describe)
    for group in response.groups:
        for described in group.members:
            if described.instance_id == member.client.instance_id:
                if not is_new and described.member_id != member.member_id:
                    raise Failed(ErrorCode.FENCED_INSTANCE_ID, "another process has its instance id")
                _fail_if_replaced(member)
                yield from leave_for(member, described.member_id, LEAVE_STATIC_EPOCH)
                replaced = context.registry.find(member.group.group_id, described.member_id)
                if replaced is not None and replaced is not member:
                    context.memberships.end(
                        replaced, MemberEvent.REPLACED, EventKind.FENCED, "a new process has its instance id"
                    )
                    context.registry.drop_if_idle(replaced)


def _fail_if_replaced(member: Member) -> None:
    """Raise if a newer JoinGroup has taken this one's instance id over."""
    if member.group.static_members.get(member.client.instance_id or "", member.member_id) != member.member_id:
        raise Failed(ErrorCode.FENCED_INSTANCE_ID, "a newer process has its instance id")
