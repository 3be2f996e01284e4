"""The ways in which a JoinGroup ends without a generation, and how its answer is delayed."""

import math
from collections.abc import Generator
from typing import Any

from protocol_codecs import ErrorCode
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupResponse
from translation.actions import EventKind, Request
from translation.engine.context import Context
from translation.engine.member import Member
from translation.engine.procedure import Procedure, Wait, WakeReason


def refused(request: Request, error_code: int, member_id: str = "") -> JoinGroupResponse:
    """The JoinGroup response with this error code."""
    message: JoinGroupRequest = request.message
    return JoinGroupResponse(error_code=error_code, member_id=member_id or message.member_id)


def join_wait_limit_s(context: Context, member: Member) -> float:
    """How long (seconds) the proxy may hold a JoinGroup of this client before it answers."""
    settings = context.settings
    return min(settings.join_wait_s, settings.join_wait_share * member.client.rebalance_timeout_ms / 1000)


def restart_session_timer(context: Context, member: Member) -> None:
    """Restart the session timeout, which does not run while the client waits in JoinGroup."""
    if member.joined:
        member.renew_session(context.now)
        context.book(member)


def refuse_superseded(context: Context, member: Member) -> None:
    """Refuse the older JoinGroups that this member's newest one has superseded, with a retriable error."""
    for waiting in member.join.superseded_requests:
        context.answer(waiting, refused(waiting, ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id))
    member.join.superseded_requests.clear()


class Outcome(Exception):
    """Raised by a JoinGroup procedure to end without a generation."""

    def apply(self, context: Context, member: Member, request: Request) -> None:
        """Answer or forward the request, and the older ones that it superseded."""
        raise NotImplementedError


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
            context.forward(waiting)
        member.join.superseded_requests.clear()


class AnsweredByNewer(Outcome):
    """A newer JoinGroup of the same member answers both requests (:func:`take_over_waiting_join`)."""

    def apply(self, _context: Context, _member: Member, _request: Request) -> None:
        """Do nothing: the newer request answers this one too."""


class RejectedByNewer(Outcome):
    """A newer JoinGroup takes over and does not answer this one: its sender has to retry."""

    def apply(self, context: Context, _member: Member, request: Request) -> None:
        """Refuse the request with a retriable error."""
        context.answer(request, refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))


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
            context.answer(waiting, refused(waiting, self.error_code, member.member_id))
        member.join.superseded_requests.clear()


class StaysClassic(Exception):
    """The client stays a classic member: its JoinGroup is relayed. A later Heartbeat may tell it to rejoin."""


def take_over_waiting_join(context: Context, member: Member) -> None:
    """The newer JoinGroup of a member answers for the older one that still waits, and ends its wait."""
    older, member.join.waiting = member.join.waiting, None
    if older is not None:
        if older.request is not None:
            member.join.superseded_requests.append(older.request)
        context.scheduler.wake(older, WakeReason.SUPERSEDED)


def suspend_join(
    member: Member, until: float, answered_by_newer: Request | None = None
) -> Generator[Wait, Any, WakeReason]:
    """Suspend a JoinGroup until ``until`` (seconds) and let other procedures of the member run.

    Its client may join again meanwhile; ``answered_by_newer`` is this request if the newer one answers both.
    """
    procedure = member.queue.running
    if procedure is None:
        raise LookupError("only the procedure that runs can wait")
    procedure.request = answered_by_newer
    member.join.waiting = procedure
    wake_reason: WakeReason = yield Wait(until)
    if member.join.waiting is procedure:
        member.join.waiting = None
    return wake_reason


def wait_in_join(member: Member, request: Request, until: float) -> Procedure[None]:
    """Suspend a JoinGroup that waits for partitions; raises the outcome if its member or client is gone."""
    wake_reason = yield from suspend_join(member, until, request)
    if wake_reason is WakeReason.SUPERSEDED:
        raise AnsweredByNewer("a newer JoinGroup came")
    if (
        wake_reason is WakeReason.REPLACED
    ):  # as classic brokers do with the JoinGroup that waits of the older process
        raise Failed(ErrorCode.FENCED_INSTANCE_ID, str(wake_reason.value))
    if wake_reason is WakeReason.ABANDONED:
        raise Failed(ErrorCode.UNKNOWN_MEMBER_ID, "nobody waits for it any more")
