"""Takes a translated member back to the classic protocol at its client's JoinGroup, under its own id.

The broker makes a member of the new protocol a classic one when a classic JoinGroup comes under its id
(``GroupMetadataManager.classicGroupJoinToConsumerGroup``): its epoch is its generation, it keeps its assignment, and no
other member has to rejoin. So the JoinGroup of a client is relayed as it is. The owned partitions in its subscription
are the client's own: what an eager client does not name it has given up.

The group stays a consumer group, though all its members may be classic. A broker makes it a classic group when its last
member of the new protocol leaves, so a helper joins before the last one goes back, and leaves when all have
(:mod:`translation.conversion.helper`). That costs all members one ordinary rebalance.
"""

from contextlib import ExitStack

from protocol_codecs import ErrorCode
from translation.actions import ClientCall, Connection, EventKind
from translation.conversion import helper
from translation.conversion.classic_join import readable, relay_classic_join
from translation.engine.context import Context
from translation.engine.join_outcomes import (
    refuse_superseded,
    refused,
    restart_session_timer,
)
from translation.engine.join_wait import take_over_waiting_join
from translation.members.conversion import is_helper
from translation.members.member import Group, Member
from translation.members.member_state import MemberEvent
from translation.members.procedure import Procedure, UpstreamLost
from translation.membership import static_members
from translation.moving import held_return

_NOT_LET_BACK = frozenset({ErrorCode.INCONSISTENT_GROUP_PROTOCOL})
"""The broker lets no classic member into this consumer group (``group.consumer.migration.policy``)."""


def return_in_place(context: Context, member: Member, call: ClientCall) -> Procedure[ErrorCode | None]:
    """Relay the JoinGroup of a member of the new protocol, which becomes a classic one by it.

    Returns the code with which the broker has refused that, which is not answered yet; else None.
    """
    request = call.request
    if context.connections.is_stale(member, call):
        # Its client has joined again since, and works on partitions.
        context.connections.answer(
            request, refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id)
        )
        return None
    take_over_waiting_join(context, member)
    # As in any JoinGroup: while the client waits for the answer, no deadline of its own runs.
    member.deadlines.stop()
    had = member.generation
    try:
        # Of several that go back at once the last one brings the helper.
        with ExitStack() as departing:
            departing.enter_context(member.group.departing(member.member_id))
            helper_code = ErrorCode.NONE
            if not _others(member):
                helper_code = yield from _ensure_helper(context, member.group, call.connection)
            if helper_code == ErrorCode.GROUP_MAX_SIZE_REACHED:
                return helper_code
            if helper_code != ErrorCode.NONE:  # the coordinator is not there: the client tries again
                restart_session_timer(context, member)
                refuse_superseded(context, member)
                not_now = refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id)
                context.connections.answer(request, not_now)
                return None
            code = yield from relay_classic_join(
                context,
                readable(request),
                on_accepted=lambda: _gone_back(context, member, call.connection, departing),
                hold=lambda answer: held_return.hold(context, member, request, had, answer),
                unanswered=_NOT_LET_BACK,
            )
    except UpstreamLost:
        restart_session_timer(context, member)
        refuse_superseded(context, member)  # on other connections, which are still there
        raise
    if member.joined:
        restart_session_timer(context, member)
        if code in _NOT_LET_BACK:
            return ErrorCode(code)
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            context.memberships.end(member, MemberEvent.FENCED, EventKind.FENCED, "the broker has lost it")
    refuse_superseded(context, member)
    return None


def _others(member: Member) -> bool:
    """Whether another member of the new protocol is served here and not on its way back, so that this one is not the
    last."""
    group = member.group
    return any(
        one.joined and not one.may_have_moved and one.member_id not in group.leaving
        for one in group.members.values()
        if one is not member
    )


def _ensure_helper(context: Context, group: Group, connection: Connection) -> Procedure[ErrorCode]:
    """Let a helper join if none is in the group, of this process or of another one; return the broker's code."""
    conversion = group.conversion or helper.begin(context, group, connection)
    conversion.changed_at = context.now
    if not (conversion.helper_id or context.settings.sole_process):
        described = yield from helper.describe(connection, group.group_id)
        if described is not None and any(is_helper(member.member_id) for member in described.members):
            return ErrorCode.NONE  # that waits for this member too
    if conversion.helper_id or conversion.is_joining:
        # The member that brings it is of the new protocol until it has joined, so this one is not the last.
        return ErrorCode.NONE
    response = yield from helper.join(context, conversion)
    if response.error_code != ErrorCode.NONE:
        helper.end(context, group)
    return ErrorCode(response.error_code)


def _gone_back(context: Context, member: Member, connection: Connection, departing: ExitStack) -> None:
    """The broker has the member as a classic one."""
    departing.close()
    if member.joined:
        context.memberships.end(
            member, MemberEvent.LEFT, EventKind.POLICY_CHANGED, "back to the classic protocol"
        )
    static_members.forget_instance(member)
    conversion = helper.begin_return(context, member.group, connection)
    if not _others(member):
        context.timers.book(conversion, context.now)  # the helper may leave
