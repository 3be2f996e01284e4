"""Conversations with the broker, written as they are told: a generator that asks and waits.

A classic call often means more than one request upstream (leave the old membership, join again, look up a
topic name). Each such conversation is a generator. It yields an :class:`Ask` and is resumed with the decoded
answer, or a :class:`Park` and is resumed when its time has come or somebody woke it. Nothing here awaits: the
:class:`Runner` turns an Ask into a :class:`~translation.actions.Call` and is told of the answer later.

Conversations of one member run one at a time, in the order in which they came. A parked conversation lets
others in, so that a commit does not wait behind a JoinGroup that waits for partitions. And one that waits for the
broker on a connection of its own holds up the calls that came on others for ``turn_limit_s`` at most
(:class:`~translation.settings.TranslatorSettings`): whoever sent it may read nothing.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Generator
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from protocol_codecs import ApiKey, ErrorCode
from translation.actions import Answer, Call, CallId, Close, ConnectionId, Request

if TYPE_CHECKING:
    from translation.engine.context import Context

# Bound once: Python 3.11 looks for a member of an enum for as long as a small message takes to be decoded.
_JOIN_GROUP = int(ApiKey.JOIN_GROUP)
_SHORTEST_TURN_S = 0.25
"""What a conversation may take for its turn however long others have waited for turns before it."""

_NOT_AUTHORIZED = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)


class Ask(msgspec.Struct, frozen=True):
    """Send this request upstream and resume with its decoded answer (or with :class:`UpstreamLost`)."""

    api_key: int
    version: int
    message: Any


class Park(msgspec.Struct, frozen=True):
    """Let others in until ``until`` (seconds); resumed with a :class:`Woken`."""

    until: float


class Woken(Enum):
    """Why a parked conversation goes on."""

    TIME = "its time has come"
    SUPERSEDED = "a newer call of the same kind takes over"
    MEMBERSHIP_LOST = "the broker has no such membership any more"
    REPLACED = "another process has its instance id"
    ABANDONED = "nobody waits for the outcome any more"


class UpstreamLost(Exception):
    """The upstream connection went away before the answer came; whether the broker acted is not known."""


Steps = Generator[Ask | Park, Any, None]
"""A whole conversation."""


class Then(Protocol):
    """What follows from the answer to a conversation's first question."""

    def __call__(self, answer: Any) -> Steps | None:
        """Given the answer or :class:`UpstreamLost`, gives what is left of the conversation; None if that was all."""
        ...

    def foresees(self, answer: Any) -> Answer | None:
        """What it will do first with this answer, if that is to answer the client. Changes nothing."""
        ...


def _nothing() -> None:
    pass


class Turns:
    """Whose turn it is: held by each member, so that its conversations run one at a time."""

    __slots__ = ("on_idle", "running", "waiting")

    def __init__(self, on_idle: Callable[[], None] = _nothing) -> None:
        self.running: Exchange | None = None
        self.waiting: deque[Exchange] = deque()
        self.on_idle = on_idle

    def let_go(self) -> None:
        """The owner is gone and need not be told: it and its turns would keep each other until the collector comes."""
        self.on_idle = _nothing

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return self.running is None and not self.waiting

    @property
    def speaks_on(self) -> ConnectionId | None:
        """The connection of the conversation whose turn it is."""
        return None if self.running is None else self.running.connection_id


class Exchange:
    """One conversation under way."""

    __slots__ = (
        "_runner",
        "asked",
        "call_id",
        "client_id",
        "connection_id",
        "request",
        "started",
        "steps",
        "then",
        "timer_at",
        "turn_began_at",
        "turns",
        "until",
        "waiting_since",
        "woken",
    )

    def __init__(
        self,
        runner: "Runner",
        steps: Steps | None,
        turns: Turns,
        connection_id: ConnectionId,
        client_id: str | None,
        then: Then | None = None,
    ) -> None:
        self._runner = runner
        self.steps = steps
        self.then = then
        self.turns = turns
        self.connection_id = connection_id
        self.client_id = client_id
        self.timer_at = math.inf
        self.until = math.inf
        self.woken: Woken | None = None
        self.request: Request | None = None
        """The JoinGroup that this conversation is to answer, as long as it waits for partitions."""
        self.started = False
        self.call_id: CallId | None = None
        """The call whose answer it waits for."""
        self.asked: Ask | None = None
        """What it asked last."""
        self.waiting_since = math.inf
        """Since when it has waited for its turn."""
        self.turn_began_at = -math.inf

    def on_time(self, now: float) -> None:
        """A booked time has come: that which a Park asked for, unless somebody woke the conversation before, or the end
        of its turn, unless the answer came."""
        if self.until <= now:
            self._runner.wake(self, Woken.TIME)
        elif self.until < math.inf:
            self._runner.book(self)
        elif self.call_id is not None:
            self._runner.limit_turn(self)


class Runner:
    """Steps the conversations forward; holds the calls that wait for an answer."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._calls: dict[CallId, Exchange] = {}
        self._calls_on: dict[ConnectionId, set[CallId]] = {}
        self._under_way: Counter[ConnectionId] = Counter()
        """Conversations that have not ended, by connection; those that need no generator are known by their calls."""
        self._last_call_id = 0

    def start(
        self, steps: Steps, turns: Turns, connection_id: ConnectionId, client_id: str | None
    ) -> Exchange:
        """Begin a conversation on a connection, at once or when it is its turn."""
        exchange = Exchange(self, steps, turns, connection_id, client_id)
        self._under_way[connection_id] += 1
        exchange.waiting_since = self._context.now
        turns.waiting.append(exchange)
        self._give_turns(turns)
        return exchange

    def ask(
        self, ask: Ask, then: Then, turns: Turns, connection_id: ConnectionId, client_id: str | None
    ) -> None:
        """Begin a conversation with its first question, where it is its turn at once and the connection is there.

        It needs no generator as long as the answer ends it: that is for what is said most.
        """
        turns.running = exchange = Exchange(self, None, turns, connection_id, client_id, then)
        exchange.turn_began_at = self._context.now
        self._send(exchange, ask)

    def reply(self, call_id: CallId, message: Any) -> None:
        """The broker answered a call. Unknown ids are of conversations that ended with their connection."""
        exchange = self._calls.pop(call_id, None)
        if exchange is None:
            return
        self._forget_call(exchange, call_id)
        if getattr(message, "error_code", 0) == _NOT_AUTHORIZED and exchange.asked is not None:
            self._context.admissions.withdraw(exchange.connection_id, exchange.asked.message.group_id)
        self._answered(exchange, message)

    def foresees(self, call_id: CallId, message: Any) -> Answer | None:
        """What :meth:`reply` will do first, if that is to answer a client. Changes nothing."""
        exchange = self._calls.get(call_id)
        return None if exchange is None or exchange.then is None else exchange.then.foresees(message)

    def lost(self, connection_id: ConnectionId) -> None:
        """The upstream connection is gone, and every call on it with it."""
        for call_id in sorted(self._calls_on.pop(connection_id, ())):
            self._answered(self._calls.pop(call_id), UpstreamLost())

    def wake(self, exchange: Exchange, why: Woken) -> None:
        """Let a parked conversation go on as soon as it is its turn; the first reason given counts."""
        if exchange.until < math.inf:
            exchange.until = math.inf
            exchange.woken = why
            exchange.waiting_since = self._context.now
            exchange.turns.waiting.appendleft(exchange)
            self._give_turns(exchange.turns)

    def book(self, exchange: Exchange) -> None:
        """Have a parked conversation called when its time comes."""
        self._context.timers.book(exchange, exchange.until)

    def is_busy(self, connection_id: ConnectionId) -> bool:
        """Whether a conversation on a connection has not ended, or an answer is still to come."""
        return connection_id in self._calls_on or connection_id in self._under_way

    def limit_turn(self, exchange: Exchange) -> None:
        """A conversation waits for the broker: see that nobody who came on another connection waits for it too long.

        Its connection counts as lost then, and is closed. The answer to a classic JoinGroup may take as long as it
        likes, because that waits for the whole group.
        """
        turns = exchange.turns
        if turns.running is not exchange or exchange.call_id is None or exchange.asked is None:
            return
        if exchange.asked.api_key == _JOIN_GROUP:
            return
        self._end_turn_in_time(exchange)

    def _end_turn_in_time(self, exchange: Exchange) -> None:
        """Close its connection when whoever waits longest has waited long enough, or see that it is looked at then."""
        now, limit_s = self._context.now, self._context.settings.turn_limit_s
        clients = self._context.clients
        waits_since = min(
            (
                one.waiting_since
                for one in exchange.turns.waiting
                if one.connection_id != exchange.connection_id and clients.is_connected(one.connection_id)
            ),
            default=math.inf,
        )
        ends_at = max(waits_since + limit_s, exchange.turn_began_at + _SHORTEST_TURN_S)
        if now < ends_at:
            self._context.timers.book(exchange, ends_at)  # nothing is booked if nobody waits
        else:
            self._close(exchange.connection_id)

    def end_silence(self, turns: Turns) -> None:
        """A member's keep-alive is due, and a conversation waits for the broker: if that takes too long, and the client
        can be reached on another connection, go on there."""
        exchange = turns.running
        if exchange is None or exchange.asked is None or exchange.asked.api_key == _JOIN_GROUP:
            return
        if exchange.turn_began_at + self._context.settings.turn_limit_s <= self._context.now:
            self._close(exchange.connection_id)

    def _close(self, connection_id: ConnectionId) -> None:
        reason = "a call to the broker went unanswered on it, while a member is served on another connection"
        self._context.actions.append(Close(connection_id, reason))
        self._context.connection_lost(connection_id)

    def _forget_call(self, exchange: Exchange, call_id: CallId) -> None:
        exchange.call_id = None
        calls = self._calls_on[exchange.connection_id]
        calls.discard(call_id)
        if not calls:
            del self._calls_on[exchange.connection_id]

    def _ended(self, exchange: Exchange) -> None:
        """A conversation that was started has ended."""
        connection_id = exchange.connection_id
        self._under_way[connection_id] -= 1
        if not self._under_way[connection_id]:
            del self._under_way[connection_id]
            self._context.clients.maybe_release(connection_id)

    def _answered(self, exchange: Exchange, answer: Any) -> None:
        exchange.call_id = None
        turns = exchange.turns
        if exchange.then is not None:
            then, exchange.then = exchange.then, None
            try:
                exchange.steps = then(answer)
            finally:  # also by an exception
                if exchange.steps is None:
                    turns.running = None
                    self._context.clients.maybe_release(exchange.connection_id)
            if exchange.steps is not None:
                self._under_way[exchange.connection_id] += 1
                self._advance(exchange, None)
        else:
            self._advance(exchange, answer)
        self._give_turns(turns)

    def _give_turns(self, turns: Turns) -> None:
        while turns.running is None and turns.waiting:
            exchange = turns.waiting.popleft()
            if not exchange.started and self._context.clients.connection(exchange.connection_id) is None:
                if exchange.steps is not None:
                    exchange.steps.close()  # its connection went away while it waited
                self._ended(exchange)
                continue
            exchange.started = True
            exchange.turn_began_at = self._context.now
            turns.running = exchange
            woken, exchange.woken = exchange.woken, None
            self._advance(exchange, woken)
        if turns.running is None:  # and nothing waits: see the loop
            turns.on_idle()
        elif turns.waiting:
            self.limit_turn(turns.running)

    def _advance(self, exchange: Exchange, value: Any) -> None:
        steps = exchange.steps
        assert steps is not None  # noqa: S101  what has none is asked once and ends (:meth:`_answered`)
        ended = True
        try:
            step = steps.throw(value) if isinstance(value, UpstreamLost) else steps.send(value)
            ended = False
        except (StopIteration, UpstreamLost):
            return  # a conversation that has nothing to clean up after a lost connection just ends
        finally:
            if ended:  # also by an exception: a bug in one conversation must not block the member for ever
                exchange.turns.running = None
                self._ended(exchange)
        if isinstance(step, Park):
            exchange.turns.running = None
            exchange.until = step.until
            self.book(exchange)
        else:
            self._call(exchange, step)

    def _call(self, exchange: Exchange, ask: Ask) -> None:
        if self._context.clients.connection(exchange.connection_id) is None:
            self._advance(exchange, UpstreamLost())
        else:
            self._send(exchange, ask)

    def _send(self, exchange: Exchange, ask: Ask) -> None:
        self._last_call_id += 1
        exchange.call_id = call_id = CallId(self._last_call_id)
        exchange.asked = ask
        self._calls[call_id] = exchange
        self._calls_on.setdefault(exchange.connection_id, set()).add(call_id)
        self._context.actions.append(
            Call(
                connection_id=exchange.connection_id,
                call_id=call_id,
                api_key=ask.api_key,
                version=ask.version,
                client_id=exchange.client_id,
                message=ask.message,
            )
        )
