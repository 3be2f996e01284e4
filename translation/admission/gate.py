"""Who may act in a group: nothing that a call says counts before the broker has accepted its sender.

A client can put any group id, member id, instance id, generation, subscription and timeout into a call. A broker looks
at the sender's right to the group (READ, ``KafkaApis.handleJoinGroupRequest`` and its neighbours) before it looks at
any of that. A call that is answered here, or that changes what is known here, never reaches the broker as it is. So
the same question is asked first, once for each connection and group:

* The broker gets a classic Heartbeat for the group, on the upstream connection of the very client, under a member id
  that nobody has (:data:`NOBODY`). It checks READ on the group before anything else, in every version. An answer that
  it gives only after that (:data:`ALLOWED`), of which UNKNOWN_MEMBER_ID is the usual one, says that this principal may
  act in this group. Any other says that it may not, or that the authorizer has failed. On a connection that has not
  authenticated the broker closes the connection, as it does without a proxy.
* Until the answer is there the call changes nothing: no record, no event, no deadline, and no member waits for it. So a
  connection on which no answer comes, because its client reads nothing, holds up nobody.
* A call that the broker would refuse is relayed as it came, so that the broker itself refuses it, in its own words.

A principal can't change during the life of a connection (KIP-368: "Cannot change principals during re-authentication"),
so what was accepted once holds for the connection, until the broker refuses something on it. But a call for a member
that is not served on this connection is asked for anew each time. So a member is taken up, or its turn taken, only by a
connection on which the broker's answers arrive, and whose right holds at that moment.
"""

from collections.abc import Callable

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from translation.actions import Connection, Request
from translation.engine.context import Context
from translation.engine.procedure import Procedure, Send

NOBODY = "epochgate-nobody"
"""The member id of the question. Kafka gives out no such id, and a member of this name would be disturbed by nothing:
a Heartbeat with generation -1 is of no generation."""

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
"""What the group coordinator answers (for a group that nobody has, franz-go's kfake says GROUP_ID_NOT_FOUND). An
authorizer that fails is UNKNOWN_SERVER_ERROR, or whatever it has thrown."""

_QUESTION_VERSION = 3
"""The newest version of Heartbeat that is not flexible; the answer has the same meaning in all of them."""


def ask_broker(
    context: Context, connection: Connection, request: Request, proceed: Callable[[], None]
) -> Procedure[None]:
    """Ask the broker whether the sender of a call may act in its group, then ``proceed``; else relay the call.

    Belongs into a turn of its own, never into that of the member that the call names.
    """
    group_id: str = request.message.group_id
    version = context.version(connection, ApiKey.HEARTBEAT, newest=_QUESTION_VERSION)
    question = HeartbeatRequest(group_id=group_id, generation_id=-1, member_id=NOBODY)
    response: HeartbeatResponse = yield Send(ApiKey.HEARTBEAT, version or 0, question)
    if response.error_code not in ALLOWED:
        context.admissions.withdraw(connection.id, group_id)
        context.forward(request)
        return
    context.admissions.admit(connection.id, group_id)
    proceed()
