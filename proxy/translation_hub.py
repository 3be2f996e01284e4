"""Between the connections and the one translator of the process: events in, actions carried out in order.

Everything here is synchronous and runs in the one trio thread. Carrying out an action may let the next
request of a connection through, which is an event again; such events queue up and are handled one after
another, so the translator never sees a second event before the actions of the first are done.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec
import structlog
import trio

from protocol_codecs import Message
from proxy.meter import Meter
from translation.actions import (
    Action,
    Answer,
    Call,
    CallId,
    Close,
    Connection,
    ConnectionId,
    Emit,
    Event,
    Forward,
    Request,
    RequestId,
)
from translation.policy import Policy

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.translation")
_PAUSE_AFTER_ERROR_S = 1.0


class Translation(Protocol):
    """What the shell needs of a translator. ``now`` is :func:`trio.current_time`, in seconds."""

    def handle_request(self, now: float, connection: Connection, request: Request) -> list[Action]:
        """A client's group call."""
        ...

    def handle_reply(self, now: float, call_id: CallId, message: Any) -> list[Action]:
        """The broker's answer to a Call."""
        ...

    def client_gone(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """The client's side of a connection has ended; the broker's stays until Release."""
        ...

    def upstream_lost(self, now: float, connection_id: ConnectionId) -> list[Action]:
        """A connection is gone on both sides: no call on it will be answered."""
        ...

    def next_deadline(self) -> float:
        """When handle_time wants to be called; infinity if never."""
        ...

    def handle_time(self, now: float) -> list[Action]:
        """The deadline has come."""
        ...

    def set_policy(self, now: float, policy: Policy) -> list[Action]:
        """Another policy holds from now on."""
        ...


class TranslatedConnection(Protocol):
    """What a connection does for the translation."""

    def answer(self, request_id: RequestId, message: Message) -> None:
        """Answer a request of the client."""
        ...

    def forward(self, request_id: RequestId) -> None:
        """Let the broker answer it."""
        ...

    def call(self, call: Call) -> None:
        """Send a request to the broker."""
        ...

    def close(self, reason: str) -> None:
        """Close both sides once the client has what was answered."""
        ...

    def release(self) -> None:
        """Close the upstream side that outlived the client."""
        ...

    def fail(self) -> None:
        """Close both sides: something went wrong here that should not have."""
        ...


class _Known(msgspec.Struct):
    """A connection that the translator has heard of, and what it owes there."""

    shell: TranslatedConnection
    request: RequestId | None = None
    calls: set[CallId] = msgspec.field(default_factory=set)


class TranslationHub:
    """Drives the translator. ``emit`` takes each event for log, metrics and journal."""

    def __init__(self, translator: Translation, meter: Meter, emit: Callable[[Event], None]) -> None:
        self._translator = translator
        self._meter = meter
        self._emit = emit
        self._known: dict[ConnectionId, _Known] = {}
        self._requests: dict[RequestId, ConnectionId] = {}
        self._calls: dict[CallId, Call] = {}
        self._work: deque[tuple[str, ConnectionId | None, tuple[Any, ...]]] = deque()
        self._working = False
        self._errors = 0
        self._timer: trio.CancelScope | None = None
        self._durations = {
            what: meter.metrics.translation.labels(what)
            for what in (
                "handle_request",
                "handle_reply",
                "client_gone",
                "upstream_lost",
                "handle_time",
                "set_policy",
            )
        }

    def request(self, shell: TranslatedConnection, connection: Connection, request: Request) -> None:
        """A client has sent a group call."""
        known = self._known.setdefault(connection.id, _Known(shell))
        known.request = request.id
        self._requests[request.id] = connection.id
        self._do("handle_request", connection.id, connection, request)

    def reply(self, call_id: CallId, message: Message) -> None:
        """A broker has answered a call."""
        call = self._calls.pop(call_id)
        self._known[call.connection_id].calls.discard(call_id)
        self._meter.metrics.calls_in_flight.dec()
        self._meter.call_result(call.api_key, message)
        self._do("handle_reply", call.connection_id, call_id, message)

    def client_gone(self, connection_id: ConnectionId) -> None:
        """The client of a known connection is gone; ``release`` comes when no member needs it."""
        known = self._known[connection_id]
        self._forget_request(known)
        self._do("client_gone", connection_id, connection_id)

    def upstream_lost(self, connection_id: ConnectionId) -> None:
        """A connection that the translator has heard of is no more, on either side."""
        if self.forget(connection_id):
            self._do("upstream_lost", connection_id, connection_id)

    def knows(self, connection_id: ConnectionId) -> bool:
        """Whether the translator has heard of this connection."""
        return connection_id in self._known

    def forget(self, connection_id: ConnectionId) -> bool:
        """A connection is closed, as the translator wanted; whether it was known."""
        known = self._known.pop(connection_id, None)
        if known is None:
            return False
        self._forget_request(known)
        for call_id in known.calls:
            del self._calls[call_id]
        self._meter.metrics.calls_in_flight.dec(len(known.calls))
        return True

    def set_policy(self, policy: Policy) -> None:
        """Another policy holds from now on."""
        self._do("set_policy", None, policy)

    async def run_timers(self) -> None:
        """Call the translator when its time comes, for ever."""
        while True:
            with trio.CancelScope(deadline=self._translator.next_deadline()) as self._timer:
                await trio.sleep_forever()
            errors = self._errors
            self._do("handle_time", None)
            if self._errors != errors:
                await trio.sleep(_PAUSE_AFTER_ERROR_S)  # the deadline may still be in the past

    def _forget_request(self, known: _Known) -> None:
        if known.request is not None:
            self._requests.pop(known.request, None)
            known.request = None

    def _do(self, what: str, about: ConnectionId | None, *arguments: Any) -> None:
        self._work.append((what, about, arguments))
        if self._working:
            return
        self._working = True
        try:
            while self._work:
                what, about, arguments = self._work.popleft()
                self._carry_out(about, self._ask(what, about, arguments))
        finally:
            self._working = False
        if self._timer is not None:
            self._timer.deadline = self._translator.next_deadline()

    def _ask(self, what: str, about: ConnectionId | None, arguments: tuple[Any, ...]) -> Iterable[Action]:
        started = time.perf_counter()
        try:
            actions: list[Action] = getattr(self._translator, what)(trio.current_time(), *arguments)
        except Exception as error:  # noqa: BLE001  a bug here ends one connection, never the process
            self._failed(what, about, error)
            return ()
        self._durations[what].observe(time.perf_counter() - started)
        return actions

    def _carry_out(self, about: ConnectionId | None, actions: Iterable[Action]) -> None:
        for action in actions:
            try:
                self._act(action)
            except Exception as error:  # noqa: BLE001  likewise
                self._failed(type(action).__name__, getattr(action, "connection_id", about), error)

    def _failed(self, what: str, about: ConnectionId | None, error: Exception) -> None:
        self._errors += 1
        self._meter.metrics.internal_errors.labels("translation").inc()
        _log.error("the translation failed", what=what, connection=about, exc_info=error)
        known = None if about is None else self._known.get(about)
        if known is not None:
            known.shell.fail()

    def _act(self, action: Action) -> None:
        if isinstance(action, Answer):
            if (shell := self._asking(action.request_id)) is not None:
                shell.answer(action.request_id, action.message)
        elif isinstance(action, Forward):
            if (shell := self._asking(action.request_id)) is not None:
                shell.forward(action.request_id)
        elif isinstance(action, Call):
            self._call(action)
        elif isinstance(action, Emit):
            self._emit(action.event)
        elif (known := self._known.get(action.connection_id)) is not None:
            if isinstance(action, Close):
                known.shell.close(action.reason)
            else:
                known.shell.release()

    def _asking(self, request_id: RequestId) -> TranslatedConnection | None:
        """The connection that waits for this request; None if its client is gone."""
        connection_id = self._requests.pop(request_id, None)
        if connection_id is None:
            return None
        known = self._known[connection_id]
        known.request = None
        return known.shell

    def _call(self, call: Call) -> None:
        known = self._known.get(call.connection_id)
        if known is None:
            _log.debug(
                "a call on a connection that is gone", connection=call.connection_id, api_key=call.api_key
            )
            self._do("upstream_lost", call.connection_id, call.connection_id)
            return
        self._calls[call.call_id] = call
        known.calls.add(call.call_id)
        self._meter.metrics.calls_in_flight.inc()
        known.shell.call(call)
