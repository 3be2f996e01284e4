"""Decides which member has a ``group.instance.id``, and what happens to the member that had it before (KIP-345):
FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID.

The classic contract, which old clients rely on, is that the newest process wins: a JoinGroup with a known instance id
and without a member id replaces the member that has the id, and that one is answered FENCED_INSTANCE_ID from then on.
A broker of the new protocol refuses the newer process instead (UNRELEASED_INSTANCE_ID) until the older one leaves for a
while (epoch -2); so the proxy sends that for it. ``Group.static_members`` has the member id by instance id.
"""

from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from translation import error_mapping
from translation.actions import Call, EventKind, Request
from translation.engine.context import Context
from translation.engine.join_outcomes import Failed, ensure_client_waiting
from translation.engine.registry import Registry
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_state import MemberEvent
from translation.members.procedure import Procedure
from translation.upstream.leave_epoch import leave_for_newer


def is_fenced(
    environment: Environment, registry: Registry, group_id: str, member_id: str, instance_id: str | None
) -> bool:
    """Whether a newer member has this instance id, so that this one's calls are answered FENCED_INSTANCE_ID."""
    if instance_id is None or not environment.settings.sole_process:
        # Another process may have seen a later one: the broker is asked (:mod:`translation.joining.adoption`).
        return False
    group = registry.groups.get(group_id)
    holder_id = None if group is None else group.static_members.get(instance_id)
    return holder_id is not None and holder_id != member_id


def membership_error(environment: Environment, registry: Registry, member: Member, message: Any) -> ErrorCode:
    """The code for a client whose membership has ended here, maybe while its call waited.

    If another replica serves the member, its client tries again, and hears there what becomes of it.
    """
    if is_fenced(environment, registry, member.group.group_id, member.member_id, message.group_instance_id):
        return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if member.taken else ErrorCode.UNKNOWN_MEMBER_ID


def claim_when_join_begins(environment: Environment, member: Member, *, is_new: bool) -> None:
    """Give a member that joins its instance id at once, if it is a new process (``is_new``: without a member id)."""
    if member.client.instance_id is not None and is_new:
        # A new process has it at once, because the newer one wins.
        member.group.static_members[member.client.instance_id] = member.member_id
    elif member.joined:  # else it may be an older one: the broker is asked first
        claim_instance(environment, member)


def claim_after_preflight(environment: Environment, member: Member, instead_of: str | None) -> None:
    """Give the member its instance id, in the place of the member that had it when its JoinGroup came.

    :raises Failed: a newer process has taken it meanwhile.
    """
    if member.client.instance_id is not None:
        holder = member.group.static_members.get(member.client.instance_id)
        if holder not in (None, member.member_id, instead_of):
            raise Failed(ErrorCode.FENCED_INSTANCE_ID, "a newer process has its instance id")
        claim_instance(environment, member)


def claim_instance(environment: Environment, member: Member) -> None:
    """Give a member that the broker has its instance id, unless a newer member takes it over.

    The only process that serves a group knows which member is the newest. One of several may know an older one; there
    only a member whose first JoinGroup is under way counts as newer.
    """
    if member.client.instance_id is None:
        return
    static = member.group.static_members
    holder = member.group.members.get(static.get(member.client.instance_id, member.member_id))
    if holder is None or holder is member or (holder.joined and not environment.settings.sole_process):
        static[member.client.instance_id] = member.member_id


def forget_instance(member: Member) -> None:
    """Forget which member has the instance id: from now on its client, and any with that instance id, is classic."""
    if member.group.static_members.get(member.client.instance_id or "") == member.member_id:
        del member.group.static_members[member.client.instance_id or ""]


def release_instance(
    context: Context, member: Member, request: Request, *, is_new: bool
) -> Procedure[list[str]]:
    """Release the instance id after the broker answered UNRELEASED_INSTANCE_ID: it has another member with it.

    A heartbeat with epoch -2 is sent for that member, and the new process takes its place. As in the classic protocol
    the JoinGroup that came last wins, so an older one fails. Only a process that comes without a member id is a new one
    (``is_new``); one that has an id already replaces nobody but itself. Returns the other member ids that have left;
    they are dead as soon as the broker has this member in their place.

    :raises Failed: another process has the instance id, another replica serves this one, or the client has hung up: a
        JoinGroup that arrives late must not replace the one that the same client sent since, through another process.
        Or the broker does not coordinate the group any more. It may go on saying that the instance id is in use, which
        is not to become the client's FENCED_INSTANCE_ID: that ends its process.
    """
    _fail_if_replaced(member)
    left: list[str] = []
    describe = ConsumerGroupDescribeRequest(group_ids=(member.group.group_id,))
    response: ConsumerGroupDescribeResponse = yield Call(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, describe)
    for group in response.groups:
        for described in group.members:
            if described.instance_id == member.client.instance_id:
                if not is_new and described.member_id != member.member_id:
                    raise Failed(ErrorCode.FENCED_INSTANCE_ID, "another process has its instance id")
                _fail_if_replaced(member)
                if not context.member_log.may_speak_for(member):
                    raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "another replica serves it")
                ensure_client_waiting(context.connections, member, request)
                answer = yield from leave_for_newer(member, described.member_id)
                if answer.error_code in error_mapping.NO_COORDINATOR:
                    raise Failed(answer.error_code, "the broker could not release its instance id")
                if described.member_id != member.member_id:
                    left.append(described.member_id)
                replaced = context.registry.find(member.group.group_id, described.member_id)
                if replaced is not None and replaced is not member:
                    context.memberships.end(
                        replaced, MemberEvent.REPLACED, EventKind.FENCED, "a new process has its instance id"
                    )
                    context.registry.drop_if_idle(replaced)
    return left


def _fail_if_replaced(member: Member) -> None:
    """Raise if a newer JoinGroup has taken this one's instance id over."""
    if member.group.static_members.get(member.client.instance_id or "", member.member_id) != member.member_id:
        raise Failed(ErrorCode.FENCED_INSTANCE_ID, "a newer process has its instance id")
