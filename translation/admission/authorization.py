"""Decides whether a client may act in a group, also as another principal or after re-authentication: the broker has
to authorize its connection before a call counts (GROUP_AUTHORIZATION_FAILED).

The rule: a call changes nothing here (no record, event, deadline or place in a queue) before the broker has accepted a
group call of the same connection for the same group. A call that the broker refuses is relayed, so that the client gets
the broker's own refusal.

Why: a client can put any group id, member id, instance id, generation, subscription and timeout into a call. A broker
checks READ on the group (``KafkaApis.handleJoinGroupRequest`` and its neighbours) before it looks at any of them. A
call that is answered here, or that changes what is known here, never reaches the broker as it is, so its check has to
be asked for:

* The broker gets a classic Heartbeat for the group, on the client's own upstream connection, under a member id that
  nobody has (:data:`NOBODY`). It checks READ on the group first, in every version. Any answer that it gives only after
  that check (:data:`ALLOWED`; mostly UNKNOWN_MEMBER_ID) authorizes the connection for the group. Any other says that
  the principal may not act in the group, or that the authorizer has failed. A connection that has not authenticated is
  closed by the broker, as it is without a proxy.
* While the broker is asked, no member waits for the answer, so a client that does not read its answers delays nobody.

A principal can't change during the life of a connection (KIP-368: "Cannot change principals during re-authentication"),
so the answer holds until the connection ends or the broker refuses something on it. A call for a member that is served
on another connection is asked for each time: a member is taken over, and its queue used, only by a connection on which
the broker's answers arrive and that is authorized at that moment.
"""

import math
from collections.abc import Callable

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from translation.actions import Call, Connection, Request
from translation.engine.context import Context
from translation.members import session_timeout
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.procedure import Procedure, ProcedureQueue

NOBODY = "epochgate-nobody"
"""The member id of the question. Kafka never gives it out. A member with this id would not be disturbed either: a
Heartbeat with generation -1 is refused without effect."""

ALLOWED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""The codes of the group coordinator, which is reached only after the authorizer (franz-go's kfake answers
GROUP_ID_NOT_FOUND for a group that does not exist). An authorizer that fails gives UNKNOWN_SERVER_ERROR, or the code of
the exception that it has thrown."""

_QUESTION_VERSION = 3
"""The newest version of Heartbeat that is not flexible; the answer has the same meaning in all of them."""


def is_authorized(
    context: Context, request: Request, member: Member | None, proceed: Callable[[], None]
) -> bool:
    """Whether the sender of a call may act in its group; if that is not known, ask the broker and ``proceed`` later.

    ``member`` is the one that the request names, None if it is unknown. An earlier answer of the broker counts if that
    member is served on this connection, or if the request names no member.
    """
    names_nobody = member is None and not request.message.member_id
    is_served_here = member is not None and member.connection_id == request.connection.id
    if context.authorized_groups.includes(request.connection.id, request.message.group_id):
        if names_nobody or is_served_here:
            return True
        if member is not None:
            renew_while_asked(context, member, request)
    steps = ask_broker(context, request, proceed)
    context.scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)
    return False


def renew_while_asked(environment: Environment, member: Member, request: Request) -> None:
    """Start the session timeout of a call's member anew, before the broker or the member log is asked about the call.

    Its client is alive now, however long the answer takes.
    """
    deadlines = member.deadlines
    if deadlines.session_deadline < math.inf:
        session_timeout.renew(member, environment.now)
        # It rejoins in time, if the answer comes before its session ends.
        if request.api_key == ApiKey.JOIN_GROUP:
            deadlines.rebalance_deadline = max(deadlines.rebalance_deadline, deadlines.session_deadline)


def ask_broker(context: Context, request: Request, proceed: Callable[[], None]) -> Procedure[None]:
    """Ask the broker whether the sender of a call may act in its group, then ``proceed``; else relay the call.

    Runs in a queue of its own, never in that of the member that the call names.
    """
    connection = request.connection
    group_id: str = request.message.group_id
    response: HeartbeatResponse = yield question(connection, group_id)
    if response.error_code not in ALLOWED:
        context.authorized_groups.withdraw(connection.id, group_id)
        context.connections.forward(request)
        return
    context.authorized_groups.add(connection.id, group_id)
    context.reach.coordinator_answered(group_id, connection.id, response.error_code)
    proceed()


def question(connection: Connection, group_id: str) -> Call:
    """A Heartbeat that changes nothing, and that the broker answers behind all earlier requests of the connection."""
    version = connection.version(ApiKey.HEARTBEAT, newest=_QUESTION_VERSION)
    message = HeartbeatRequest(group_id=group_id, generation_id=-1, member_id=NOBODY)
    return Call(ApiKey.HEARTBEAT, version or 0, message)
