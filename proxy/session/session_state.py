"""The states of a client session, and everything that changes them.

Theory of operation
-------------------
A session lies between one client and one broker. Three things about it have a state of their own, because they change
independently:

* :class:`ClientState`: what the client may still do. It becomes ``Active`` with its first valid request; until then it
  may be anybody, so limits are tighter and no broker is dialled for it. ``Draining`` means that the session looks at no
  further request and completes those under way.
* :class:`UpstreamState`: whether there is a connection to the broker. It is opened for the first valid request.
* :class:`RequestState`: what the session does with the client's request stream. It works on one request at a time:
  relaying it piece by piece, collecting a large group call, waiting for something that the call needs, or waiting for
  the translation (for several commits at once, ``proxy.session.translated_calls``). In ``Ready`` the next request may
  begin, also while the broker still owes earlier responses (``proxy.session.in_flight`` keeps those in order).

Two rules hold this file together:

1. Whatever changes one of these states is in this file. The session reports an *event* and reads the state.
2. This file knows no message, no byte and no socket.

Each table is nested by state: what leads out of a state stands in one block. A pair that is not in its table is a
bug of the caller and raises :class:`IllegalSessionTransitionError`, which ends this one connection.
"""

from collections.abc import Mapping
from enum import StrEnum


class ClientState(StrEnum):
    """What the client of a session may still do."""

    NEW = "New"
    ACTIVE = "Active"
    DRAINING = "Draining"
    GONE = "Gone"


class ClientEvent(StrEnum):
    """What can happen to the client's side."""

    VALID_REQUEST = "valid request"
    STOP_ACCEPTING = "stop accepting"
    CLOSED = "client closed"


class UpstreamState(StrEnum):
    """Whether a session has a connection to the broker."""

    NONE = "None"
    OPENING = "Opening"
    OPEN = "Open"


class UpstreamEvent(StrEnum):
    """What can happen to the broker's side."""

    NEEDED = "needed"
    OPENED = "opened"


class RequestState(StrEnum):
    """What a session does with the client's request stream."""

    READY = "Ready"
    RELAYING = "Relaying"
    COLLECTING = "Collecting"
    DISCARDING = "Discarding"
    AWAITING_UPSTREAM = "AwaitingUpstream"
    PROBING_BROKER = "ProbingBroker"
    AWAITING_MEMORY = "AwaitingMemory"
    TRANSLATING = "Translating"


class RequestEvent(StrEnum):
    """What can happen to the request that a session works on."""

    RELAY_STARTED = "first piece relayed"
    COLLECTING_STARTED = "first piece of a large group call"
    DISCARDING_STARTED = "refused, the rest is to come"
    LAST_PIECE = "last piece"
    UPSTREAM_MISSING = "no upstream connection"
    PROBE_SENT = "broker is asked about the client"
    MEMORY_MISSING = "no memory for a large call"
    RESUMED = "looked at again"
    HANDED_OVER = "handed to the translation"
    ANSWERED = "answered"
    """The last one that the translation worked on."""

    FORWARDED = "forwarded"
    """Likewise."""

    FORGOTTEN = "client gone"


class IllegalSessionTransitionError(Exception):
    """An event was reported that can't happen in the present state."""

    def __init__(self, state: StrEnum, event: StrEnum) -> None:
        super().__init__(f"{event.value!r} can't happen in {type(state).__name__} {state.value}")


_C, _U, _R = ClientState, UpstreamState, RequestState

CLIENT: Mapping[ClientState, Mapping[ClientEvent, ClientState]] = {
    _C.NEW: {
        ClientEvent.VALID_REQUEST: _C.ACTIVE,
        ClientEvent.STOP_ACCEPTING: _C.DRAINING,
        ClientEvent.CLOSED: _C.GONE,
    },
    _C.ACTIVE: {
        ClientEvent.STOP_ACCEPTING: _C.DRAINING,
        ClientEvent.CLOSED: _C.GONE,
    },
    _C.DRAINING: {
        ClientEvent.STOP_ACCEPTING: _C.DRAINING,
        ClientEvent.CLOSED: _C.GONE,
    },
    _C.GONE: {
        ClientEvent.STOP_ACCEPTING: _C.GONE,
        ClientEvent.CLOSED: _C.GONE,
    },
}

UPSTREAM: Mapping[UpstreamState, Mapping[UpstreamEvent, UpstreamState]] = {
    _U.NONE: {
        UpstreamEvent.NEEDED: _U.OPENING,
        UpstreamEvent.OPENED: _U.OPEN,  # the shell may open it before it is needed
    },
    _U.OPENING: {
        UpstreamEvent.OPENED: _U.OPEN,
    },
    _U.OPEN: {},
}

REQUEST: Mapping[RequestState, Mapping[RequestEvent, RequestState]] = {
    _R.READY: {
        RequestEvent.RELAY_STARTED: _R.RELAYING,
        RequestEvent.COLLECTING_STARTED: _R.COLLECTING,
        RequestEvent.DISCARDING_STARTED: _R.DISCARDING,
        RequestEvent.UPSTREAM_MISSING: _R.AWAITING_UPSTREAM,
        RequestEvent.PROBE_SENT: _R.PROBING_BROKER,
        RequestEvent.MEMORY_MISSING: _R.AWAITING_MEMORY,
        RequestEvent.HANDED_OVER: _R.TRANSLATING,
        RequestEvent.FORGOTTEN: _R.READY,
    },
    _R.RELAYING: {
        RequestEvent.LAST_PIECE: _R.READY,
        RequestEvent.FORGOTTEN: _R.RELAYING,  # the broker has a part of it, and nothing else can follow
    },
    _R.COLLECTING: {
        RequestEvent.LAST_PIECE: _R.READY,
        RequestEvent.FORGOTTEN: _R.READY,
    },
    _R.DISCARDING: {
        RequestEvent.LAST_PIECE: _R.READY,
        RequestEvent.FORGOTTEN: _R.READY,
    },
    _R.AWAITING_UPSTREAM: {
        RequestEvent.RESUMED: _R.READY,
        RequestEvent.FORGOTTEN: _R.READY,
    },
    _R.PROBING_BROKER: {
        RequestEvent.RESUMED: _R.READY,
        RequestEvent.FORGOTTEN: _R.READY,
    },
    _R.AWAITING_MEMORY: {
        RequestEvent.RESUMED: _R.READY,
        RequestEvent.FORGOTTEN: _R.READY,
    },
    _R.TRANSLATING: {
        RequestEvent.HANDED_OVER: _R.TRANSLATING,  # another commit
        RequestEvent.ANSWERED: _R.READY,
        RequestEvent.FORWARDED: _R.READY,
        RequestEvent.FORGOTTEN: _R.TRANSLATING,  # the translation still works on it, and nobody gets the answer
    },
}


class SessionState:
    """The three states of one session; the only thing in the project that changes them."""

    __slots__ = ("client", "request", "upstream")

    def __init__(self) -> None:
        self.client = ClientState.NEW
        self.upstream = UpstreamState.NONE
        self.request = RequestState.READY

    def on_client(self, event: ClientEvent) -> None:
        """Apply an event of the client's side; raises IllegalSessionTransitionError."""
        try:
            self.client = CLIENT[self.client][event]
        except KeyError:
            raise IllegalSessionTransitionError(self.client, event) from None

    def on_upstream(self, event: UpstreamEvent) -> None:
        """Apply an event of the broker's side; raises IllegalSessionTransitionError."""
        try:
            self.upstream = UPSTREAM[self.upstream][event]
        except KeyError:
            raise IllegalSessionTransitionError(self.upstream, event) from None

    def on_request(self, event: RequestEvent) -> None:
        """Apply an event of the request that the session works on; raises IllegalSessionTransitionError."""
        try:
            self.request = REQUEST[self.request][event]
        except KeyError:
            raise IllegalSessionTransitionError(self.request, event) from None
