"""Drives the one translator of the process (``epochgate_translation_seconds``): hands it the connections' events and
executes its actions in order.

Everything here is synchronous and runs in the trio thread. Executing an action may let the next request of a connection
through, which is another event. Such events queue, so the translator never gets a second event before the actions of
the first are done.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
import trio

from protocol_codecs import ApiKey, Message
from proxy.connection.event_reporter import EventReporter
from proxy.connection.group_routes import GroupRoutes
from proxy.groups.broker_queries import BrokerQuery
from proxy.metrics.counters import HotHistogram
from proxy.session.request_metrics import RequestMetrics
from translation.actions import (
    Action,
    Answer,
    Authorized,
    Call,
    CallHook,
    CallId,
    Close,
    Connection,
    ConnectionId,
    Emit,
    Event,
    Forward,
    MemberProtocol,
    Relayed,
    Release,
    Request,
    RequestId,
)
from translation.member_log.group_records import Proof
from translation.member_log.outputs import Output
from translation.member_log.signals import Report
from translation.moving.command_writes import CommandOutcome
from translation.moving.mend import Description
from translation.passthrough.commits import COMMITS, codes_of
from translation.passthrough.observer import Observer
from translation.passthrough.topic_names import TopicNames
from translation.policy.policy import Policy
from translation.rollout.commands import Command
from translation.translator import Translator

if TYPE_CHECKING:
    from proxy.connection.session_shell import SessionShell

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.translation")
_PAUSE_AFTER_ERROR_S = 1.0

_LATE_S = 0.1
"""A deadline that is handled so much too late was missed while the process stood still (SIGSTOP, a starved node)."""
_GRACE_S = 1.0
"""For so long after that, calls are read and no deadline is handled: clients may have called in time, and what they
sent lies in the sockets. A member would be removed whose client has done all that it had to do."""

# What each request is compared with. Bound once: Python 3.11 looks for a member of an enum for as long as a small
# message takes to be decoded.
_HEARTBEAT = int(ApiKey.HEARTBEAT)
_CONSUMER_GROUP_HEARTBEAT = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)


class _Handler(msgspec.Struct, frozen=True, eq=False):
    """One method of the translator, its name in log and metrics, and the time that it takes, in seconds."""

    name: str
    handle: Callable[..., list[Action]]
    durations: HotHistogram


class _DrivenConnection(msgspec.Struct):
    """A connection that the translator knows, with its requests and the calls on it that are under way."""

    shell: "SessionShell"
    client_gone: bool = False
    requests: set[RequestId] = msgspec.field(default_factory=set)
    calls: set[CallId] = msgspec.field(default_factory=set)


class TranslatorDriver:
    """Drives the translator. ``emit`` gets each event for log, metrics and journal.

    ``observer`` is shown the group calls that pass through. ``carry_out`` is called after each event that the
    translator was handed, for what it has asked of the member log. ``on_disconnected`` is told the groups whose members
    have heartbeated on a connection that has ended, ``call_hook`` what the operator's hook is to hear.
    """

    def __init__(
        self,
        translator: Translator,
        request_metrics: RequestMetrics,
        emit: Callable[[Event], None],
        observer: Observer | None = None,
        carry_out: Callable[[], None] | None = None,
        *,
        on_disconnected: Callable[[frozenset[str]], None] = lambda _: None,
        call_hook: Callable[[CallHook], None] | None = None,
    ) -> None:
        self._translator = translator
        self._carry_out = carry_out
        self._request_metrics = request_metrics
        observer = observer or Observer(TopicNames())
        self.reporter = EventReporter(observer, emit, request_metrics.metrics)
        """Reports the events of all members."""
        self._on_disconnected = on_disconnected
        self._kept_alive = observer.kept_alive  # called for each Heartbeat that passes through
        self._routes = GroupRoutes()
        self._connections: dict[ConnectionId, _DrivenConnection] = {}
        self._requests: dict[RequestId, Request] = {}
        """Those without an answer; those of a client that is gone stay until its connection is forgotten."""
        self._first_heartbeats: set[RequestId] = set()
        """The Heartbeats among them with which connections begin that the broker has not accepted yet."""
        self._calls: dict[CallId, Call] = {}
        self._work: deque[tuple[_Handler, ConnectionId | None, tuple[Any, ...]]] = deque()
        self._working = False
        self._errors = 0
        self._clock: Callable[[], float] = trio.current_time
        self._timer: trio.CancelScope | None = None
        self._deadline = math.inf  # the timer's: setting it, even to what it is, costs trio's bookkeeping
        request_metrics.metrics.calls_in_flight.set_function(
            lambda: len(self._calls) + self._routes.queries_in_flight
        )

        def handler(name: str, handle: Callable[..., list[Action]]) -> _Handler:
            # The name is a label of a metric: it stays although the methods have other names.
            return _Handler(name, handle, request_metrics.metrics.translation.labels(name))

        self._handle_request = handler("handle_request", translator.handle_request)
        self._handle_reply = handler("handle_reply", translator.handle_reply)
        self._handle_relayed_response = handler("passed", translator.handle_relayed_response)
        self._handle_client_disconnected = handler("client_gone", translator.client_disconnected)
        self._handle_upstream_lost = handler("upstream_lost", translator.upstream_lost)
        self._handle_time = handler("handle_time", translator.handle_time)
        self._handle_policy = handler("set_policy", translator.set_policy)
        self._handle_proofs = handler("note_proofs", translator.rollout.note_proofs)
        self._handle_description = handler("description", translator.handle_description)
        self._handle_log_outputs = handler("log_outputs", translator.handle_log_outputs)
        self._handle_hook = handler("hook_answered", translator.rollout.hook_answered)
        self._take_actions = handler("command", translator.take_actions)
        self._handle_reports = handler("handle_reports", translator.rollout.handle_reports)
        self._executors: dict[type[Action], Callable[[Any], None]] = {
            Answer: self._answer,
            Forward: self._forward,
            Authorized: self._authorized,
            Relayed: self._relayed,
            Call: self._call,
            Emit: self._emitted,
            Close: self._close,
            Release: self._release,
            CallHook: call_hook or (lambda _call: None),
        }

    def request(self, shell: "SessionShell", request: Request) -> None:
        """Hand a client's group call to the translator, and send what is certain to come of it before."""
        connection = request.connection
        is_heartbeat = request.api_key == _HEARTBEAT
        if is_heartbeat and not self._working:
            prediction = self._translator.predict(self._clock(), request)
            if prediction is not None:
                shell.send_predicted(request.client_id, prediction)
        driven = self._connections.get(connection.id)
        if driven is None:
            driven = self._connections[connection.id] = _DrivenConnection(shell)
        driven.requests.add(request.id)
        self._requests[request.id] = request
        if is_heartbeat:
            group_id = request.message.group_id
            if not self._routes.leads_to(group_id, shell):
                if self._translator.is_authorized(connection.id, group_id):
                    self._routes.remember(shell, request)
                else:
                    self._first_heartbeats.add(request.id)
        self._dispatch(self._handle_request, connection.id, request)

    def passes_through(self, connection_id: ConnectionId, group_id: str, member_id: str) -> bool:
        """Whether :meth:`request` would do nothing with a member's Heartbeat on this connection but forward it."""
        return (
            not self._working
            and connection_id in self._connections
            and self._translator.passes_through(self._clock(), group_id, member_id)
        )

    def has_routed_group(self, group_id: str) -> bool:
        """Whether a router serves a group, whatever the policy says of it now, or may do."""
        return self._translator.has_routed_group(self._clock(), group_id)

    def call_relayed(self, shell: "SessionShell", request: Request, response: Any) -> None:
        """Observe a group call that passes through: when it is relayed (``response`` is None) and when it is answered.

        A call counts for nothing until the broker has accepted a call of its sender for this group.
        """
        connection, group_id = request.connection, request.message.group_id
        if request.api_key == _HEARTBEAT and response.error_code == 0:
            if self._translator.is_authorized(connection.id, group_id):
                if not self._routes.leads_to(group_id, shell):
                    self._routes.remember(shell, request)
                if self._kept_alive(self._clock(), connection.id, request.message):
                    return
        elif response is None:
            if self._translator.is_authorized(connection.id, group_id):
                self.reporter.call_forwarded(request)
            return
        if request.api_key in COMMITS:
            self._commit_answered(request, response)
            return
        is_news = request.api_key != _HEARTBEAT or response.error_code != 0
        if is_news or not self._translator.is_authorized(connection.id, group_id):
            if connection.id not in self._connections:
                self._connections[connection.id] = _DrivenConnection(shell)
            self._dispatch(self._handle_relayed_response, connection.id, request, response)
        is_heartbeat = request.api_key == _CONSUMER_GROUP_HEARTBEAT or (
            request.api_key == _HEARTBEAT and response.error_code == 0
        )
        if is_heartbeat and self._translator.is_authorized(connection.id, group_id):
            self._routes.remember(shell, request)
        self.reporter.call_answered(request, response)

    def _commit_answered(self, request: Request, response: Any, protocol: str | None = None) -> None:
        """Report what became of a commit; of a sender whom the broker has not accepted yet, only if it accepts this.

        It does if it accepts any partition: one that nobody has beside it hides nothing.
        """
        group_id = request.message.group_id
        if 0 in codes_of(response) or self._translator.is_authorized(request.connection.id, group_id):
            self.reporter.commit_answered(request, response, protocol)

    def _authorized(self, authorized: Authorized) -> None:
        # A member that passed through until now may be translated from this JoinGroup on: it gives up now what the
        # JoinGroup no longer reports as owned, not when it is answered.
        if (request := self._requests.get(authorized.request_id)) is not None:
            self.reporter.call_forwarded(request)

    def _relayed(self, relayed: Relayed) -> None:
        self.reporter.call_answered(relayed.request, relayed.response)

    def ask(
        self,
        group_id: str,
        make_query: Callable[[Connection], BrokerQuery | None],
        on_response: Callable[[Any], None],
    ) -> bool:
        """See :class:`proxy.groups.broker_queries.BrokerQueries`."""
        return self._routes.ask(group_id, make_query, on_response)

    def described(self, group_id: str, description: Description) -> None:
        """See :class:`proxy.groups.broker_queries.BrokerQueries`."""
        connection_id = self._routes.connection_id(group_id)
        if connection_id is not None and self.knows(connection_id):
            self._dispatch(self._handle_description, connection_id, connection_id, group_id, description)

    def reply(self, call_id: CallId, message: Message) -> None:
        """Hand a broker's response to whoever made the call: the translator, or a query about a group."""
        if call_id < 0:
            self._routes.answered(call_id, message)
            return
        call = self._calls.pop(call_id)
        self._connections[call.connection_id].calls.discard(call_id)
        self._dispatch(self._handle_reply, call.connection_id, call_id, message)
        self._request_metrics.call_result(call.api_key, message)

    def client_disconnected(self, connection_id: ConnectionId) -> None:
        """Tell the translator that a known connection has lost its client; it releases the connection when it can."""
        self._routes_end(connection_id)
        self._connections[connection_id].client_gone = True
        self._dispatch(self._handle_client_disconnected, connection_id, connection_id)

    def upstream_lost(self, connection_id: ConnectionId) -> None:
        """Tell the translator, if it knows the connection, that both sides of it are closed."""
        self._routes_end(connection_id)
        if self.forget(connection_id):
            self._dispatch(self._handle_upstream_lost, connection_id, connection_id)

    def _routes_end(self, connection_id: ConnectionId) -> None:
        groups = self._routes.groups_on(connection_id)
        self._routes.forget(connection_id)
        if groups:
            self._on_disconnected(groups)

    def is_quiescent(self, connection_id: ConnectionId) -> bool:
        """Whether a connection can be closed without disturbing a member: each on it is Stable, or there is none."""
        return not self.knows(connection_id) or self._translator.is_quiescent(connection_id)

    def knows(self, connection_id: ConnectionId) -> bool:
        """Whether the translator knows this connection."""
        return connection_id in self._connections

    def forget(self, connection_id: ConnectionId) -> bool:
        """Forget a connection without telling the translator; return whether it was known."""
        driven = self._connections.pop(connection_id, None)
        if driven is None:
            return False
        for request_id in driven.requests:
            del self._requests[request_id]
            self._first_heartbeats.discard(request_id)
        for call_id in driven.calls:
            del self._calls[call_id]
        return True

    def set_policy(self, policy: Policy) -> None:
        """Replace the policy."""
        self._dispatch(self._handle_policy, None, policy)

    def report(self, reports: Mapping[str, Report]) -> None:
        """Report what was seen of groups whose move has gates, and judge these."""
        self._dispatch(self._handle_reports, None, reports)

    def log_said(self, outputs: Sequence[Output]) -> None:
        """Hand the translator what the member log says."""
        self._dispatch(self._handle_log_outputs, None, outputs)

    def command(self, command: Command) -> CommandOutcome:
        """Give the translator a command of somebody, which is not in the middle of another event."""
        outcome = self._translator.rollout.command(self._clock(), command)
        self._dispatch(self._take_actions, None)
        return outcome

    def hook_answered(self, call: CallHook, veto: str | None) -> None:
        """Hand the translator what the hook has answered."""
        self._dispatch(self._handle_hook, None, call.group, call.number, call.step, veto)

    def note_proofs(self, proof_of: Callable[[str], Proof | None]) -> None:
        """Hand the translator what the live verification has found of each group."""
        self._dispatch(self._handle_proofs, None, proof_of)

    async def run_timers(self) -> None:
        """Call the translator at its deadlines until cancelled.

        After a standstill of the process, what its clients sent meanwhile is read first (:data:`_GRACE_S`).
        """
        self._clock = trio.lowlevel.current_clock().current_time  # trio's current_time looks for it each time
        while True:
            self._deadline = self._translator.next_deadline()
            with trio.CancelScope(deadline=self._deadline) as self._timer:
                await trio.sleep_forever()
            if self._clock() - self._deadline > _LATE_S:
                await trio.sleep(_GRACE_S)
            errors = self._errors
            self._dispatch(self._handle_time, None)
            if self._errors != errors:
                await trio.sleep(_PAUSE_AFTER_ERROR_S)  # the deadline may still be due

    def _dispatch(self, handler: "_Handler", about: ConnectionId | None, *arguments: Any) -> None:
        """Hand an event to the translator and execute its actions; queue it if another one is being handled."""
        if self._working:
            self._work.append((handler, about, arguments))
            return
        self._working = True
        try:
            self._handle(handler, about, arguments)
            while self._work:
                self._handle(*self._work.popleft())
        finally:
            self._working = False
        if self._timer is not None and (deadline := self._translator.next_deadline()) != self._deadline:
            self._timer.deadline = self._deadline = deadline

    def _handle(self, handler: "_Handler", about: ConnectionId | None, arguments: tuple[Any, ...]) -> None:
        started = perf_counter()
        try:
            actions = handler.handle(self._clock(), *arguments)
        except Exception as error:  # noqa: BLE001  a bug here ends one connection, never the process
            self._failed(handler.name, about, error)
            return
        took_s = perf_counter() - started
        for action in actions:
            try:
                self._executors[type(action)](action)
            except Exception as error:  # noqa: BLE001  likewise
                self._failed(type(action).__name__, getattr(action, "connection_id", about), error)
        handler.durations.observe(took_s)
        if self._carry_out is not None:
            self._carry_out()

    def _failed(self, what: str, about: ConnectionId | None, error: Exception) -> None:
        self._errors += 1
        self._request_metrics.metrics.internal_errors.labels("translation").inc()
        _log.error("the translation failed", what=what, connection=about, exc_info=error)
        driven = None if about is None else self._connections.get(about)
        if driven is not None:
            driven.shell.fail()

    def _answer(self, answer: Answer) -> None:
        request = self._requests.get(answer.request_id)
        if request is None or (driven := self._connections[request.connection.id]).client_gone:
            return
        del self._requests[request.id]
        driven.requests.discard(request.id)
        driven.shell.answer(request.id, answer.message)
        if self._first_heartbeats:
            self._first_answered(driven.shell, request)
        if request.api_key in COMMITS:
            self._commit_answered(request, answer.message, MemberProtocol.TRANSLATED)

    def _first_answered(self, shell: "SessionShell", request: Request) -> None:
        """Remember the connection of a Heartbeat about whose sender the broker was asked meanwhile.

        A client that loses each connection soon sends only one on each.
        """
        if request.id in self._first_heartbeats:
            self._first_heartbeats.discard(request.id)
            if self._translator.is_authorized(request.connection.id, request.message.group_id):
                self._routes.remember(shell, request)

    def _forward(self, forward: Forward) -> None:
        request = self._requests.get(forward.request_id)
        if request is None or (driven := self._connections[request.connection.id]).client_gone:
            return
        del self._requests[request.id]
        driven.requests.discard(request.id)
        self._first_heartbeats.discard(request.id)
        driven.shell.forward(request.id)  # its response comes with call_relayed

    def _emitted(self, emit: Emit) -> None:
        self.reporter.report((emit.event,))

    def _close(self, close: Close) -> None:
        if (driven := self._connections.get(close.connection_id)) is not None:
            driven.shell.close(close.reason)

    def _release(self, release: Release) -> None:
        if (driven := self._connections.get(release.connection_id)) is not None:
            driven.shell.release()

    def _call(self, call: Call) -> None:
        driven = self._connections.get(call.connection_id)
        if driven is None:
            _log.debug(
                "a call on a connection that is gone", connection=call.connection_id, api_key=call.api_key
            )
            self._dispatch(self._handle_upstream_lost, call.connection_id, call.connection_id)
            return
        self._calls[call.call_id] = call
        driven.calls.add(call.call_id)
        driven.shell.call(call)
