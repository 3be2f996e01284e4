"""One process of the proxy: the real translator, and a model of the shell around it.

The shell has the rules of ``proxy.session.session`` and ``proxy.connection.translator_driver``, on messages instead of
bytes:

* a request for the translation delays the ones behind it until it is answered or forwarded; only a commit follows
  commits as soon as the translation has sent the one before it;
* calls of the translation go upstream one at a time, between the requests that are relayed; behind commits the next one
  goes out at once;
* responses reach the client in the order of its requests, whoever answers them;
* when the broker's side is lost, pending answers are flushed and the client's side is closed;
* when the client disconnects, the broker's side stays until the translator releases it, unless the broker owes it a
  JoinGroup;
* events of the translator are handled one after another, never nested;
* a deadline that was missed by much, because the process stood still, is handled a second later: what clients sent
  meanwhile is read first;
* whether a client has disconnected is judged by what the kernel knows: what has arrived, even if the process was paused
  and has read nothing, but not what is still in flight.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Any, Protocol

from protocol_codecs import ApiKey
from tests.simulation.authorizer import OPEN_GROUP
from tests.simulation.clients.hostile import Hostile
from tests.simulation.commands import is_rolled_back
from tests.simulation.fleet.log_topic import LogTopic, LogWay
from tests.simulation.gates import GateSource
from tests.simulation.kernel import Kernel
from tests.simulation.network import Link, Network, Party
from tests.simulation.plan import Plan
from tests.simulation.violation import Violation
from tests.simulation.watch import Watch
from tests.simulation.watch_hostile import is_late_for_strangers_alone
from tests.simulation.wire import GROUP, KAFKA_4_3, SHOWN_WHEN_PASSED, TRANSLATED, Ask, Reply
from translation.actions import (
    Answer,
    Call,
    CallId,
    Close,
    Connection,
    ConnectionId,
    Emit,
    Event,
    Forward,
    Relayed,
    Release,
    Request,
    RequestId,
)
from translation.admission.authorization import NOBODY
from translation.apis.predicted_heartbeat import PredictedHeartbeat
from translation.member_log.member_log import MemberLog
from translation.member_log.outputs import Output
from translation.member_log.signals import Report
from translation.moving.command_writes import CommandOutcome, CommandState
from translation.passthrough.commits import COMMITS
from translation.policy.policy import Mode, Policy
from translation.rollout.commands import Command
from translation.translator import Translator

MOST_COMMITS = 16
"""As ``proxy.session.translated_calls`` has it."""

PIPELINED = "commits handed over while others are under way"

LATE_S, GRACE_MS = 0.1, 1_000
"""The shell's own numbers (``proxy.connection.translator_driver``)."""


class Held:
    """A request that the translation works on: ``sent`` if it is a commit that it has called for."""

    __slots__ = ("entry", "forwarded", "sent")

    def __init__(self, entry: list[Any]) -> None:
        self.entry = entry
        self.sent = False
        self.forwarded = False


class ShellConnection:
    """A client's connection, and its upstream connection."""

    __slots__ = (
        "awaiting",
        "calls",
        "calls_outstanding",
        "client",
        "client_open",
        "connection",
        "inbox",
        "known",
        "owed",
        "upstream",
        "upstream_open",
        "upstream_queue",
    )

    def __init__(self, connection: Connection, client: Link, upstream: Link) -> None:
        self.connection = connection
        self.client = client
        self.upstream = upstream
        self.client_open = True
        self.upstream_open = True
        self.known = False
        """Whether the translator has heard of it."""
        self.inbox: deque[Ask] = deque()
        self.awaiting: dict[RequestId, Held] = {}
        """The requests that the translation works on, in order; they are the last in ``owed``."""
        self.owed: deque[list[Any]] = deque()
        """[request, response or None] in the order in which the client asked."""
        self.calls: deque[Call] = deque()
        self.calls_outstanding: deque[Call] = deque()
        self.upstream_queue: deque[Call | Ask] = deque()
        """The requests that were sent to the broker and not answered yet."""

    @property
    def may_take_next(self) -> bool:
        """Whether the next request may be handed over: nothing is under way, or a commit follows commits."""
        if not self.awaiting:
            return True
        newest = next(reversed(self.awaiting.values()))
        return newest.sent and len(self.awaiting) < MOST_COMMITS and self.inbox[0].api_key in COMMITS

    @property
    def owes_join(self) -> bool:
        """Whether the broker owes the answer to a JoinGroup, which may never come."""
        return any(sent.api_key == ApiKey.JOIN_GROUP for sent in self.upstream_queue)


_COMMAND_AGAIN_MS = 50
"""After so long a command that is pending is given again."""


def a_request(request_id: RequestId, shell: ShellConnection, ask: Ask) -> Request:
    """Return what a client asks on a connection as the translation gets it."""
    return Request(request_id, shell.connection, ask.api_key, ask.version, ask.client_id, ask.message)


class Surroundings(Protocol):
    """The interface of the world that a process uses."""

    kernel: Kernel
    watch: Watch
    policy: Policy
    """The content of its policy file."""
    log_topic: LogTopic | None
    """The member log of the replicas, if they are a fleet."""
    plan: Plan
    late_before: AbstractSet[tuple[str, int]]
    """Processes and times (ms) at which a process counts as one that stood still, though it has missed nothing."""
    late_for_strangers: set[tuple[str, int]]
    """Likewise those at which a process has only missed deadlines of a group in which strangers may act."""


class ProxyProcess:
    """One replica. ``make_translator`` returns a new one without state, as after a restart, with this member log."""

    def __init__(
        self,
        name: str,
        world: Surroundings,
        network: Network,
        broker: Party,
        make_translator: Callable[[MemberLog | None], Translator],
    ) -> None:
        self.name = name
        self.up = False
        self.incarnation = 0
        self._world = world
        self._kernel = world.kernel
        self._network = network
        self._broker = broker
        self._watch = world.watch
        self._make_translator = make_translator
        self._last_id = 0
        self._ahead_ms = 0
        """How far its clock is ahead of all others."""
        self._grace_until_ms = -math.inf
        self._paused = False
        self._backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.start()

    def __repr__(self) -> str:
        return self.name

    # -- the process ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start without any state."""
        self.up = True
        self.policy = self._world.policy
        self.policy_read_ms = self.started_ms = self._kernel.now_ms
        self.incarnation += 1
        self.member_log: LogWay | None = None
        if self._world.log_topic is not None:
            self.member_log = LogWay(
                self._world.log_topic,
                (self.name, self.incarnation),
                lambda: self.now_s,
                self._log_says,
                self._later,
            )
        self._watch.steps.read_policy(self)
        self.translator = self._make_translator(None if self.member_log is None else self.member_log.log)
        self.gates = GateSource(self, self._world) if self._watch.gates.world is not None else None
        self.connections: dict[ConnectionId, ShellConnection] = {}
        self._client_on: dict[ConnectionId, Party] = {}
        """Whose each connection is or was."""
        self._by_link: dict[Link, ShellConnection] = {}
        self._requests: dict[RequestId, ShellConnection] = {}
        self._predictions: dict[CallId, PredictedHeartbeat] = {}
        self._called_on: dict[CallId, ConnectionId] = {}
        self._abandoned: set[RequestId] = set()
        self._work: deque[tuple[str, tuple[Any, ...]]] = deque()
        self._working = False
        self._wake_ms = math.inf
        self._grace_until_ms = -math.inf
        self._rolled_back = False
        if self.member_log is not None:
            self.member_log.start()

    def crash(self) -> None:
        """End the process; the operating system closes the connections."""
        self.up = False
        self._paused = False
        self._backlog.clear()
        self._wake_ms = math.inf
        for shell in self.connections.values():
            shell.client.close(self)
            if shell.upstream.to_far.slow_until_ms > self._kernel.now_ms:
                shell.upstream.to_far.break_off()  # what a stalled connection had not sent yet dies with it
            shell.upstream.close(self)
        self.connections.clear()
        self._by_link.clear()
        self._requests.clear()
        if self.member_log is not None:
            self.member_log.end()
        self._watch.process_died(self)

    def pause(self) -> None:
        """Pause for a while, like a suspended or starved process: it reads nothing and fires no timers."""
        self._paused = True

    def resume(self, *, timers_first: bool) -> None:
        """Continue: everything that arrived meanwhile is read at once, and all deadlines that passed are due."""
        if not self._paused:
            return
        self._paused = False
        backlog, self._backlog = self._backlog, []
        if timers_first:
            self._look_at_time()
        for handler, arguments in backlog:
            handler(*arguments)
        self._look_at_time()

    def _later(self, handler: Callable[..., None], *arguments: Any) -> bool:
        if self._paused:
            self._backlog.append((handler, arguments))
        return self._paused

    # -- connections ---------------------------------------------------------------------------------------------

    def accept(self, client: Link, host: str) -> None:
        """Accept a connection of a client."""
        self._last_id += 1
        connection = Connection(
            ConnectionId(self._last_id), host, KAFKA_4_3, peer_closed=lambda: client.end_has_arrived_at(self)
        )
        upstream = self._network.connect(
            f"{client.name}^", self, self._broker, client.principal, client.delay_ms
        )
        shell = ShellConnection(connection, client, upstream)
        self.connections[connection.id] = shell
        self._client_on[connection.id] = client.near
        self._by_link[client] = self._by_link[upstream] = shell

    def received(self, link: Link, message: Any) -> None:
        if self._later(self.received, link, message):
            return
        shell = self._by_link.get(link)
        if shell is None:
            return
        if link is shell.client:
            shell.inbox.append(message)
            self._next(shell)
        else:
            self._reply(shell, message)

    def disconnected(self, link: Link) -> None:
        if self._later(self.disconnected, link):
            return
        shell = self._by_link.get(link)
        if shell is None:
            return
        if self.gates is not None:
            self.gates.disconnected(shell.connection.id)
        if link is shell.client:
            shell.client_open = False
            shell.inbox.clear()
            self._abandon(shell)
            if shell.known and shell.upstream_open and not shell.owes_join:
                self._do("client_disconnected", shell.connection.id)
            else:
                self._end(shell)
        else:
            shell.upstream_open = False
            self._end(shell)

    def _end(self, shell: ShellConnection) -> None:
        """Close both sides, and tell the translator if it knew the connection."""
        if self.connections.pop(shell.connection.id, None) is None:
            return
        if any(map(_is_question, shell.upstream_queue)):
            self._watch.memberships.question_lost(shell.client.near)
        self._forget(shell)
        shell.client.close(self)
        shell.upstream.close(self)
        if shell.known:
            self._do("upstream_lost", shell.connection.id)

    def _abandon(self, shell: ShellConnection) -> None:
        """Record that nobody waits for the requests that the translator works on."""
        for request_id in shell.awaiting:
            self._abandoned.add(request_id)
            self._requests.pop(request_id, None)
        shell.awaiting.clear()
        for ask, _ in shell.owed:
            self._observer(shell.client.near).abandoned(shell.client.near, ask)

    def _forget(self, shell: ShellConnection) -> None:
        self._abandon(shell)
        self._by_link.pop(shell.client, None)
        self._by_link.pop(shell.upstream, None)

    def is_asking_about(self, client: Party) -> bool:
        """Whether the broker is asked whether this client may act in the group, and its call waits for the answer."""
        return any(
            shell.client.near is client and any(map(_is_question, shell.upstream_queue))
            for shell in self._requests.values()
        )

    # -- the client's requests -------------------------------------------------------------------------------------

    def _next(self, shell: ShellConnection) -> None:
        while shell.inbox and shell.client_open and shell.may_take_next:
            if shell.awaiting:
                self._watch.count(PIPELINED)
            ask = shell.inbox.popleft()
            entry = [ask, None]
            shell.owed.append(entry)
            if ask.api_key not in TRANSLATED:
                self._send_upstream(shell, ask)
                continue
            self._last_id += 1
            request = a_request(RequestId(self._last_id), shell, ask)
            shell.awaiting[request.id] = Held(entry)
            shell.known = True
            self._requests[request.id] = shell
            self._watch.log.read(self, ask)
            self._observer(shell.client.near).call_arrived(self, shell.client.near, ask)
            if self.gates is not None:
                self.gates.asked(request)
            self._do("handle_request", request)

    def _send_upstream(self, shell: ShellConnection, what: Call | Ask) -> None:
        shell.upstream_queue.append(what)
        if isinstance(what, Call):
            ask = Ask(what.call_id, what.api_key, what.version, what.client_id or "", what.message)
        else:
            ask = what
        shell.upstream.send(self, ask)

    def _reply(self, shell: ShellConnection, reply: Reply) -> None:
        asked = shell.upstream_queue.popleft()
        if isinstance(asked, Call):
            assert reply.number == asked.call_id, "the broker answered another call"
            shell.calls_outstanding.popleft()
            self._observer(shell.client.near).called_back(self, asked, reply.message)
            self._called_on[asked.call_id] = asked.connection_id
            self._do("handle_reply", CallId(asked.call_id), reply.message)
            self._inject(shell)
        elif shell.client_open:
            entry = shell.owed[0]
            assert entry[0] is asked, "a response out of order"
            entry[1] = reply.message
            self._observer(shell.client.near).relayed(self, shell.client.near, asked, reply.message)
            self._passed(shell, asked, reply.message)
            self._flush(shell)

    def _passed(self, shell: ShellConnection, ask: Ask, response: Any) -> None:
        """Show the translation the broker's own answer to a group call."""
        if ask.api_key in SHOWN_WHEN_PASSED and hasattr(self.translator, "handle_relayed_response"):
            self._last_id += 1
            request = a_request(RequestId(self._last_id), shell, ask)
            self._do("handle_relayed_response", request, response)
            if self.gates is not None and ask.message.group_id == GROUP:
                self.gates.answered(request, response)

    def _flush(self, shell: ShellConnection) -> None:
        while shell.owed and shell.owed[0][1] is not None:
            ask, response = shell.owed.popleft()
            shell.client.send(self, Reply(ask.number, response))

    def _inject(self, shell: ShellConnection) -> None:
        while shell.calls and shell.upstream_open:
            if shell.calls_outstanding and shell.calls_outstanding[-1].api_key not in COMMITS:
                return
            call = shell.calls.popleft()
            shell.calls_outstanding.append(call)
            self._send_upstream(shell, call)

    # -- the translator --------------------------------------------------------------------------------------------

    @property
    def translates(self) -> bool:
        """Whether it translates the group, by its policy and by what people have said of the move."""
        return self.policy.rules[0].mode is Mode.TRANSLATE and not self._rolled_back

    def read_policy(self) -> None:
        """Read the policy file again."""
        if self.up and not self._later(self.read_policy):
            self.policy = self._world.policy
            self.policy_read_ms = self._kernel.now_ms
            self._watch.steps.read_policy(self)
            self._do("set_policy", self.policy)

    def command(self, command: Command, told: Callable[[CommandOutcome], None]) -> None:
        """Give it a command, again and again while it is pending."""
        if self._later(self.command, command, told) or not self.up:
            return
        outcome = self.translator.rollout.command(self.now_s, command)
        self._do("take_actions")
        if outcome.state is CommandState.PENDING:
            self._kernel.after(_COMMAND_AGAIN_MS, self.command, command, told)
        else:
            told(outcome)

    def judge(self, reports: Mapping[str, Report]) -> None:
        """Report what was seen of the groups whose move has gates, and judge it."""
        self._do("rollout.handle_reports", reports)

    def holds_back(self, handler: Callable[..., None]) -> bool:
        """Whether it stands still; the handler is called when it goes on."""
        return self._later(handler)

    def _do(self, what: str, *arguments: Any) -> None:
        self._work.append((what, arguments))
        if self._working:
            return
        self._working = True
        try:
            while self._work or self._log_has_something_to_do():
                what, arguments = self._work.popleft()
                prediction = self._predicted(what, *arguments)
                relayed = self._relayed_unseen(what, *arguments)
                hostile = self._without_rights(what, arguments)
                before = None if hostile is None else self._watch.hostile.before(self)
                actions = attrgetter(what)(self.translator)(self.now_s, *arguments)
                if hostile is not None and before is not None:
                    self._watch.hostile.after(self, hostile, before, what, actions)
                if prediction is not None:
                    self._compare(prediction, actions)
                if relayed is not None and actions != [Forward(relayed.id)]:
                    raise Violation(5, f"{self} would have relayed {relayed} unseen, and did {actions}")
                for action in actions:
                    self._act(action)
        finally:
            self._working = False
        self._note_what_people_said()
        self._book()

    def _note_what_people_said(self) -> None:
        """Note whether the move is rolled back now: it is as if another policy was read."""
        may_go_back = self._world.plan.last_command or self._world.plan.has_gates
        if may_go_back and is_rolled_back(self) is not self._rolled_back:
            self._rolled_back = not self._rolled_back
            self.policy_read_ms = self._kernel.now_ms

    def _log_says(self, outputs: list[Output]) -> None:
        """Hand on what the member log says of members."""
        self._do("handle_log_outputs", outputs)

    def _log_has_something_to_do(self) -> bool:
        """Have the member log write what the translation asked for; return whether it said something at once."""
        if self.member_log is not None:
            self.member_log.carry_out()
        return bool(self._work)

    def _observer(self, client: Party) -> Any:
        """Return the observer of this client's calls."""
        return self._watch.observers.get(client, self._watch)

    def _without_rights(self, what: str, arguments: tuple[Any, ...]) -> Hostile | None:
        """Return the client of this connection if it has no READ on the group."""
        if what in {"handle_request", "handle_relayed_response"}:
            connection_id = arguments[0].connection.id
        elif what == "handle_reply":
            connection_id = self._called_on.pop(arguments[0])
        elif what in {"client_disconnected", "upstream_lost"}:
            connection_id = arguments[0]
        else:
            return None
        client = self._client_on[connection_id]
        return client if isinstance(client, Hostile) and not client.principal.reads_group else None

    def _predicted(self, what: str, *arguments: Any) -> PredictedHeartbeat | Answer | None:
        """Return what the shell would send before the translation acts: a request to the broker, or an answer."""
        if what == "handle_request" and arguments[0].api_key == ApiKey.HEARTBEAT:
            return self.translator.predict(self.now_s, *arguments)
        if what == "handle_reply" and (prediction := self._predictions.pop(arguments[0], None)) is not None:
            return prediction.answer_to(arguments[1])
        return None

    def _compare(self, prediction: PredictedHeartbeat | Answer, actions: list[Any]) -> None:
        """Check that the translation did what the shell would have sent before."""
        if isinstance(prediction, Answer):
            if not actions or actions[0] != prediction:
                raise Violation(5, f"{self} predicted {prediction} and then did {actions}")
            return
        asked = prediction.upstream_request
        if len(actions) != 1 or not isinstance(actions[0], Call) or actions[0].message is not asked:
            raise Violation(5, f"{self} predicted {asked} and then did {actions}")
        self._predictions[actions[0].call_id] = prediction

    def _relayed_unseen(self, what: str, *arguments: Any) -> Request | None:
        """Return the Heartbeat that the shell relays without the translation, if this is one."""
        if what != "handle_request" or arguments[0].api_key != ApiKey.HEARTBEAT:
            return None
        request: Request = arguments[0]
        message = request.message
        passes = self.translator.passes_through(self.now_s, message.group_id, message.member_id)
        return request if passes else None

    def _act(self, action: Any) -> None:
        self._watch.steps.acted(self, action)
        match action:
            case Answer():
                self._answer(action)
            case Forward():
                shell = self._requests.pop(action.request_id, None)
                if shell is not None:
                    shell.awaiting[action.request_id].forwarded = True
                    self._relay_forwarded(shell)
                    self._next(shell)
            case Call():
                shell = self.connections.get(action.connection_id)
                self._observer(self._client_on[action.connection_id]).called(self, action, lost=shell is None)
                if shell is None:
                    self._do("upstream_lost", action.connection_id)
                else:
                    shell.calls.append(action)
                    self._inject(shell)
                    self._called(shell, action)
            case Close():
                shell = self.connections.get(action.connection_id)
                if shell is not None:
                    self._end(shell)
            case Release():
                shell = self.connections.pop(action.connection_id, None)
                if shell is not None:
                    self._forget(shell)
                    shell.upstream.close(self)
            case Emit() | Relayed():
                self._told(action)

    def _called(self, shell: ShellConnection, call: Call) -> None:
        """The next commit may follow if this one is the newest that the translation works on."""
        if call.api_key in COMMITS and shell.awaiting:
            newest = next(reversed(shell.awaiting.values()))
            if call.message.topics is newest.entry[0].message.topics:
                newest.sent = True
                self._next(shell)

    def _relay_forwarded(self, shell: ShellConnection) -> None:
        """Relay what is to be forwarded and has nothing before it that the translation works on."""
        while shell.awaiting:
            request_id, held = next(iter(shell.awaiting.items()))
            if not held.forwarded:
                return
            del shell.awaiting[request_id]
            ask = held.entry[0]
            self._observer(shell.client.near).forwarded(self, shell.client.near, ask)
            self._show_gates(shell, ask)
            self._send_upstream(shell, ask)

    def _show_gates(self, shell: ShellConnection, ask: Ask) -> None:
        if self.gates is not None and ask.api_key in SHOWN_WHEN_PASSED and ask.message.group_id == GROUP:
            self.gates.forwarded(a_request(RequestId(0), shell, ask))

    def _told(self, action: Emit | Relayed) -> None:
        if isinstance(action, Emit):
            self._emitted(action.event)
        elif self.gates is not None and action.request.message.group_id == GROUP:
            self.gates.answered(action.request, action.response)

    def _emitted(self, event: Event) -> None:
        if event.group_id == OPEN_GROUP:
            return  # nobody but the hostile ones is there
        self._watch.emitted(self, event)
        if self.gates is not None:
            self.gates.report((event,))

    def _answer(self, answer: Answer) -> None:
        shell = self._requests.pop(answer.request_id, None)
        if shell is None:
            assert answer.request_id in self._abandoned, f"a request was answered twice: {answer}"
            return
        entry = shell.awaiting.pop(answer.request_id).entry
        entry[1] = answer.message
        arrives = not shell.client.to_near.broken
        self._observer(shell.client.near).answered(
            self, shell.client.near, entry[0], answer.message, arrives=arrives
        )
        self._flush(shell)
        self._relay_forwarded(shell)
        self._next(shell)

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Return the time of its own clock, in seconds."""
        return (self._kernel.now_ms + self._ahead_ms) / 1000

    def jump(self, by_ms: int) -> None:
        """Advance its clock, as after a suspend of the machine that lost no connections."""
        self._ahead_ms += by_ms
        self._watch.log.age(self, by_ms)
        self._wake_ms = math.inf
        if self.up and not self._paused:
            self._look_at_time()
        if self.up and self.member_log is not None:
            self.member_log.look_at_time()

    def _book(self) -> None:
        deadline = self.translator.next_deadline()
        if deadline == math.inf:
            self._wake_ms = math.inf
            return
        # Rounded up, so that the deadline has come when we look; a hair's breadth later is later.
        wake_ms = math.ceil(round(deadline * 1000, 6))
        if wake_ms / 1000 < deadline:
            wake_ms += 1
        wake_ms = max(wake_ms - self._ahead_ms, self._kernel.now_ms)
        if wake_ms < self._wake_ms:
            self._wake_ms = wake_ms
            self._kernel.at(wake_ms, self._wake, self.incarnation)

    def _wake(self, incarnation: int) -> None:
        if self.up and incarnation == self.incarnation and self._wake_ms <= self._kernel.now_ms:
            self._wake_ms = math.inf
            if not self._paused:
                self._look_at_time()

    def _look_at_time(self) -> None:
        late_s = self.now_s - self.translator.next_deadline()
        here = (self.name, self._kernel.now_ms)
        is_late = late_s > LATE_S or here in self._world.late_before
        if late_s < 0 and not is_late:
            self._book()
        elif self._kernel.now_ms < self._grace_until_ms:
            pass  # looked at when it is over
        elif is_late and self._grace_until_ms < self._kernel.now_ms:
            if is_late_for_strangers_alone(self.translator, self.now_s - LATE_S):
                self._world.late_for_strangers.add(here)
            self._grace_until_ms = self._kernel.now_ms + GRACE_MS
            self._kernel.at(self._grace_until_ms, self._grace_over, self.incarnation)
        else:
            self._do("handle_time")

    def _grace_over(self, incarnation: int) -> None:
        if self.up and incarnation == self.incarnation and not self._later(self._grace_over, incarnation):
            self._look_at_time()


def _is_question(sent: Call | Ask) -> bool:
    """Whether this request asks the broker who may act in a group (:mod:`translation.admission.authorization`)."""
    return isinstance(sent, Call) and sent.api_key == ApiKey.HEARTBEAT and sent.message.member_id == NOBODY
