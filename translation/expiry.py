"""Ends the membership of a client that went silent, or did not rejoin in time.

Two timeouts of the client end it. The session timeout runs from one sign of life to the next, except while the client
waits in JoinGroup. The rebalance timeout runs from REBALANCE_IN_PROGRESS to the JoinGroup, and from the answer of that
to the SyncGroup. :mod:`translation.deadlines` calls here when one of a member's deadlines is due.
"""

import math
from contextlib import suppress

from translation.actions import EventKind
from translation.engine.context import Context
from translation.engine.member import Member
from translation.engine.procedure import Procedure, UpstreamLost
from translation.leave_epoch import leave
from translation.member_state import MemberEvent, MemberState


def timeout_expired(context: Context, member: Member) -> bool:
    """Whether the session timeout or the rebalance timeout of a member has ended its membership.

    If only SyncGroup is missing, the membership does not end: the client had given up the JoinGroup before it was
    answered, and goes on with its older generation. It is told to rejoin instead.
    """
    if member.deadlines.session_deadline <= context.now:
        return True
    if member.deadlines.rebalance_deadline > context.now:
        return False
    if member.state is not MemberState.COMPLETING_REBALANCE:
        return True
    member.deadlines.rebalance_deadline = math.inf
    context.memberships.change_state(member, MemberEvent.SYNC_MISSED, "no SyncGroup came")
    return False


def remove_expired(context: Context, member: Member) -> Procedure[None]:
    """End a membership whose session timeout or rebalance timeout has passed.

    A heartbeat with epoch -1 removes a member whatever its epoch is, so only a process that serves the client alone
    sends it; otherwise the broker's session timeout decides. The member's other requests wait for the broker's
    response, so that the -1 can't reach the broker after a new JoinGroup.
    """
    if not timeout_expired(context, member):
        return  # the client was heard again before it was this procedure's turn
    kind, reason = _which_timeout(
        context, member
    )  # before the client is heard again, while the -1 is under way
    if context.settings.sole_process:
        # A lost answer changes nothing: then the broker's session timeout decides.
        with suppress(UpstreamLost):
            yield from leave(member)
    _forget(context, member, kind, reason)


def forget_expired(context: Context, member: Member) -> None:
    """End such a membership here, without a request to the broker."""
    _forget(context, member, *_which_timeout(context, member))


def _which_timeout(context: Context, member: Member) -> tuple[EventKind, str]:
    if member.deadlines.session_deadline <= context.now:
        return EventKind.SESSION_EXPIRED, f"no sign of life for {member.client.session_timeout_ms} ms"
    return EventKind.REBALANCE_EXPIRED, f"did not rejoin within {member.client.rebalance_timeout_ms} ms"


def _forget(context: Context, member: Member, kind: EventKind, reason: str) -> None:
    if member.joined:
        context.memberships.end(member, MemberEvent.EXPIRED, kind, reason)
        context.registry.drop_if_idle(member)
