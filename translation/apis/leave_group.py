"""How memberships end: LeaveGroup, the session timeout and the rebalance timeout."""

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
    """The member that each entry of a LeaveGroup names, by member id or by instance id; None if it is unknown here.

    Up to v2 a request names one member, since v3 any number.
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
    """Relay a LeaveGroup (brokers since 4.0 take it for members of the new protocol) and end the memberships here."""
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
    """Whether the session timeout or the rebalance timeout of a member has ended its membership.

    If only SyncGroup is missing, the membership does not end: the client had given up the JoinGroup that was answered
    and goes on with its older generation. It is told to rejoin instead.
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
    """End a membership whose session timeout or rebalance timeout has passed.

    A heartbeat with epoch -1 removes a member whatever its epoch is, so only a process that serves the client alone
    sends it; otherwise the broker's session timeout decides. The member's other requests wait for the broker's
    response, so that the -1 can't reach the broker after a new JoinGroup.
    """
    if not timeout_expired(context, member):
        return  # the client was heard again before it was this procedure's turn
    if context.settings.sole_process:
        # A lost answer changes nothing: then the broker's session timeout decides.
        with suppress(UpstreamLost):
            yield from leave(member)
    forget_expired(context, member)


def forget_expired(context: Context, member: Member) -> None:
    """The same without a request to the broker, for members that have no connection left."""
    if not member.joined:
        return
    if member.session_deadline <= context.now:
        kind, reason = EventKind.SESSION_EXPIRED, f"no sign of life for {member.session_timeout_ms} ms"
    else:
        kind, reason = EventKind.REBALANCE_EXPIRED, f"did not rejoin within {member.rebalance_timeout_ms} ms"
    context.end_membership(member, MemberEvent.EXPIRED, kind, reason)
    context.drop_if_idle(member)
