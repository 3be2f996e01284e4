"""The ways out of a group: LeaveGroup, and deadlines that a client let pass."""

import math
from contextlib import suppress

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from translation.actions import Connection, EventKind, Request
from translation.engine.context import Context, replaced
from translation.engine.member import Member
from translation.engine.procedure import Procedure, Send, UpstreamLost, Wait
from translation.member_state import MemberEvent, MemberState
from translation.migration.last_consumer_member import has_to_wait_for_others
from translation.upstream.consumer_group_heartbeat import leave

_NOT_DONE_BY_BROKER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})


def named_members(context: Context, message: LeaveGroupRequest) -> list[Member | None]:
    """The member that each part of a LeaveGroup names, by member id or by instance id; None if not known here.

    Up to v2 a request has one part; since v3 it has any number.
    """
    group = context.groups.get(message.group_id)
    identities = message.members or (MemberIdentity(member_id=message.member_id),)
    if group is None:
        return [None] * len(identities)
    return [
        group.members.get(
            identity.member_id or group.static_members.get(identity.group_instance_id or "", "")
        )
        for identity in identities
    ]


def leave_group(context: Context, connection: Connection, request: Request) -> Procedure[None]:
    """A LeaveGroup of the client. Brokers since 4.0 do it for members of the new protocol themselves."""
    message: LeaveGroupRequest = request.message
    members = named_members(context, message)
    deadline = context.now + context.settings.leave_wait_s
    for last in [member for member in members if member is not None]:
        while context.now < deadline and (yield from has_to_wait_for_others(context, last, connection)):
            yield Wait(context.now + context.settings.join_poll_s)
    response: LeaveGroupResponse = yield Send(ApiKey.LEAVE_GROUP, request.version, message)
    if response.error_code == ErrorCode.NONE and message.members:
        answers = []
        for member, answer in zip(members, response.members, strict=True):
            code = yield from _left(context, member, answer.error_code)
            answers.append(replaced(answer, error_code=code))
        response = replaced(response, members=tuple(answers))
    elif not message.members:
        code = yield from _left(context, members[0], response.error_code)
        response = replaced(response, error_code=code)
    context.answer(request, response)


def _left(context: Context, member: Member | None, code: int) -> Procedure[int]:
    if member is None or not member.joined:
        return code
    if code in _NOT_DONE_BY_BROKER:
        response = yield from leave(member)
        code = response.error_code
        if code in _NOT_DONE_BY_BROKER:
            code = ErrorCode.NONE  # it is out, which is what was asked for
    if code == ErrorCode.NONE:
        context.end_membership(member, MemberEvent.LEFT, EventKind.LEFT, "LeaveGroup")
        context.drop_if_idle(member)
    return code


def timeout_expired(context: Context, member: Member) -> bool:
    """Whether a deadline of the member has passed that ends its membership.

    No SyncGroup from a client that is heard does not: it goes on with the generation that it has, because the
    JoinGroup that was answered is one that it had given up, and a newer one had overtaken it. It is asked to join
    again instead.
    """
    if member.session_deadline <= context.now:
        return True
    if member.rebalance_deadline > context.now:
        return False
    if member.state is not MemberState.COMPLETING_REBALANCE:
        return True
    member.rebalance_deadline = math.inf
    context.change_state(member, MemberEvent.SYNC_MISSED, "no SyncGroup came")
    return False


def remove_expired(context: Context, member: Member) -> Procedure[None]:
    """End the membership of a client that let its session or its rebalance timeout pass.

    Epoch -1 removes a member without looking at its epoch, so it is sent only by a process that knows that the
    client is not served elsewhere; otherwise the broker's own session timeout decides. The member's other calls wait
    until the broker has answered: a JoinGroup that comes now must not be overtaken by the -1.
    """
    if not timeout_expired(context, member):
        return  # the client was heard again before it was this conversation's turn
    if context.settings.sole_process:
        # A lost answer changes nothing: then the broker's session timeout decides.
        with suppress(UpstreamLost):
            yield from leave(member)
    forget_expired(context, member)


def forget_expired(context: Context, member: Member) -> None:
    """The same without a word to the broker: there is no connection left on which it could be said."""
    if not member.joined:
        return
    if member.session_deadline <= context.now:
        kind, reason = EventKind.SESSION_EXPIRED, f"no sign of life for {member.session_timeout_ms} ms"
    else:
        kind, reason = EventKind.REBALANCE_EXPIRED, f"did not rejoin within {member.rebalance_timeout_ms} ms"
    context.end_membership(member, MemberEvent.EXPIRED, kind, reason)
    context.drop_if_idle(member)
