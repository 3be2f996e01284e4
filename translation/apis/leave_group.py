"""LeaveGroup: the client ends its membership. :mod:`translation.membership.expiry` ends one by a timeout."""

from contextlib import ExitStack

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from translation.actions import Call, EventKind, Request
from translation.conversion.stand_in import StandIn
from translation.engine.context import Context, replaced
from translation.engine.registry import Registry
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.member_state import MemberEvent
from translation.members.procedure import Procedure
from translation.upstream.leave_epoch import leave, let_others_begin

_NOT_DONE_BY_BROKER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})


def named_members(registry: Registry, message: LeaveGroupRequest) -> list[Member | None]:
    """The member that each entry of a LeaveGroup names, by member id or by instance id; None if it is unknown here.

    Up to v2 a request names one member, since v3 any number.
    """
    group = registry.groups.get(message.group_id)
    identities = message.members or (MemberIdentity(member_id=message.member_id),)
    if group is None:
        return [None] * len(identities)
    return [
        group.members.get(
            identity.member_id or group.static_members.get(identity.group_instance_id or "", "")
        )
        for identity in identities
    ]


class LeaveGroups:
    """Translates LeaveGroups."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._memberships = context.memberships
        self._member_log = context.member_log
        self._connections = context.connections
        self._stand_in = StandIn(context)

    def leave_group(self, request: Request) -> Procedure[None]:
        """Relay a LeaveGroup (brokers since 4.0 take it for members of the new protocol) and end the memberships
        here."""
        message: LeaveGroupRequest = request.message
        members = named_members(self._registry, message)
        leaving = [member for member in members if member is not None and member.joined]
        with ExitStack() as departures:
            for one in leaving:
                departures.enter_context(one.group.departing(one.member_id))
            if leaving:
                yield from self._stand_in.stand_in(
                    leaving[-1].group, leaving[-1].member_id, request.connection
                )
                yield from let_others_begin(self._environment, leaving[0].group)
            response: LeaveGroupResponse = yield Call(ApiKey.LEAVE_GROUP, request.version, message)
        if response.error_code == ErrorCode.NONE and len(response.members) != len(message.members):
            # No broker does that. Who left is not known: sessions end the memberships of those that did not.
            response = LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        if response.error_code == ErrorCode.NONE and message.members:
            answers = []
            for member, answer in zip(members, response.members, strict=True):
                code = yield from self._left(member, answer.error_code)
                answers.append(replaced(answer, error_code=code))
            response = replaced(response, members=tuple(answers))
        elif not message.members:
            code = yield from self._left(members[0], response.error_code)
            response = replaced(response, error_code=code)
        self._connections.answer(request, response)

    def _left(self, member: Member | None, code: int) -> Procedure[int]:
        """End a membership as the broker's code for it says; return the code for the client."""
        if member is None:
            return code
        if not member.joined:
            if code == ErrorCode.NONE:
                self._member_log.end(member.group.group_id, member.member_id)
            return code
        if code in _NOT_DONE_BY_BROKER:
            if not self._member_log.may_speak_for(member):
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            response = yield from leave(member)
            code = response.error_code
            if code in _NOT_DONE_BY_BROKER:
                code = ErrorCode.NONE  # it is out, which is what was asked for
        if code == ErrorCode.NONE:
            self._member_log.end(member.group.group_id, member.member_id)
            self._memberships.end(member, MemberEvent.LEFT, EventKind.LEFT, "LeaveGroup")
            self._registry.drop_if_idle(member)
        return code
