"""Takes a translated member back to the classic protocol (rollback) at its client's JoinGroup, under its own id.

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
from translation.actions import Connection, EventKind, Request
from translation.conversion import helper
from translation.conversion.classic_join import ClassicJoins, readable
from translation.conversion.helper import Helpers
from translation.engine.context import Context
from translation.engine.join_outcomes import (
    refuse_superseded,
    refused,
    restart_session_timer,
)
from translation.engine.join_wait import take_over_waiting_join
from translation.members.conversion import is_helper
from translation.members.environment import Environment
from translation.members.member import Group, Member
from translation.members.member_state import MemberEvent
from translation.members.procedure import Procedure, UpstreamLost
from translation.membership import static_members
from translation.moving.held_return import HeldReturn

_NOT_LET_BACK = frozenset({ErrorCode.INCONSISTENT_GROUP_PROTOCOL})
"""The broker lets no classic member into this consumer group (``group.consumer.migration.policy``)."""


class ReturnInPlace:
    """Makes translated members classic ones by their JoinGroup."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._memberships = context.memberships
        self._scheduler = context.scheduler
        self._connections = context.connections
        self._classic_joins = ClassicJoins(context)
        self._held_return = HeldReturn(context)
        self._helpers = Helpers(context)

    def return_in_place(self, member: Member, request: Request) -> Procedure[ErrorCode | None]:
        """Relay the JoinGroup of a member of the new protocol, which becomes a classic one by it.

        Returns the code with which the broker has refused that, which is not answered yet; else None.
        """
        if self._connections.is_stale(member, request):
            # Its client has joined again since, and works on partitions.
            self._connections.answer(
                request, refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id)
            )
            return None
        take_over_waiting_join(self._scheduler, member)
        # As in any JoinGroup: while the client waits for the answer, no deadline of its own runs.
        member.deadlines.stop()
        had = member.generation
        try:
            # Of several that go back at once the last one brings the helper.
            with ExitStack() as departing:
                departing.enter_context(member.group.departing(member.member_id))
                helper_code = ErrorCode.NONE
                if not _others(member):
                    helper_code = yield from self._ensure_helper(member.group, request.connection)
                if helper_code == ErrorCode.GROUP_MAX_SIZE_REACHED:
                    return helper_code
                if helper_code != ErrorCode.NONE:  # the coordinator is not there: the client tries again
                    restart_session_timer(self._environment, member)
                    refuse_superseded(self._connections, member)
                    not_now = refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE, member.member_id)
                    self._connections.answer(request, not_now)
                    return None
                code = yield from self._classic_joins.relay_classic_join(
                    readable(request),
                    on_accepted=lambda: self._gone_back(member, request.connection, departing),
                    hold=lambda answer: self._held_return.hold(member, request, had, answer),
                    unanswered=_NOT_LET_BACK,
                )
        except UpstreamLost:
            restart_session_timer(self._environment, member)
            refuse_superseded(self._connections, member)  # on other connections, which are still there
            raise
        if member.joined:
            restart_session_timer(self._environment, member)
            if code in _NOT_LET_BACK:
                return ErrorCode(code)
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._memberships.end(member, MemberEvent.FENCED, EventKind.FENCED, "the broker has lost it")
        refuse_superseded(self._connections, member)
        return None

    def _ensure_helper(self, group: Group, connection: Connection) -> Procedure[ErrorCode]:
        """Let a helper join if none is in the group, of this process or of another one; return the broker's code."""
        conversion = group.conversion or self._helpers.begin(group, connection)
        conversion.changed_at = self._environment.now
        if not (conversion.helper_id or self._environment.settings.sole_process):
            described = yield from helper.describe(connection, group.group_id)
            if described is not None and any(is_helper(member.member_id) for member in described.members):
                return ErrorCode.NONE  # that waits for this member too
        if conversion.helper_id or conversion.is_joining:
            # The member that brings it is of the new protocol until it has joined, so this one is not the last.
            return ErrorCode.NONE
        response = yield from self._helpers.join(conversion)
        if response.error_code != ErrorCode.NONE:
            self._helpers.end(group)
        return ErrorCode(response.error_code)

    def _gone_back(self, member: Member, connection: Connection, departing: ExitStack) -> None:
        """The broker has the member as a classic one."""
        departing.close()
        if member.joined:
            self._memberships.end(
                member, MemberEvent.LEFT, EventKind.POLICY_CHANGED, "back to the classic protocol"
            )
        static_members.forget_instance(member)
        conversion = self._helpers.begin_return(member.group, connection)
        if not _others(member):
            self._environment.timers.book(conversion, self._environment.now)  # the helper may leave


def _others(member: Member) -> bool:
    """Whether another member of the new protocol is served here and not on its way back, so that this one is not the
    last."""
    group = member.group
    return any(
        one.joined and not one.may_have_moved and one.member_id not in group.leaving
        for one in group.members.values()
        if one is not member
    )
