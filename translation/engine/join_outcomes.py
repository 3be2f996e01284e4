"""How a JoinGroup ends without a generation: with an error, or relayed to the classic coordinator."""

import math
from abc import ABC, abstractmethod

import msgspec

from protocol_codecs import ErrorCode
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from translation.actions import EventKind, Request
from translation.engine.connections import ClientConnections
from translation.engine.context import Context, replaced
from translation.members import session_timeout
from translation.members.environment import Environment
from translation.members.member import Member

_FIRST_WITHOUT_PROTOCOL = 7


def refused(request: Request, error_code: int, member_id: str = "") -> JoinGroupResponse:
    """The JoinGroup response with this error code.

    As a broker's it has no protocol: null since v7, the first version that can say so.
    """
    message: JoinGroupRequest = request.message
    protocol_name = None if request.version >= _FIRST_WITHOUT_PROTOCOL else ""
    return JoinGroupResponse(
        error_code=error_code, protocol_name=protocol_name, member_id=member_id or message.member_id
    )


def restart_session_timer(environment: Environment, member: Member) -> None:
    """Restart the session timeout, which does not run while the client waits in JoinGroup."""
    if member.joined:
        session_timeout.renew(member, environment.now)
        environment.book(member)


def refuse_superseded(connections: ClientConnections, member: Member) -> None:
    """Refuse the older JoinGroups that this member's newest one has superseded, with a retriable error."""
    for waiting in member.join.superseded_requests:
        connections.answer(waiting, refused(waiting, ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id))
    member.join.superseded_requests.clear()


class Outcome(Exception, ABC):
    """Raised by a JoinGroup procedure to end without a generation."""

    @abstractmethod
    def apply(self, context: Context, member: Member, request: Request) -> None:
        """Answer or forward the request, and the older ones that it superseded."""


class PassesThrough(Outcome):
    """The group stays classic: relay it for ``for_s`` seconds."""

    def __init__(self, reason: str, for_s: float = math.inf) -> None:
        super().__init__(reason)
        self.for_s = for_s

    def apply(self, context: Context, member: Member, request: Request) -> None:
        """Forward the request and those that it superseded."""
        group = member.group
        group.migration.relay_for(self.for_s, context.now)
        context.events.emit_group(EventKind.PASSED_THROUGH, group.group_id, request, str(self))
        for waiting in (*member.join.superseded_requests, request):
            context.connections.forward(waiting)
        member.join.superseded_requests.clear()


class AnsweredByNewer(Outcome):
    """A newer JoinGroup of the same member answers both requests (:mod:`translation.engine.join_wait`)."""

    def apply(self, _context: Context, _member: Member, _request: Request) -> None:
        """Do nothing: the newer request answers this one too."""


class RejectedByNewer(Outcome):
    """A newer JoinGroup takes over and does not answer this one: its sender has to retry."""

    def apply(self, context: Context, _member: Member, request: Request) -> None:
        """Refuse the request with a retriable error."""
        context.connections.answer(request, refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))


class Failed(Outcome):
    """The client gets this error code."""

    def __init__(self, error_code: int, reason: str) -> None:
        super().__init__(reason)
        self.error_code = error_code

    def apply(self, context: Context, member: Member, request: Request) -> None:
        """Answer the request, and those that it superseded, with the error."""
        restart_session_timer(context, member)
        context.events.emit(EventKind.CALL_REFUSED, member, reason=f"JoinGroup failed: {self}")
        for waiting in (*member.join.superseded_requests, request):
            context.connections.answer(waiting, refused(waiting, self.error_code, member.member_id))
        member.join.superseded_requests.clear()


class StaysClassic(Exception):
    """The client stays a classic member: its JoinGroup is relayed. A later Heartbeat may tell it to rejoin.

    ``as_new``: its member id was given out here, and the broker need not have it.
    """

    def __init__(self, *, as_new: bool = False) -> None:
        super().__init__()
        self.as_new = as_new


def without_member_id(request: Request) -> Request:
    """A JoinGroup as that of a new client, to be relayed: its member id was given out here, and no broker knows it.

    The broker gives the client another one. Told that it is no member, some old clients would end.
    """
    return msgspec.structs.replace(request, message=replaced(request.message, member_id=""))


def ensure_client_waiting(connections: ClientConnections, member: Member, request: Request) -> None:
    """Raise if the client has hung up: it may have joined through another process, so its JoinGroup must not count."""
    if not any(
        connections.is_still_connected(waiting) for waiting in (request, *member.join.superseded_requests)
    ):
        raise Failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody waits for it any more")
