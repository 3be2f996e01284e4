"""Conversations with the broker, written as they are told: a generator that asks and waits.

A classic call often means more than one request upstream (leave the old membership, join again, look up a
topic name). Each such conversation is a generator. It yields an :class:`Send` and is resumed with the decoded
answer, or a :class:`Wait` and is resumed when its time has come or somebody woke it. Nothing here awaits: the
:class:`Scheduler` turns an Ask into a :class:`~translation.actions.Call` and is told of the answer later.

Conversations of one member run one at a time, in the order in which they came. A parked conversation lets
others in, so that a commit does not wait behind a JoinGroup that waits for partitions. And one that waits for the
broker on a connection of its own holds up the calls that came on others for ``turn_limit_s`` at most
(:class:`~translation.settings.TranslatorSettings`): whoever sent it may read nothing.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Generator
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import msgspec

from protocol_codecs import ApiKey, ErrorCode
from translation.actions import Call, CallId, Close, ConnectionId, Request

if TYPE_CHECKING:
    from translation.engine.context import Context

# Bound once: Python 3.11 looks for a member of an enum for as long as a small message takes to be decoded.
_JOIN_GROUP = int(ApiKey.JOIN_GROUP)
_SHORTEST_TURN_S = 0.25
"""What a conversation may take for its turn however long others have waited for turns before it."""

_NOT_AUTHORIZED = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)


class Send(msgspec.Struct, frozen=True):
    """Send this request upstream and resume with its decoded answer (or with :class:`UpstreamLost`)."""

    api_key: int
    version: int
    message: Any


class Wait(msgspec.Struct, frozen=True):
    """Let others in until ``until`` (seconds); resumed with a :class:`Woken`."""

    until: float


class WakeReason(Enum):
    """Why a parked conversation goes on."""

    TIME = "its time has come"
    SUPERSEDED = "a newer call of the same kind takes over"
    MEMBERSHIP_LOST = "the broker has no such membership any more"
    REPLACED = "another process has its instance id"
    ABANDONED = "nobody waits for the outcome any more"


class UpstreamLost(Exception):
    """The upstream connection went away before the answer came; whether the broker acted is not known."""


Result = TypeVar("Result")

Procedure: TypeAlias = Generator[Send | Wait, Any, Result]
"""A multi-step procedure: yields requests and waits, and returns its result."""


class ReplyHandler(Protocol):
    """What follows from the answer to a conversation's first question."""

    def __call__(self, answer: Any) -> Procedure[None] | None:
        """Given the answer or :class:`UpstreamLost`, gives what is left of the conversation; None if that was all."""
        ...


def _nothing() -> None:
    pass


class ProcedureQueue:
    """Whose turn it is: held by each member, so that its conversations run one at a time."""

    __slots__ = ("on_idle", "running", "waiting")

    def __init__(self, on_idle: Callable[[], None] = _nothing) -> None:
        self.running: RunningProcedure | None = None
        self.waiting: deque[RunningProcedure] = deque()
        self.on_idle = on_idle

    def detach_owner(self) -> None:
        """The owner is gone and need not be told: it and its turns would keep each other until the collector comes."""
        self.on_idle = _nothing

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return self.running is None and not self.waiting

    @property
    def running_on(self) -> ConnectionId | None:
        """The connection of the conversation whose turn it is."""
        return None if self.running is None else self.running.connection_id


class RunningProcedure:
    """One conversation under way."""

    __slots__ = (
        "_runner",
        "call_id",
        "client_id",
        "connection_id",
        "generator",
        "on_reply",
        "queue",
        "request",
        "sent",
        "started",
        "timer_at",
        "turn_began_at",
        "until",
        "waiting_since",
        "wake_reason",
    )

    def __init__(
        self,
        scheduler: "Scheduler",
        generator: Procedure[None] | None,
        queue: ProcedureQueue,
        connection_id: ConnectionId,
        client_id: str | None,
        on_reply: ReplyHandler | None = None,
    ) -> None:
        self._runner = scheduler
        self.generator = generator
        self.on_reply = on_reply
        self.queue = queue
        self.connection_id = connection_id
        self.client_id = client_id
        self.timer_at = math.inf
        self.until = math.inf
        self.wake_reason: WakeReason | None = None
        self.request: Request | None = None
        """The JoinGroup that this conversation is to answer, as long as it waits for partitions."""
        self.started = False
        self.call_id: CallId | None = None
        """The call whose answer it waits for."""
        self.sent: Send | None = None
        """What it asked last."""
        self.waiting_since = math.inf
        """Since when it has waited for its turn."""
        self.turn_began_at = -math.inf

    def on_time(self, now: float) -> None:
        """A booked time has come: that which a Park asked for, unless somebody woke the conversation before, or the end
        of its turn, unless the answer came."""
        if self.until <= now:
            self._runner.wake(self, WakeReason.TIME)
        elif self.until < math.inf:
            self._runner.book(self)
        elif self.call_id is not None:
            self._runner.limit_turn(self)


class Scheduler:
    """Steps the conversations forward; holds the calls that wait for an answer."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._calls: dict[CallId, RunningProcedure] = {}
        self._calls_on: dict[ConnectionId, set[CallId]] = {}
        self._under_way: Counter[ConnectionId] = Counter()
        """Conversations that have not ended, by connection; those that need no generator are known by their calls."""
        self._last_call_id = 0

    def start(
        self,
        generator: Procedure[None],
        queue: ProcedureQueue,
        connection_id: ConnectionId,
        client_id: str | None,
    ) -> RunningProcedure:
        """Begin a conversation on a connection, at once or when it is its turn."""
        procedure = RunningProcedure(self, generator, queue, connection_id, client_id)
        self._under_way[connection_id] += 1
        procedure.waiting_since = self._context.now
        queue.waiting.append(procedure)
        self._run_next(queue)
        return procedure

    def start_with(
        self,
        ask: Send,
        on_reply: ReplyHandler,
        queue: ProcedureQueue,
        connection_id: ConnectionId,
        client_id: str | None,
    ) -> None:
        """Begin a conversation with its first question, where it is its turn at once and the connection is there.

        It needs no generator as long as the answer ends it: that is for what is said most.
        """
        queue.running = procedure = RunningProcedure(self, None, queue, connection_id, client_id, on_reply)
        procedure.turn_began_at = self._context.now
        self._send(procedure, ask)

    def handle_reply(self, call_id: CallId, message: Any) -> None:
        """The broker answered a call. Unknown ids are of conversations that ended with their connection."""
        procedure = self._calls.pop(call_id, None)
        if procedure is None:
            return
        self._forget_call(procedure, call_id)
        if getattr(message, "error_code", 0) == _NOT_AUTHORIZED and procedure.sent is not None:
            self._context.admissions.withdraw(procedure.connection_id, procedure.sent.message.group_id)
        self._resume_with_reply(procedure, message)

    def connection_lost(self, connection_id: ConnectionId) -> None:
        """The upstream connection is gone, and every call on it with it."""
        for call_id in sorted(self._calls_on.pop(connection_id, ())):
            self._resume_with_reply(self._calls.pop(call_id), UpstreamLost())

    def wake(self, procedure: RunningProcedure, why: WakeReason) -> None:
        """Let a parked conversation go on as soon as it is its turn; the first reason given counts."""
        if procedure.until < math.inf:
            procedure.until = math.inf
            procedure.wake_reason = why
            procedure.waiting_since = self._context.now
            procedure.queue.waiting.appendleft(procedure)
            self._run_next(procedure.queue)

    def book(self, procedure: RunningProcedure) -> None:
        """Have a parked conversation called when its time comes."""
        self._context.timers.book(procedure, procedure.until)

    def is_busy(self, connection_id: ConnectionId) -> bool:
        """Whether a conversation on a connection has not ended, or an answer is still to come."""
        return connection_id in self._calls_on or connection_id in self._under_way

    def limit_turn(self, procedure: RunningProcedure) -> None:
        """A conversation waits for the broker: see that nobody who came on another connection waits for it too long.

        Its connection counts as lost then, and is closed. The answer to a classic JoinGroup may take as long as it
        likes, because that waits for the whole group.
        """
        queue = procedure.queue
        if queue.running is not procedure or procedure.call_id is None or procedure.sent is None:
            return
        if procedure.sent.api_key == _JOIN_GROUP:
            return
        self._end_turn_in_time(procedure)

    def _end_turn_in_time(self, procedure: RunningProcedure) -> None:
        """Close its connection when whoever waits longest has waited long enough, or see that it is looked at then."""
        now, limit_s = self._context.now, self._context.settings.turn_limit_s
        clients = self._context.connections
        waits_since = min(
            (
                one.waiting_since
                for one in procedure.queue.waiting
                if one.connection_id != procedure.connection_id and clients.is_connected(one.connection_id)
            ),
            default=math.inf,
        )
        ends_at = max(waits_since + limit_s, procedure.turn_began_at + _SHORTEST_TURN_S)
        if now < ends_at:
            self._context.timers.book(procedure, ends_at)  # nothing is booked if nobody waits
        else:
            self._close(procedure.connection_id)

    def end_silence(self, queue: ProcedureQueue) -> None:
        """A member's keep-alive is due, and a conversation waits for the broker: if that takes too long, and the client
        can be reached on another connection, go on there."""
        procedure = queue.running
        if procedure is None or procedure.sent is None or procedure.sent.api_key == _JOIN_GROUP:
            return
        if procedure.turn_began_at + self._context.settings.turn_limit_s <= self._context.now:
            self._close(procedure.connection_id)

    def _close(self, connection_id: ConnectionId) -> None:
        reason = "a call to the broker went unanswered on it, while a member is served on another connection"
        self._context.actions.append(Close(connection_id, reason))
        self._context.connection_lost(connection_id)

    def _forget_call(self, procedure: RunningProcedure, call_id: CallId) -> None:
        procedure.call_id = None
        calls = self._calls_on[procedure.connection_id]
        calls.discard(call_id)
        if not calls:
            del self._calls_on[procedure.connection_id]

    def _finished(self, procedure: RunningProcedure) -> None:
        """A conversation that was started has ended."""
        connection_id = procedure.connection_id
        self._under_way[connection_id] -= 1
        if not self._under_way[connection_id]:
            del self._under_way[connection_id]
            self._context.connections.maybe_release(connection_id)

    def _resume_with_reply(self, procedure: RunningProcedure, answer: Any) -> None:
        procedure.call_id = None
        queue = procedure.queue
        if procedure.on_reply is not None:
            on_reply, procedure.on_reply = procedure.on_reply, None
            try:
                procedure.generator = on_reply(answer)
            finally:  # also by an exception
                if procedure.generator is None:
                    queue.running = None
                    self._context.connections.maybe_release(procedure.connection_id)
            if procedure.generator is not None:
                self._under_way[procedure.connection_id] += 1
                self._resume(procedure, None)
        else:
            self._resume(procedure, answer)
        self._run_next(queue)

    def _run_next(self, queue: ProcedureQueue) -> None:
        while queue.running is None and queue.waiting:
            procedure = queue.waiting.popleft()
            if (
                not procedure.started
                and self._context.connections.connection(procedure.connection_id) is None
            ):
                if procedure.generator is not None:
                    procedure.generator.close()  # its connection went away while it waited
                self._finished(procedure)
                continue
            procedure.started = True
            procedure.turn_began_at = self._context.now
            queue.running = procedure
            wake_reason, procedure.wake_reason = procedure.wake_reason, None
            self._resume(procedure, wake_reason)
        if queue.running is None:  # and nothing waits: see the loop
            queue.on_idle()
        elif queue.waiting:
            self.limit_turn(queue.running)

    def _resume(self, procedure: RunningProcedure, value: Any) -> None:
        generator = procedure.generator
        assert generator is not None  # noqa: S101  what has none is asked once and ends (:meth:`_resume_with_reply`)
        ended = True
        try:
            step = generator.throw(value) if isinstance(value, UpstreamLost) else generator.send(value)
            ended = False
        except (StopIteration, UpstreamLost):
            return  # a conversation that has nothing to clean up after a lost connection just ends
        finally:
            if ended:  # also by an exception: a bug in one conversation must not block the member for ever
                procedure.queue.running = None
                self._finished(procedure)
        if isinstance(step, Wait):
            procedure.queue.running = None
            procedure.until = step.until
            self.book(procedure)
        else:
            self._send_or_fail(procedure, step)

    def _send_or_fail(self, procedure: RunningProcedure, ask: Send) -> None:
        if self._context.connections.connection(procedure.connection_id) is None:
            self._resume(procedure, UpstreamLost())
        else:
            self._send(procedure, ask)

    def _send(self, procedure: RunningProcedure, ask: Send) -> None:
        self._last_call_id += 1
        procedure.call_id = call_id = CallId(self._last_call_id)
        procedure.sent = ask
        self._calls[call_id] = procedure
        self._calls_on.setdefault(procedure.connection_id, set()).add(call_id)
        self._context.actions.append(
            Call(
                connection_id=procedure.connection_id,
                call_id=call_id,
                api_key=ask.api_key,
                version=ask.version,
                client_id=procedure.client_id,
                message=ask.message,
            )
        )
