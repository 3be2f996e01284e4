"""Runs procedures, one at a time for each member, and matches the broker's responses to those that wait for them.

It also limits how long a request to the broker may hold up a member's requests from other connections, since its client
may have stopped reading (``turn_limit_s`` in :class:`~translation.settings.TranslatorSettings`).
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from translation.actions import Call, CallId, Close, ConnectionId
from translation.engine.connections import ClientConnections
from translation.error_mapping import MOVED_AWAY
from translation.member_log.records import MemberKey
from translation.members.environment import Environment
from translation.members.procedure import (
    CallBeside,
    Procedure,
    ProcedureQueue,
    ReplyHandler,
    RunningProcedure,
    Turn,
    UpstreamLost,
    Wait,
    WakeReason,
)

# Bound once: Python 3.11 looks for a member of an enum for as long as a small message takes to be decoded.
_JOIN_GROUP = int(ApiKey.JOIN_GROUP)
_NOT_AUTHORIZED = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)

_SHORTEST_TURN_S = 0.25
"""Every procedure gets this much time, however long others in its queue have waited already."""


class Scheduler:
    """Runs the procedures of one process.

    ``on_unauthorized`` is called when the broker refuses a request that a procedure sent on a connection for a group;
    ``on_connection_lost`` when a connection on which an answer does not come is closed; ``on_no_coordinator`` when the
    broker of a connection answers that it does not coordinate a group.
    """

    def __init__(
        self,
        environment: Environment,
        connections: ClientConnections,
        on_unauthorized: Callable[[ConnectionId, str], None],
        on_connection_lost: Callable[[ConnectionId], None],
        on_no_coordinator: Callable[[ConnectionId], None],
    ) -> None:
        self._environment = environment
        self._connections = connections
        self._on_unauthorized = on_unauthorized
        self._on_connection_lost = on_connection_lost
        self._on_no_coordinator = on_no_coordinator
        self._calls: dict[CallId, RunningProcedure] = {}
        self._calls_on: dict[ConnectionId, set[CallId]] = {}
        self._under_way: Counter[ConnectionId] = Counter()
        """Procedures that have not ended, by connection; those without a generator are known by their calls."""
        self._last_call_id = 0
        self._settling: dict[MemberKey, list[RunningProcedure]] = {}
        """Procedures that wait until the member log has settled something of a member."""

    def start(
        self,
        generator: Procedure[None],
        queue: ProcedureQueue,
        connection_id: ConnectionId,
        client_id: str | None,
        *,
        ends_session: bool = False,
        beside: bool = False,
    ) -> RunningProcedure:
        """Start a procedure on a connection: at once if its queue is idle, else when its turn comes.

        ``beside``: its turn may begin while others wait for the response to a CallBeside.
        """
        procedure = RunningProcedure(generator, queue, connection_id, client_id, None, self._procedure_due)
        procedure.ends_session = ends_session
        procedure.beside = beside
        self._under_way[connection_id] += 1
        procedure.waiting_since = self._environment.now
        queue.waiting.append(procedure)
        self._run_next(queue)
        return procedure

    def start_keep_alive(
        self,
        generator: Procedure[None],
        queue: ProcedureQueue,
        connection_id: ConnectionId,
        client_id: str | None,
    ) -> None:
        """Start a heartbeat of the proxy's own accord: at once if no procedure has the turn, else as the next.

        One that has not ended is enough: nothing is started beside it.
        """
        if queue.keep_alive is not None:
            return
        procedure = RunningProcedure(generator, queue, connection_id, client_id, None, self._procedure_due)
        procedure.beside = True
        queue.keep_alive = procedure
        self._under_way[connection_id] += 1
        procedure.waiting_since = self._environment.now
        queue.waiting.appendleft(procedure)
        self._run_next(queue)

    def start_with(
        self,
        ask: Call,
        on_reply: ReplyHandler,
        queue: ProcedureQueue,
        connection_id: ConnectionId,
        client_id: str | None,
    ) -> None:
        """Start a procedure by its first request. The queue must be idle and the connection open.

        It needs no generator as long as the first response ends it. Heartbeats, the most frequent requests, use this.
        """
        queue.running = procedure = RunningProcedure(
            None, queue, connection_id, client_id, on_reply, self._procedure_due
        )
        procedure.turn_began_at = self._environment.now
        self._send(procedure, ask)

    def handle_reply(self, call_id: CallId, message: Any) -> None:
        """The broker answered a call. Unknown ids belong to procedures that ended with their connection."""
        procedure = self._calls.pop(call_id, None)
        if procedure is None:
            return
        calls = self._calls_on[procedure.connection_id]
        calls.discard(call_id)
        if not calls:
            del self._calls_on[procedure.connection_id]
        code = getattr(message, "error_code", 0)
        if code == _NOT_AUTHORIZED and procedure.sent is not None:
            self._on_unauthorized(procedure.connection_id, procedure.sent.message.group_id)
        elif code in MOVED_AWAY:
            self._on_no_coordinator(procedure.connection_id)
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
            self._stop_settling(procedure)
            procedure.waiting_since = self._environment.now
            procedure.queue.waiting.appendleft(procedure)
            self._run_next(procedure.queue)

    def settled(self, key: MemberKey) -> None:
        """Resume the procedures that wait until the member log has settled something of this member."""
        for procedure in list(self._settling.get(key, ())):
            self.wake(procedure, WakeReason.SETTLED)

    def _stop_settling(self, procedure: RunningProcedure) -> None:
        key, procedure.settles = procedure.settles, None
        if key is not None:
            self._settling[key].remove(procedure)
            if not self._settling[key]:
                del self._settling[key]

    def _procedure_due(self, procedure: RunningProcedure, now: float) -> None:
        """Resume from a Wait whose time has come, or check the time limit of a request that has no response yet."""
        if procedure.until <= now:
            self.wake(procedure, WakeReason.TIME)
        elif procedure.until < math.inf:
            self._book(procedure)
        elif procedure.call_id is not None:
            self.limit_turn(procedure)

    def _book(self, procedure: RunningProcedure) -> None:
        """Book the end of a procedure's Wait."""
        self._environment.timers.book(procedure, procedure.until)

    def is_busy(self, connection_id: ConnectionId) -> bool:
        """Whether a procedure on this connection has not ended, or a response is still to come."""
        return connection_id in self._calls_on or connection_id in self._under_way

    def limit_turn(self, procedure: RunningProcedure) -> None:
        """Limit how long a request to the broker holds up requests from other connections and the end of a session.

        At the limit its connection is closed and counts as lost. A classic JoinGroup has no limit, because the broker
        answers it when the whole group has joined.
        """
        queue = procedure.queue
        if procedure.call_id is None or procedure.sent is None:
            return
        if queue.running is not procedure and procedure not in queue.beside:
            return
        if procedure.sent.api_key == _JOIN_GROUP:
            return
        self._end_turn_in_time(procedure)

    def _end_turn_in_time(self, procedure: RunningProcedure) -> None:
        """Close its connection if another request has waited for ``turn_limit_s``, else check again at that time."""
        now, limit_s = self._environment.now, self._environment.settings.turn_limit_s
        waits_since = min(
            (
                one.waiting_since
                for one in procedure.queue.waiting
                if one.ends_session
                or (
                    one is not procedure.queue.keep_alive  # see end_silence
                    and one.connection_id != procedure.connection_id
                    and self._connections.is_connected(one.connection_id)
                )
            ),
            default=math.inf,
        )
        ends_at = max(waits_since + limit_s, procedure.turn_began_at + _SHORTEST_TURN_S)
        if now < ends_at:
            self._environment.timers.book(procedure, ends_at)  # nothing is booked if nobody waits
        else:
            self._close(procedure.connection_id)

    def end_silence(self, queue: ProcedureQueue) -> None:
        """Close the connection of a request that delays a due keep-alive heartbeat for longer than ``turn_limit_s``.

        The member then goes on, on another connection of its client.
        """
        procedure = queue.running
        if procedure is None or procedure.sent is None or procedure.sent.api_key == _JOIN_GROUP:
            return
        if procedure.turn_began_at + self._environment.settings.turn_limit_s <= self._environment.now:
            self._close(procedure.connection_id)

    def abandon(self, queue: ProcedureQueue) -> None:
        """End the procedure that runs if it has had the turn for ``turn_limit_s``. Its connection stays open; what the
        broker still answers there counts for nothing."""
        procedure = queue.running
        if procedure is None or procedure.generator is None:
            return
        if procedure.turn_began_at + self._environment.settings.turn_limit_s <= self._environment.now:
            procedure.generator.close()
            self._end_turn(procedure)

    def _close(self, connection_id: ConnectionId) -> None:
        reason = "a call to the broker went unanswered on it, and held up a member on another connection, or its end"
        self._environment.actions.append(Close(connection_id, reason))
        self._on_connection_lost(connection_id)

    def _finished(self, procedure: RunningProcedure) -> None:
        """Forget a procedure that has ended."""
        if procedure.queue.keep_alive is procedure:
            procedure.queue.keep_alive = None
        connection_id = procedure.connection_id
        self._under_way[connection_id] -= 1
        if not self._under_way[connection_id]:
            del self._under_way[connection_id]
            self._connections.maybe_release(connection_id)

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
                    self._connections.maybe_release(procedure.connection_id)
            if procedure.generator is not None:
                self._under_way[procedure.connection_id] += 1
                self._resume(procedure, None)
        else:
            self._resume(procedure, answer)
        self._run_next(queue)

    def _run_next(self, queue: ProcedureQueue) -> None:
        while queue.running is None and queue.waiting and (queue.waiting[0].beside or not queue.beside):
            procedure = queue.waiting.popleft()
            procedure.again = False
            if not procedure.started and self._connections.connection(procedure.connection_id) is None:
                if procedure.generator is not None:
                    procedure.generator.close()  # its connection went away while it waited
                self._finished(procedure)
                continue
            procedure.started = True
            procedure.turn_began_at = self._environment.now
            queue.running = procedure
            wake_reason, procedure.wake_reason = procedure.wake_reason, None
            self._resume(procedure, wake_reason)
        if queue.waiting:
            # Of those beside the first: the next one is when that has its response.
            self.limit_turn(queue.running or next(iter(queue.beside)))
        elif queue.running is None and not queue.beside:
            queue.on_idle()

    @staticmethod
    def _put_in_front(procedure: RunningProcedure) -> None:
        """Have a procedure be the next of its queue, behind those that have to send something again."""
        waiting = procedure.queue.waiting
        behind = (index + 1 for index in reversed(range(len(waiting))) if waiting[index].again)
        waiting.insert(next(behind, 0), procedure)

    @staticmethod
    def _end_turn(procedure: RunningProcedure) -> None:
        queue = procedure.queue
        if queue.running is procedure:
            queue.running = None
        else:
            queue.beside.pop(procedure, None)

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
                self._end_turn(procedure)
                self._finished(procedure)
        if isinstance(step, Turn):
            self._end_turn(procedure)
            procedure.beside, procedure.again = False, step.again
            procedure.waiting_since = self._environment.now
            self._put_in_front(procedure)
        elif isinstance(step, Wait):
            self._end_turn(procedure)
            procedure.until = step.until
            if step.settles is not None:
                procedure.settles = step.settles
                self._settling.setdefault(step.settles, []).append(procedure)
            self._book(procedure)
        else:
            self._send_or_fail(procedure, step)
            if isinstance(step, CallBeside) and procedure.call_id is not None:
                self._end_turn(procedure)
                procedure.queue.beside[procedure] = None

    def _send_or_fail(self, procedure: RunningProcedure, ask: Call) -> None:
        if self._connections.connection(procedure.connection_id) is None:
            self._resume(procedure, UpstreamLost())
        else:
            self._send(procedure, ask)

    def _send(self, procedure: RunningProcedure, ask: Call) -> None:
        self._last_call_id += 1
        procedure.call_id = call_id = CallId(self._last_call_id)
        connection_id = procedure.connection_id
        call = Call(ask.api_key, ask.version, ask.message, procedure.client_id, connection_id, call_id)
        procedure.sent = call
        self._calls[call_id] = procedure
        self._calls_on.setdefault(connection_id, set()).add(call_id)
        self._environment.actions.append(call)
