"""The words that the translation and its shell speak: calls in, actions out.

The shell (``proxy``) hands every group call of a client to
:meth:`translation.translator.Translator.handle_request`, every answer to a call that the translation made to
``handle_reply``, every end of a connection to ``client_gone`` or ``upstream_lost``, and the passing of time
to ``handle_time``. Each of them gives a list of the actions below, to be carried out in order.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NewType

import msgspec

ConnectionId = NewType("ConnectionId", int)
"""One client connection together with its one upstream connection."""

RequestId = NewType("RequestId", int)
"""One request of a client, unique in the process."""

CallId = NewType("CallId", int)
"""One request that the translation sends to the broker, unique in the process."""


class Connection(msgspec.Struct, frozen=True):
    """What the translation knows of a connection.

    ``versions`` are the broker's own ranges of this upstream connection, by API key, as its ApiVersions
    answer gave them (both ends inclusive); the shell has learned them before it hands over the first
    request of a connection. ``client_host`` is the client's address as the proxy sees it.
    """

    id: ConnectionId
    client_host: str
    versions: Mapping[int, tuple[int, int]]


class Request(msgspec.Struct, frozen=True):
    """A group call of a client. ``version`` is the request's api_version, ``message`` its decoded body."""

    id: RequestId
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


class Call(msgspec.Struct, frozen=True):
    """Send this request on the upstream connection of ``connection_id``, behind those already waiting there.

    ``client_id`` goes into the header, so that the broker's quotas and logs see the client. The answer comes
    back by ``handle_reply`` with ``call_id``; if the connection is lost, ``upstream_lost`` comes instead.
    """

    connection_id: ConnectionId
    call_id: CallId
    api_key: int
    version: int
    client_id: str | None
    message: Any


class Close(msgspec.Struct, frozen=True):
    """Close both sides of the connection; answers already given are flushed to the client first."""

    connection_id: ConnectionId
    reason: str


class Release(msgspec.Struct, frozen=True):
    """The upstream connection of a client that is gone is of no more use and may be closed.

    Between ``client_gone`` and this action the shell keeps the upstream connection open, because
    heartbeats for the silent client's members still travel on it.
    """

    connection_id: ConnectionId


class EventKind(StrEnum):
    """What happened to a member or to a group; the vocabulary of log, metrics and journal."""

    JOINED = "joined"
    STATE_CHANGED = "state changed"
    ASSIGNED = "assigned"
    REVOKE_REQUESTED = "revoke requested"
    REVOKED = "revoked"
    EPOCH_MOVED = "epoch moved silently"
    REJOINED_AFTER_LOSS = "rejoined after its membership was lost"
    LEFT = "left"
    FENCED = "fenced"
    SESSION_EXPIRED = "session expired"
    REBALANCE_EXPIRED = "rebalance deadline expired"
    ADOPTED = "adopted"
    POLICY_CHANGED = "policy changed"
    PASSED_THROUGH = "passed through"
    CALL_REFUSED = "call refused"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person who watches the migration wants to know.

    ``generation`` and ``epoch`` are -1 where there is none. ``partitions`` is by topic name. ``state`` is the
    member's state after the event, ``reason`` a short text in Kafka's words.
    """

    kind: EventKind
    group_id: str
    member_id: str = ""
    client_id: str | None = None
    client_host: str = ""
    generation: int = -1
    epoch: int = -1
    state: str = ""
    previous_state: str = ""
    partitions: Mapping[str, tuple[int, ...]] = {}
    reason: str = ""


class Emit(msgspec.Struct, frozen=True):
    """Tell log, metrics and journal."""

    event: Event


Action = Answer | Forward | Call | Close | Release | Emit
