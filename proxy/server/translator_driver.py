"""Between the connections and the one translator of the process: events in, actions carried out in order.

Everything here is synchronous and runs in the one trio thread. Carrying out an action may let the next
request of a connection through, which is an event again; such events queue up and are handled one after
another, so the translator never sees a second event before the actions of the first are done.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from time import perf_counter
from typing import Any, Protocol

import msgspec
import structlog
import trio

from protocol_codecs import ApiKey, Message
from proxy.metrics.periodic import run_periodically
from proxy.observability.broker_queries import Ask
from proxy.session.request_metrics import Meter
from translation.actions import (
    Action,
    Admitted,
    Answer,
    Call,
    CallId,
    Close,
    Connection,
    ConnectionId,
    Emit,
    Event,
    EventKind,
    Forward,
    MemberProtocol,
    Release,
    Request,
    RequestId,
)
from translation.passthrough.observer import Observer
from translation.passthrough.topic_names import TopicBook
from translation.policy.policy import Policy
from translation.policy.rule_cache import LONGEST_GROUP_ID

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.translation")
_PAUSE_AFTER_ERROR_S = 1.0
_LOOK_AT_SESSIONS_S = 2.0
_GROUPS_OF_ONE = 100
"""Groups that are remembered to be heard on one connection: a client may name as many as it likes."""

# What each request is compared with. Bound once: Python 3.11 looks for a member of an enum for as long as a small
# message takes to be decoded.
_HEARTBEAT = int(ApiKey.HEARTBEAT)
_CONSUMER_GROUP_HEARTBEAT = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)


class Translation(Protocol):
    """What the shell needs of a translator. ``now`` is :func:`trio.current_time`, in seconds."""

    def foresee_request(self, connection: Connection, request: Request) -> Message | None:
        """The ConsumerGroupHeartbeat that will come of a Heartbeat, if that will be all. handle_request follows."""
        ...

    def foresee_reply(self, call_id: CallId, message: Any) -> Answer | None:
        """What will come first of a reply, if that is the answer to a Heartbeat. handle_reply follows."""
        ...

    def handle_request(self, now: float, connection: Connection, request: Request) -> list[Action]:
        """A client's group call."""
        ...

    def handle_reply(self, now: float, call_id: CallId, message: Any) -> list[Action]:
        """The broker's answer to a Call."""
        ...

    def passed(self, now: float, connection: Connection, request: Request, response: Any) -> list[Action]:
        """The broker's answer to a group call that was relayed."""
        ...

    def admits(self, connection_id: ConnectionId, group_id: str) -> bool:
        """Whether the broker has accepted a call of this connection for this group."""
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

    def settled(self, connection_id: ConnectionId) -> bool:
        """Whether every member that is reached through a connection is Stable, with nothing under way."""
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


class _Reached(msgspec.Struct, frozen=True):
    """Where a member of a group was heard last."""

    shell: TranslatedConnection
    connection: Connection
    client_id: str | None


class _Question(msgspec.Struct, frozen=True):
    connection_id: ConnectionId
    tell: Callable[[Any], None]


class TranslationHub:
    """Drives the translator. ``emit`` takes each event for log, metrics and journal.

    ``observer`` is shown what passes through.
    """

    def __init__(
        self,
        translator: Translation,
        meter: Meter,
        emit: Callable[[Event], None],
        observer: Observer | None = None,
    ) -> None:
        self._translator = translator
        self._meter = meter
        self._emit = emit
        self._observer = observer or Observer(TopicBook())
        self._reached: dict[str, _Reached] = {}
        self._groups_on: dict[ConnectionId, set[str]] = {}
        self._questions: dict[CallId, _Question] = {}
        self._question_ids = count(-1, -1)
        self._known: dict[ConnectionId, _Known] = {}
        self._requests: dict[RequestId, _Known] = {}
        self._calls: dict[CallId, Call] = {}
        self._work: deque[tuple[str, ConnectionId | None, tuple[Any, ...]]] = deque()
        self._working = False
        self._errors = 0
        self._clock: Callable[[], float] = trio.current_time
        self._timer: trio.CancelScope | None = None
        self._deadline = math.inf  # the timer's: setting it, even to what it is, costs trio's bookkeeping
        meter.metrics.calls_in_flight.set_function(lambda: len(self._calls) + len(self._questions))
        self._ways = {
            what: (getattr(translator, what), meter.metrics.translation.labels(what))
            for what in (
                "handle_request",
                "handle_reply",
                "passed",
                "client_gone",
                "upstream_lost",
                "handle_time",
                "set_policy",
            )
        }
        self._acts: dict[type[Action], Callable[[Any], None]] = {
            Answer: self._answer,
            Forward: self._forward,
            Admitted: self._admitted,
            Call: self._call,
            Emit: self._emitted,
            Close: self._close,
            Release: self._release,
        }

    def foresee_request(self, connection: Connection, request: Request) -> Message | None:
        """The ConsumerGroupHeartbeat that will be called for at once by :meth:`request`, which follows; or None."""
        if request.api_key != _HEARTBEAT or self._working:
            return None
        return self._translator.foresee_request(connection, request)

    def foresee_reply(self, call_id: CallId, message: Message) -> Answer | None:
        """The answer that will be given at once by :meth:`reply`, which follows; or None."""
        return None if self._working else self._translator.foresee_reply(call_id, message)

    def request(self, shell: TranslatedConnection, connection: Connection, request: Request) -> None:
        """A client has sent a group call."""
        known = self._known.get(connection.id)
        if known is None:
            known = self._known[connection.id] = _Known(shell)
        known.request = request.id
        self._requests[request.id] = known
        if request.api_key == _HEARTBEAT:
            group_id = request.message.group_id
            reached = self._reached.get(group_id)
            if (reached is None or reached.shell is not shell) and self._translator.admits(
                connection.id, group_id
            ):
                self._reach(shell, connection, request)
        self._do("handle_request", connection.id, connection, request)

    def passed(
        self,
        shell: TranslatedConnection,
        connection: Connection,
        request: Request,
        response: Any,
    ) -> None:
        """A group call passes through: ``response`` is None when it is passed on, and then what the broker said.

        Until the broker has accepted its sender once, nothing that it says is believed.
        """
        group_id = request.message.group_id
        if response is None:
            if self._translator.admits(connection.id, group_id):
                self._observe(request, lambda now: self._observer.asked(now, request))
            return
        is_news = request.api_key != _HEARTBEAT or response.error_code != 0
        if is_news or not self._translator.admits(connection.id, group_id):
            if connection.id not in self._known:
                self._known[connection.id] = _Known(shell)
            self._do("passed", connection.id, connection, request, response)
        if request.api_key == _CONSUMER_GROUP_HEARTBEAT and self._translator.admits(connection.id, group_id):
            self._reach(shell, connection, request)
        self._observe(request, lambda now: self._observer.answered(now, connection, request, response))

    def _observe(self, request: Request, look: Callable[[float], Iterable[Event]]) -> None:
        """Show the observer a call, and tell what it makes of it."""
        try:
            events = look(trio.current_time())
        except Exception as error:  # noqa: BLE001  who only watches must not disturb
            self._meter.metrics.internal_errors.labels("observer").inc()
            _log.error("the observer failed", api_key=request.api_key, exc_info=error)
            return
        self._tell(events)

    def _admitted(self, admitted: Admitted) -> None:
        # A member that passed through until now may be translated from this JoinGroup on: what it no longer claims
        # ends now, not when it is answered.
        self._observe(admitted.request, lambda now: self._observer.asked(now, admitted.request))

    def _tell(self, events: Iterable[Event]) -> None:
        """Tell events, and the observer of those that end what it knows."""
        for event in events:
            self._emit(event)
            if event.kind is EventKind.POLICY_CHANGED and event.protocol != MemberProtocol.TRANSLATED:
                self._tell(self._observer.moved(event.group_id, event.member_id, event.reason))
            elif event.kind is EventKind.JOINED and event.protocol == MemberProtocol.TRANSLATED:
                self._observer.taken_over(event.group_id, event.member_id)

    def ask(
        self, group_id: str, question: Callable[[Connection], Ask | None], tell: Callable[[Any], None]
    ) -> bool:
        """See :class:`proxy.observability.broker_queries.BrokerQueries`."""
        reached = self._reached.get(group_id)
        ask = None if reached is None else question(reached.connection)
        if reached is None or ask is None:
            return False
        call_id = CallId(next(self._question_ids))
        self._questions[call_id] = _Question(reached.connection.id, tell)
        reached.shell.call(
            Call(reached.connection.id, call_id, ask.api_key, ask.version, reached.client_id, ask.message)
        )
        return True

    def _reach(self, shell: TranslatedConnection, connection: Connection, request: Request) -> None:
        """Remember where members of this group are heard."""
        group_id = request.message.group_id
        groups = self._groups_on.setdefault(connection.id, set())
        if len(groups) < _GROUPS_OF_ONE and len(group_id) <= LONGEST_GROUP_ID:
            self._reached[group_id] = _Reached(shell, connection, request.client_id)
            groups.add(group_id)

    def _unreach(self, connection_id: ConnectionId) -> None:
        """Nobody can be asked on this connection any more."""
        for group_id in self._groups_on.pop(connection_id, ()):
            reached = self._reached.get(
                group_id
            )  # another member's connection may have taken its place, and gone
            if reached is not None and reached.connection.id == connection_id:
                del self._reached[group_id]
        lost = [call_id for call_id, one in self._questions.items() if one.connection_id == connection_id]
        for call_id in lost:
            del self._questions[call_id]

    def reply(self, call_id: CallId, message: Message) -> None:
        """A broker has answered a call."""
        if (
            call_id < 0
        ):  # a question; its asker may be gone while the broker's side of the connection lives on
            if (question := self._questions.pop(call_id, None)) is not None:
                question.tell(message)
            return
        call = self._calls.pop(call_id)
        self._known[call.connection_id].calls.discard(call_id)
        self._do("handle_reply", call.connection_id, call_id, message)
        self._meter.call_result(call.api_key, message)

    def client_gone(self, connection_id: ConnectionId) -> None:
        """The client of a known connection is gone; ``release`` comes when no member needs it."""
        self._unreach(connection_id)
        known = self._known[connection_id]
        self._forget_request(known)
        self._do("client_gone", connection_id, connection_id)

    def upstream_lost(self, connection_id: ConnectionId) -> None:
        """A connection is no more, on either side."""
        self._unreach(connection_id)
        if self.forget(connection_id):
            self._do("upstream_lost", connection_id, connection_id)

    def settled(self, connection_id: ConnectionId) -> bool:
        """Whether a connection can be closed without disturbing a member: each on it is Stable, or there is none."""
        return not self.knows(connection_id) or self._translator.settled(connection_id)

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
        return True

    def set_policy(self, policy: Policy) -> None:
        """Another policy holds from now on."""
        self._do("set_policy", None, policy)

    async def watch_sessions(self) -> None:
        """Have the observer forget who is silent, for ever."""
        await run_periodically(_LOOK_AT_SESSIONS_S, self._look_at_sessions, self._meter.metrics)

    def _look_at_sessions(self) -> None:
        self._tell(self._observer.handle_time(trio.current_time()))

    async def run_timers(self) -> None:
        """Call the translator when its time comes, for ever."""
        self._clock = trio.lowlevel.current_clock().current_time  # trio's current_time looks for it each time
        while True:
            self._deadline = self._translator.next_deadline()
            with trio.CancelScope(deadline=self._deadline) as self._timer:
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
                handle, durations = self._ways[what]
                started = perf_counter()
                try:
                    actions: list[Action] = handle(self._clock(), *arguments)
                except Exception as error:  # noqa: BLE001  a bug here ends one connection, never the process
                    self._failed(what, about, error)
                    continue
                took_s = perf_counter() - started
                for action in actions:
                    try:
                        self._acts[type(action)](action)
                    except Exception as error:  # noqa: BLE001  likewise
                        self._failed(type(action).__name__, getattr(action, "connection_id", about), error)
                durations.observe(took_s)
        finally:
            self._working = False
        if self._timer is not None and (deadline := self._translator.next_deadline()) != self._deadline:
            self._timer.deadline = self._deadline = deadline

    def _failed(self, what: str, about: ConnectionId | None, error: Exception) -> None:
        self._errors += 1
        self._meter.metrics.internal_errors.labels("translation").inc()
        _log.error("the translation failed", what=what, connection=about, exc_info=error)
        known = None if about is None else self._known.get(about)
        if known is not None:
            known.shell.fail()

    def _answer(self, answer: Answer) -> None:
        known = self._requests.pop(answer.request_id, None)
        if known is not None:  # else its client is gone
            known.request = None
            known.shell.answer(answer.request_id, answer.message)

    def _forward(self, forward: Forward) -> None:
        known = self._requests.pop(forward.request_id, None)
        if known is not None:
            known.request = None
            known.shell.forward(forward.request_id)

    def _emitted(self, emit: Emit) -> None:
        self._tell((emit.event,))

    def _close(self, close: Close) -> None:
        if (known := self._known.get(close.connection_id)) is not None:
            known.shell.close(close.reason)

    def _release(self, release: Release) -> None:
        if (known := self._known.get(release.connection_id)) is not None:
            known.shell.release()

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
        known.shell.call(call)
