"""The data that the translation and its shell exchange: requests and responses in, actions out.

The shell (``proxy``) hands every group call of a client, a :class:`Request`, to
:meth:`translation.translator.Translator.handle_request`, every answer to a call that the translation made to
``handle_reply``, every end of a connection to ``client_disconnected`` or ``upstream_lost``, and the passing of time
to ``handle_time``. Each of them gives a list of the actions below, to be carried out in order.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NewType

import msgspec

from protocol_codecs import ApiKey
from translation.partitions import TopicOffsets, TopicPartitions
from translation.policy.client_offer import ClientOffer

ConnectionId = NewType("ConnectionId", int)
"""One client connection together with its one upstream connection."""

RequestId = NewType("RequestId", int)
"""One request of a client, unique in the process."""

CallId = NewType("CallId", int)
"""One request that the translation sends to the broker, unique in the process."""


def never() -> bool:
    """False: the default for a connection whose client is not known to have hung up."""
    return False


class Connection(msgspec.Struct, frozen=True):
    """What the translation knows of a connection.

    ``versions`` are the broker's own ranges of this upstream connection, by API key, as its ApiVersions
    answer gave them (both ends inclusive); the shell has learned them before it hands over the first
    request of a connection. ``client_host`` is the client's address as the proxy sees it, ``software`` name and
    version of the client's software (``librdkafka/2.8.0``) as its ApiVersions request told it, empty if it did not.

    ``peer_closed`` says whether the client has closed its side, as the kernel knows it at this moment: earlier than
    ``client_disconnected`` says so, which comes behind what the client sent before. Once true it stays true.
    """

    id: ConnectionId
    client_host: str
    versions: Mapping[int, tuple[int, int]]
    software: str = ""
    peer_closed: Callable[[], bool] = never

    def version(self, api_key: ApiKey, newest: int, oldest: int = 0) -> int | None:
        """The newest version of an API up to ``newest`` that the broker has; None if it has none from ``oldest`` on."""
        low, high = self.versions.get(api_key, (0, -1))
        version = min(high, newest)
        return version if version >= max(low, oldest) else None


class Request(msgspec.Struct, frozen=True):
    """A group call of a client, with the connection on which it came, and on which its answer goes back.

    ``version`` is the request's api_version, ``message`` its decoded body.
    """

    id: RequestId
    connection: Connection
    api_key: int
    version: int
    client_id: str | None
    message: Any


# -- actions ----------------------------------------------------------------------------------------------


class Answer(msgspec.Struct, frozen=True):
    """Answer the client's request with this message, in the version that the request came in."""

    request_id: RequestId
    message: Any


class Forward(msgspec.Struct, frozen=True):
    """Relay the client's request as the bytes that it came in, and the broker's answer as it comes."""

    request_id: RequestId


class Authorized(msgspec.Struct, frozen=True):
    """Tells the shell that the sender of this JoinGroup may act in its group, so that observers may count the call.

    It comes before anything else that follows from the JoinGroup, also if its client has disconnected meanwhile.
    """

    request_id: RequestId


class Relayed(msgspec.Struct, frozen=True):
    """Tells the shell what the broker has answered to a JoinGroup that the translation itself sent on for its client.

    The client becomes a classic member by it, whose further calls pass through, so observers see it as one of them.
    """

    request: Request
    response: Any


class Call(msgspec.Struct, frozen=True):
    """Send this request on the upstream connection of ``connection_id``, behind those already waiting there.

    ``client_id`` goes into the header, so that the broker's quotas and logs see the client. The answer comes
    back by ``handle_reply`` with ``call_id``; if the connection is lost, ``upstream_lost`` comes instead.

    A procedure says only which request it is. The scheduler, which makes the action of it, knows the other fields.
    """

    api_key: int
    version: int
    message: Any
    client_id: str | None = None
    connection_id: ConnectionId = ConnectionId(0)
    call_id: CallId = CallId(0)


class Close(msgspec.Struct, frozen=True):
    """Close both sides of the connection; answers already given are flushed to the client first."""

    connection_id: ConnectionId
    reason: str


class Release(msgspec.Struct, frozen=True):
    """Close the upstream connection of a client that has disconnected: nothing needs it any more.

    Between ``client_disconnected`` and this action the shell keeps the upstream connection open, because
    heartbeats for the silent client's members still travel on it.
    """

    connection_id: ConnectionId


class CallHook(msgspec.Struct, frozen=True, kw_only=True):
    """Tell the operator's hook about a group's move, and if it asks, say what the hook has answered.

    ``number`` names the move, ``step`` is the index of the step that is meant. The answer to one that ``asks`` goes to
    :meth:`translation.moving.rollout.Rollout.hook_answered`.
    """

    asks: bool
    group: str
    policy: str
    number: int
    step: int
    steps: int
    allows: str
    phase: str
    why: str = ""
    members: int | None = None
    """How many members the broker described last, and how many of them are translated; None: nobody has looked."""
    translated: int | None = None


class EventKind(StrEnum):
    """What happened to a member or a group: the words of log, metrics and journal (docs/reference/journal.md)."""

    JOINED = "joined"
    STATE_CHANGED = "state_changed"
    ASSIGNED = "assigned"
    REVOKE_REQUESTED = "revoke_requested"
    REVOKED = "revoked"
    EPOCH_MOVED = "epoch_moved"
    REJOINED_AFTER_LOSS = "rejoined_after_loss"
    LEFT = "left"
    FENCED = "fenced"
    SESSION_EXPIRED = "session_expired"
    REBALANCE_EXPIRED = "rebalance_expired"
    ADOPTED = "adopted"
    POLICY_CHANGED = "policy_changed"
    STEP_CHANGED = "step_changed"
    MENDING = "mending"
    LEFT_UNOWNED = "left_unowned"
    PASSED_THROUGH = "passed_through"
    CALL_REFUSED = "call_refused"
    COMMITTED = "committed"


class MemberProtocol(StrEnum):
    """How a member takes part in its group."""

    TRANSLATED = "translated"
    """It speaks the classic protocol to the proxy, which makes it a member of the new one."""

    CLASSIC = "classic"
    """It speaks the classic protocol to the broker; its calls pass through."""

    CONSUMER = "consumer"
    """It speaks the new protocol to the broker; its calls pass through."""

    SHARE = "share"
    """It is in a share group (KIP-932), whose members read the same partitions together; its calls pass through."""

    STREAMS = "streams"
    """It is in a streams group (KIP-1071) and has tasks instead of partitions; its calls pass through."""

    CONNECT = "connect"
    """It is a worker of Kafka Connect and runs connectors and tasks; its classic calls pass through."""


class ConnectWorker(msgspec.Struct, frozen=True, gc=False):
    """A worker as its last JoinGroup and the last assignment tell it (KIP-415).

    ``url`` is where its REST API listens, ``config_offset`` how far it had read the topic of configurations (-1 if it
    had read nothing). ``leader`` is the member id of the worker that assigns connectors and tasks, ``leader_url`` its
    REST API; both are empty before the first assignment. ``delay_ms`` is after how many milliseconds the workers join
    again by themselves, 0 if they do not: until then what a lost worker ran is run by nobody
    (``scheduled.rebalance.max.delay.ms``).
    """

    url: str
    config_offset: int = -1
    leader: str = ""
    leader_url: str = ""
    delay_ms: int = 0


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Something that happened to a member or a group, for log, metrics and journal.

    ``generation`` and ``epoch`` are -1 where there is none, ``protocol`` is empty if it is not known. ``state`` is
    the member's state after the event, ``reason`` a short text in Kafka's words. ``owned`` is everything that the
    client may be working on after the event; None if that is not known or the event does not say.
    ``rebalance_timeout_ms`` and ``session_timeout_ms`` are what the client declared, -1 if it is not known. ``offer``
    is what its JoinGroup offers, if this event is about one. ``worker`` is set for workers of Kafka Connect,
    ``commits`` for COMMITTED alone.
    """

    kind: EventKind
    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    protocol: str = ""
    client_id: str | None = None
    client_host: str = ""
    software: str = ""
    generation: int = -1
    epoch: int = -1
    state: str = ""
    previous_state: str = ""
    partitions: TopicPartitions = ()
    owned: TopicPartitions | None = None
    reason: str = ""
    rebalance_timeout_ms: int = -1
    session_timeout_ms: int = -1
    worker: ConnectWorker | None = None
    commits: tuple[TopicOffsets, ...] = ()
    offer: ClientOffer | None = None


class Emit(msgspec.Struct, frozen=True):
    """Report an event to log, metrics and journal."""

    event: Event


Action = Answer | Forward | Authorized | Relayed | Call | Close | Release | Emit | CallHook
