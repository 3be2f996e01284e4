"""Multi-step procedures as generators: yield a request or a wait, resume with the result.

A classic request often needs several requests to the broker (leave the old membership, join again, look up a topic
name). Each such procedure is a generator. It yields a :class:`Send` and is resumed with the decoded response, or a
:class:`Wait` and is resumed when the time has come or another procedure wakes it. Nothing here awaits: the
:class:`Scheduler` turns a Send into a :class:`~translation.actions.Call` and gets the response later.

The procedures of one member run one at a time, in the order in which their requests came (:class:`ProcedureQueue`).
A procedure that yields a Wait lets others run, so that a commit does not wait behind a JoinGroup that waits for
partitions. A procedure that waits for the broker holds up requests from other connections for ``turn_limit_s`` at most
(:class:`~translation.settings.TranslatorSettings`): its client may have stopped reading.
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
"""Every procedure gets this much time, however long others in its queue have waited already."""

_NOT_AUTHORIZED = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)


class Send(msgspec.Struct, frozen=True):
    """Send this request to the broker; resume with its decoded response, or raise :class:`UpstreamLost`."""

    api_key: int
    version: int
    message: Any


class Wait(msgspec.Struct, frozen=True):
    """Let other procedures of the queue run until ``until`` (seconds); resume with a :class:`WakeReason`."""

    until: float


class WakeReason(Enum):
    """Why a waiting procedure is resumed."""

    TIME = "its time has come"
    SUPERSEDED = "a newer call of the same kind takes over"
    MEMBERSHIP_LOST = "the broker has no such membership any more"
    REPLACED = "another process has its instance id"
    ABANDONED = "nobody waits for the outcome any more"


class UpstreamLost(Exception):
    """The upstream connection closed before the response came; the broker may have acted or not."""


Result = TypeVar("Result")

Procedure: TypeAlias = Generator[Send | Wait, Any, Result]
"""A multi-step procedure: yields requests and waits, and returns its result."""


class ReplyHandler(Protocol):
    """Handles the response to the first request of a procedure, so that most need no generator."""

    def __call__(self, answer: Any) -> Procedure[None] | None:
        """Handle the response, or :class:`UpstreamLost`; return the rest of the procedure, None if it has ended."""
        ...


def _nothing() -> None:
    pass


class ProcedureQueue:
    """The procedures of one member, of which one runs at a time. ``on_idle`` is called when none is left."""

    __slots__ = ("on_idle", "running", "waiting")

    def __init__(self, on_idle: Callable[[], None] = _nothing) -> None:
        self.running: RunningProcedure | None = None
        self.waiting: deque[RunningProcedure] = deque()
        self.on_idle = on_idle

    def detach_owner(self) -> None:
        """Stop calling ``on_idle``: the owner was dropped, and the two would keep each other alive as a cycle."""
        self.on_idle = _nothing

    @property
    def idle(self) -> bool:
        """Whether no procedure runs and none waits."""
        return self.running is None and not self.waiting

    @property
    def running_on(self) -> ConnectionId | None:
        """The connection of the procedure that runs; None if none does."""
        return None if self.running is None else self.running.connection_id


class RunningProcedure:
    """One procedure that has not ended: running, waiting for its turn, or in a Wait."""

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
        """The JoinGroup that this procedure answers, while it waits for partitions."""
        self.started = False
        self.call_id: CallId | None = None
        """The call whose response it waits for."""
        self.sent: Send | None = None
        """The request that it sent last."""
        self.waiting_since = math.inf
        """Since when it has waited for its turn (seconds)."""
        self.turn_began_at = -math.inf

    def on_time(self, now: float) -> None:
        """Resume from a Wait whose time has come, or check the time limit of a request that has no response yet."""
        if self.until <= now:
            self._runner.wake(self, WakeReason.TIME)
        elif self.until < math.inf:
            self._runner.book(self)
        elif self.call_id is not None:
            self._runner.limit_turn(self)


class Scheduler:
    """Runs the procedures and matches the broker's responses to the calls that wait for them."""

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
        """Start a procedure on a connection: at once if its queue is idle, else when its turn comes."""
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
        """Start a procedure by its first request. The queue must be idle and the connection open.

        It needs no generator as long as the first response ends it. Heartbeats, the most frequent requests, use this.
        """
        queue.running = procedure = RunningProcedure(self, None, queue, connection_id, client_id, on_reply)
        procedure.turn_began_at = self._context.now
        self._send(procedure, ask)

    def handle_reply(self, call_id: CallId, message: Any) -> None:
        """The broker answered a call. Unknown ids belong to procedures that ended with their connection."""
        procedure = self._calls.pop(call_id, None)
        if procedure is None:
            return
        self._forget_call(procedure, call_id)
        if getattr(message, "error_code", 0) == _NOT_AUTHORIZED and procedure.sent is not None:
            self._context.authorized_groups.withdraw(procedure.connection_id, procedure.sent.message.group_id)
        self._resume_with_reply(procedure, message)

    def connection_lost(self, connection_id: ConnectionId) -> None:
        """Raise UpstreamLost in every procedure that waits for a response on this connection."""
        for call_id in sorted(self._calls_on.pop(connection_id, ())):
            self._resume_with_reply(self._calls.pop(call_id), UpstreamLost())

    def wake(self, procedure: RunningProcedure, why: WakeReason) -> None:
        """Resume a waiting procedure as soon as its turn comes; the first reason given counts."""
        if procedure.until < math.inf:
            procedure.until = math.inf
            procedure.wake_reason = why
            procedure.waiting_since = self._context.now
            procedure.queue.waiting.appendleft(procedure)
            self._run_next(procedure.queue)

    def book(self, procedure: RunningProcedure) -> None:
        """Book the end of a procedure's Wait."""
        self._context.timers.book(procedure, procedure.until)

    def is_busy(self, connection_id: ConnectionId) -> bool:
        """Whether a procedure on this connection has not ended, or a response is still to come."""
        return connection_id in self._calls_on or connection_id in self._under_way

    def limit_turn(self, procedure: RunningProcedure) -> None:
        """Limit how long a request to the broker holds up requests from other connections.

        At the limit its connection is closed and counts as lost. A classic JoinGroup has no limit, because the broker
        answers it when the whole group has joined.
        """
        queue = procedure.queue
        if queue.running is not procedure or procedure.call_id is None or procedure.sent is None:
            return
        if procedure.sent.api_key == _JOIN_GROUP:
            return
        self._end_turn_in_time(procedure)

    def _end_turn_in_time(self, procedure: RunningProcedure) -> None:
        """Close its connection if another request has waited for ``turn_limit_s``, else check again at that time."""
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
        """Close the connection of a request that delays a due keep-alive heartbeat for longer than ``turn_limit_s``.

        The member then goes on, on another connection of its client.
        """
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
        """Forget a procedure that has ended."""
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
            return  # a procedure that has nothing to clean up after a lost connection just ends
        finally:
            if ended:  # also by an exception: a bug in one procedure must not block the member for ever
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
