"""One proxy process: builds its parts, starts them in the order in which they can fail, and drains at the end."""

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog
import trio

from proxy.admin.admin_http import Health, SingleProcessBackend, admin_app, serve_admin
from proxy.admin.preflight_view import PreflightBoard
from proxy.admin.process_queries import QueryHandler
from proxy.config.fleet import kafka_properties
from proxy.config.schema import Address, Config, Listener
from proxy.config.tls import UpstreamTls
from proxy.connection.client_connection import ClientConnection
from proxy.connection.connection_deps import ConnectionDeps
from proxy.connection.connection_manager import ConnectionManager
from proxy.connection.disconnect_cause import DisconnectCause
from proxy.connection.share_session_cuts import ShareSessionCuts
from proxy.connection.translator_driver import TranslatorDriver
from proxy.groups.observability import Observability
from proxy.journal.journal import Sink
from proxy.metrics.bounds import Bound
from proxy.metrics.dump import MetricDump, dump_metrics
from proxy.metrics.periodic import keep_running
from proxy.metrics.registry import Metrics
from proxy.runtime.exit_codes import ExitCode
from proxy.runtime.fd_limits import pipe_limit
from proxy.runtime.log_setup import count_suppressed_lines
from proxy.server.advertised_cluster import AdvertisedCluster
from proxy.server.broker_health import BrokerHealth
from proxy.server.drain import drain
from proxy.server.gate_keeper import GateKeeper
from proxy.session.held_calls_budget import HeldCallsBudget
from proxy.session.listener import Listener as SessionListener
from proxy.session.request_metrics import RequestMetrics
from proxy.transport.bootstrap import reach_brokers
from proxy.transport.dialer import Dialer, Open
from proxy.transport.epoll import EpollLoop
from proxy.transport.listeners import BoundListener, bind, bind_listener, port_of
from proxy.transport.node_table import NodeTable
from proxy.transport.splice import PipePool
from proxy.transport.tcp_stream import TcpStream, keep_alive, open_tcp
from proxy.wire.api_versions import ApiVersionsNegotiator
from translation.actions import ConnectionId, Event
from translation.engine.group_router import with_routed_groups
from translation.member_log.group_records import Phase
from translation.member_log.signals import GateState
from translation.moving.command_writes import CommandOutcome
from translation.moving.move_view import SETTLED, TO_APPROVE
from translation.passthrough.observer import Observer
from translation.passthrough.topic_names import TopicNames
from translation.policy.policy import Policy
from translation.policy.rule_cache import RuleCache
from translation.rollout.commands import Command
from translation.translator import Translator

if TYPE_CHECKING:
    from proxy.control.listener import ControlListener
    from proxy.groups.lag.reader import LagReader
    from proxy.groups.lag.shown_lags import ShownLags
    from proxy.member_log.driver import FleetDriver
    from proxy.proof.live_proof import LiveProof
    from proxy.transport.tls_context import Certificates, Contents

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.server.server")


_SHOWN_PHASES = (TO_APPROVE, SETTLED, *(phase for phase in Phase if phase is not Phase.OVER))
_WALL_CLOCK_S = 60.0
"""Seconds between two looks at what the clock on the wall shows."""


class Ports(msgspec.Struct, frozen=True):
    """The ports that the process really listens on. They differ from the configuration where that says 0."""

    listeners: tuple[BoundListener, ...]
    admin: int


class Readiness(msgspec.Struct, frozen=True):
    """Whether a process should be given clients; ``reason`` says why not."""

    reason: str | None


class Server:
    """One proxy process. Constructing it reads all certificates and binds all ports.

    A worker passes its ``listeners``; it has no admin port. ``query_handlers`` answer the queries of other processes
    (:mod:`proxy.admin.process_queries`).

    ``policy`` is the one that the translator has, for observability; ``replica`` names this process there, by default
    with its host name; ``folder`` is that of the configuration file.

    ``certificates`` have to be reloaded when their files change. ``last_good_tls`` replaces files that can't be used at
    the start: their contents before, by the number of the listener or :data:`proxy.transport.tls_context.UPSTREAM`.

    ``fleet`` is the member log that the translator asks; it is run here, from before clients can connect until all are
    gone.

    :raises BindError: a port can't be bound.
    :raises TlsFilesError: a certificate can't be used.
    """

    def __init__(
        self,
        config: Config,
        translator: Translator,
        open_: Open = open_tcp,
        *,
        listeners: Sequence[BoundListener] = (),
        policy: Policy | None = None,
        replica: str | None = None,
        folder: Path | None = None,
        last_good_tls: "Mapping[int, Contents] | None" = None,
        fleet: "FleetDriver | None" = None,
    ) -> None:
        self._config = config
        self._last_good = last_good_tls or {}
        self.metrics = Metrics()
        count_suppressed_lines(lambda: self.metrics.hit(Bound.LOG_LINES))
        self.certificates: list[Certificates] = []
        if config.upstream.tls is not None:
            open_ = self._upstream_opener(config.upstream.tls)
        self._tls = [self._certificates_of(n, listener) for n, listener in enumerate(config.listeners)]
        self.health = Health(self.metrics)
        self.preflight = PreflightBoard()
        self._admin_socket: socket.socket | None = None
        self.ports = Ports(tuple(listeners), 0)
        self.control: ControlListener | None = None
        with ExitStack() as bound_so_far:
            if not listeners:
                self._bind(bound_so_far)
            self._close_ports = bound_so_far.pop_all().close
        self.query_handlers: dict[str, QueryHandler] = {
            "metrics": self._metrics_of_all_but_groups,
            "readiness": self._readiness,
            "groups": lambda: self.observability.snapshot(events=False),
            "groups with events": lambda: self.observability.snapshot(events=True),
        }
        self._proof: LiveProof | None = None
        self.nodes = NodeTable()
        self.nodes.on_change = self._node_changed
        self._request_metrics = RequestMetrics(self.metrics)
        self.observability = Observability(
            config,
            self.metrics,
            policy or Policy(),
            lambda: self.health.reason,
            replica,
            folder=folder,
            open_=open_,
            more_sinks=partial(self._start_proof, fleet),
        )
        self._topics = TopicNames()
        self._rules = RuleCache(policy or Policy())
        self._held_calls = HeldCallsBudget(config.limits.group_calls_held_max_bytes)
        self.metrics.large_group_calls_held.set_function(lambda: self._held_calls.taken)
        self._fleet = fleet
        self.driver = TranslatorDriver(
            translator,
            self._request_metrics,
            self._record,
            Observer(self._topics),
            None if fleet is None else fleet.carry_out,
        )
        translator.on_router_failure(self.metrics.internal_errors.labels("hosted group").inc)
        self._gates = GateKeeper(
            translator.rollout.gated_groups,
            translator.rollout.groups_in_moves,
            self.driver.report,
            self.metrics,
        )
        self.driver.on_disconnected = self._gates.disconnected
        self._lags: ShownLags | None = None
        self._lag = self._lag_reader()
        for state in GateState:
            self.metrics.group_gates.labels(state).set_function(partial(_count_gates, translator, state))
        self.observability.registry.move_of = translator.rollout.move_of
        self.observability.registry.unowned_of = translator.unowned.of_group
        self._connect_proof()
        self.metrics.wave_groups.read = translator.rollout.waves
        for phase in _SHOWN_PHASES:
            self.metrics.group_moves.labels(phase).set_function(partial(_count_moves, translator, phase))
        self._hook = None
        if config.hook is not None:
            from proxy.control.hook_caller import HookCaller  # noqa: PLC0415 - most proxies have no hook

            self._hook = HookCaller(config.hook, self.metrics, self.driver.hook_answered)
            self.driver.call_hook = self._hook.call
        self._set_wall_clock = translator.rollout.set_wall_clock
        if fleet is not None:
            fleet.attach(self.driver.log_said, self.health.fail, self.metrics)
            fleet.on_migration_policy = translator.rollout.set_migration_policy
            from proxy.groups.fleet_reading import FleetReader  # noqa: PLC0415 - as the driver

            reader = FleetReader(fleet, self.observability.registry, config.visibility)
            self.query_handlers["fleet"] = partial(reader.read, members=False)
            self.query_handlers["fleet with members"] = partial(reader.read, members=True)
        self._dialer = Dialer(
            config.upstream.addresses, self.nodes, config.upstream.connect_timeout_s, self.metrics, open_
        )
        self._broker_health = BrokerHealth(
            self._dialer, self.metrics, on_unreachable=self._unreachable, on_reachable=self._reachable
        )
        self._negotiator = ApiVersionsNegotiator(allow_unknown_apis=config.versions.allow_unknown_apis)
        self._pipes = PipePool(pipe_limit())
        self._share_session_cuts = ShareSessionCuts(self.metrics)
        ports = sum(len(listener.ports) for listener in self.ports.listeners)
        self._connections = ConnectionManager(config.limits, self.metrics, ports)
        self._ids = count(1)
        self._stopping = trio.Event()
        self._starting = trio.CancelScope()

    def _lag_reader(self) -> "LagReader | None":
        if self._config.fleet is None:
            return None  # there is no account to ask with
        from proxy.groups.lag.gate_lag import read_lags  # noqa: PLC0415
        from proxy.groups.lag.reader import LagReader  # noqa: PLC0415
        from proxy.groups.lag.shown_lags import ShownLags  # noqa: PLC0415

        reader = LagReader(kafka_properties(self._config.fleet, os.environ))
        reader.asking.crashed = self.metrics.kafka_process_crashes.labels("lag").inc
        self._gates.lag_source = partial(read_lags, reader)
        registry = self.observability.registry
        self._lags = ShownLags(reader, lambda: [one.id for one in registry.groups.values() if one.members])
        self.observability.on_look, registry.lag_of = self._lags.look, self._lags.of
        return reader

    def _start_proof(self, fleet: "FleetDriver | None", observability: Observability) -> Sequence[Sink]:
        """Make the live verification, if there is to be one; return where the journal of this process feeds it."""
        config = self._config
        if not config.verify.live:
            return ()
        from proxy.proof.journal_topic import topic_of  # noqa: PLC0415 - the rules of the audit come with it,
        from proxy.proof.live_proof import LiveProof  # noqa: PLC0415 - which only this needs
        from proxy.proof.sources import Election  # noqa: PLC0415

        open_journal = election = None
        if fleet is not None and config.fleet is not None and config.journal.topic is not None:
            open_journal = topic_of(
                config.journal.topic,
                kafka_properties(config.fleet, os.environ),
                self.metrics.kafka_process_crashes.labels("proof").inc,
            )
            election = Election.among(fleet.replicas, lambda: fleet.replica)
        self._proof = LiveProof(
            config.verify,
            self.metrics,
            observability.clock,
            observability.replica,
            is_alone=config.sole_process and config.workers == 1 and config.fleet is None,
            open_=open_journal,
            election=election,
        )
        return self._proof.sinks

    def _connect_proof(self) -> None:
        if self._proof is not None:
            self.observability.registry.proof_of = self._proof.view
            self._proof.on_look = self.driver.note_proofs

    def _bind(self, bound_so_far: ExitStack) -> None:
        self._admin_socket = bind(self._config.admin.bind, self._config.admin.port)
        bound_so_far.callback(self._admin_socket.close)
        listeners = []
        for listener in self._config.listeners:
            listeners.append(bind_listener(listener, self.metrics.accept_failures))
            bound_so_far.callback(listeners[-1].close)
        self.ports = Ports(tuple(listeners), port_of(self._admin_socket))
        if self._config.control is not None:
            from proxy.control.listener import ControlListener  # noqa: PLC0415 - most proxies take no commands

            self.control = ControlListener(self._config.control, self.metrics)
            bound_so_far.callback(self.control.close)
            if self.control.certificates is not None:
                self.certificates.append(self.control.certificates)

    def _upstream_opener(self, tls: UpstreamTls) -> Open:
        from proxy.transport.tls_context import UPSTREAM, Certificates, TlsOpener  # noqa: PLC0415 - many have none

        self.certificates.append(Certificates("upstream", tls, self.metrics, self._last_good.get(UPSTREAM)))
        return TlsOpener(tls, self.certificates[-1]).open

    def _certificates_of(self, number: int, listener: Listener) -> "Certificates | None":
        if listener.tls is None:
            return None
        from proxy.transport.tls_context import Certificates  # noqa: PLC0415 - many have none

        where = f"listener {Address(listener.bind, listener.port)}"
        last_good = self._last_good.get(number)
        self.certificates.append(Certificates(where, listener.tls, self.metrics, last_good))
        return self.certificates[-1]

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until :meth:`stop` is called, then drain. ``task_status`` starts once clients can connect.

        :raises UnreachableError: no broker answered in time.
        :raises BindError: another process has taken a port meanwhile.
        :raises MemberLogRefused: the member log can't be used.
        """
        admin_may_close = trio.Event()
        statistics = trio.lowlevel.current_statistics
        self.metrics.tasks.set_function(
            lambda: statistics().tasks_living if trio.lowlevel.in_trio_run() else 0
        )
        try:
            async with trio.open_nursery() as nursery:
                if self._admin_socket is not None:
                    panel = SingleProcessBackend(self.metrics, self.health, self.query_handlers)
                    app = admin_app(panel, self._config.visibility, self.preflight)
                    hosts = self._config.admin.hosts
                    nursery.start_soon(serve_admin, self._admin_socket, app, admin_may_close.wait, hosts)
                self.health.not_ready("no broker reached yet")
                with self._starting:
                    timeout_s = self._config.upstream.startup_timeout_s
                    reached = await reach_brokers(self._dialer, self.nodes, timeout_s)
                    _log.info("cluster reached", broker=str(reached), nodes=len(self.nodes))
                    if self._fleet is not None:
                        await self._read_member_log(self._fleet, nursery)
                if not self._stopping.is_set():
                    await self._serve_clients(task_status)
                if self._fleet is not None:
                    self._fleet.stop()
                admin_may_close.set()
        finally:
            self._close_ports()
            self._pipes.close()

    async def _read_member_log(self, fleet: "FleetDriver", nursery: trio.Nursery) -> None:
        self.health.not_ready("the member log is not read yet")
        await nursery.start(fleet.run)
        if not await fleet.wait_ready():
            _log.warning(
                "starting without the member log: only members that are new are served until it is read"
            )

    async def _serve_clients(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(EpollLoop().serve)
            nursery.start_soon(self.driver.run_timers)
            if self._lag is not None:
                nursery.start_soon(keep_running, self._lag.run, self.metrics)
            if self._lags is not None:
                nursery.start_soon(keep_running, self._lags.run, self.metrics)
            nursery.start_soon(self._gates.run)
            self.observability.start(nursery, self.driver)
            if self._proof is not None:
                nursery.start_soon(keep_running, self._proof.run, self.metrics)
            nursery.start_soon(self.driver.reporter.expire_observed_members)
            nursery.start_soon(self._connections.enforce_limits)
            self._broker_health.start(nursery)
            self._look_at_wall_clock()  # before any client is served
            nursery.start_soon(keep_running, self._follow_wall_clock, self.metrics)
            if self._hook is not None:
                nursery.start_soon(keep_running, self._hook.run, self.metrics)
            if self.control is not None:
                nursery.start_soon(self.control.serve, self.command)
            for bound, certificates in zip(self.ports.listeners, self._tls, strict=True):
                self._listen(bound, certificates, nursery)
            self.health.ready()
            task_status.started()
            await self._stopping.wait()
            await drain(self.health, self.ports.listeners, self._connections, self._config.drain.grace_s)
            nursery.cancel_scope.cancel()

    async def _metrics_of_all_but_groups(self) -> list[MetricDump]:
        return dump_metrics(self.metrics.without_groups)

    async def _readiness(self) -> "Readiness":
        return Readiness(self.health.reason)

    async def command(self, command: Command) -> CommandOutcome:
        """Have the translation carry out a command, and wait until it counts."""
        from proxy.control.command_runner import run_command  # noqa: PLC0415 - as the listener

        return await run_command(self.driver.command, command)

    def _look_at_wall_clock(self) -> None:
        self._set_wall_clock(int((time.time() - trio.current_time()) * 1000))

    async def _follow_wall_clock(self) -> None:
        while True:
            await trio.sleep(_WALL_CLOCK_S)
            self._look_at_wall_clock()

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._rules.policy

    def set_policy(self, policy: Policy) -> None:
        """Apply another policy."""
        self._rules.set_policy(policy)
        self.observability.set_policy(policy)
        self.driver.set_policy(policy)

    def stop(self) -> None:
        """Drain and end; before clients can connect, end at once."""
        self._stopping.set()
        self._starting.cancel()

    async def stop_at_signals(self) -> None:
        """Drain at SIGTERM or SIGINT; end at once at the second."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self._stopping.is_set():
                    _log.warning("exiting without draining", signal=signal.Signals(number).name)
                    raise SystemExit(ExitCode.FAILED)
                _log.info("draining", signal=signal.Signals(number).name)
                self.stop()

    def _listen(
        self, bound: BoundListener, certificates: "Certificates | None", nursery: trio.Nursery
    ) -> None:
        listener = bound.listener
        cluster = AdvertisedCluster(
            self.nodes,
            listener.advertised_host,
            {node_id: listener.advertised_port or port for node_id, port in bound.node_ports.items()},
            self.metrics.hidden_nodes.inc,
        )
        context = SessionListener(
            cluster.map_address,
            self._negotiator,
            self._config.limits,
            self._request_metrics,
            time.perf_counter,
            self._topics,
            with_routed_groups(self._rules.rule_for, self.driver.has_routed_group)
            if self._config.experimental
            else self._rules.rule_for,
            self.driver.passes_through,
            self._held_calls,
            cluster.known_nodes,
            cluster.learn_racks,
        )
        deps = ConnectionDeps(
            context,
            self._dialer,
            self._broker_health,
            self.driver,
            self._pipes,
            self._share_session_cuts,
        )
        for node_id, port in bound.ports.items():
            port.listen()
            nursery.start_soon(port.accept, self._acceptor(node_id, deps, certificates, nursery))
        _log.info(
            "listening",
            address=str(Address(listener.bind, bound.port)),
            nodes=listener.nodes,
            tls=certificates is not None,
        )

    def _acceptor(
        self,
        node_id: int | None,
        deps: ConnectionDeps,
        certificates: "Certificates | None",
        nursery: trio.Nursery,
    ) -> Callable[[socket.socket, str], None]:
        def accepted(sock: socket.socket, host: str) -> None:
            if self._connections.refuses(host):
                sock.close()
                return
            keep_alive(sock)
            connection_id = ConnectionId(next(self._ids))
            plain = TcpStream(sock)
            stream = certificates.guard(plain) if certificates is not None else plain
            connection = ClientConnection(connection_id, stream, host, node_id, deps)
            nursery.start_soon(self._connections.serve, connection, host)

        return accepted

    def _node_changed(self, node_id: int, address: Address) -> None:
        """Close, once idle, connections on which a bootstrap broker stands in for a node whose address is known now."""
        self.metrics.known_nodes.set(len(self.nodes))
        _log.info("node learned", node=node_id, address=str(address))
        for connection in self._connections:
            dialed = connection.dialed
            if (
                connection.node_id == node_id
                and dialed is not None
                and dialed.assumed
                and dialed.address != address
            ):
                connection.close_when_idle(DisconnectCause.MISROUTED)

    def _record(self, event: Event) -> None:
        self.observability.record(event)
        self._gates.record(event)

    def _unreachable(self, node_id: int | None) -> None:
        """Refuse clients of an unreachable node, as the node itself would; clients handle that best."""
        self._gates.unreachable(node_id)
        for bound in self.ports.listeners:
            if node_id in bound.ports:
                bound.ports[node_id].suspend()
        if node_id is None:
            self.health.not_ready("no bootstrap broker can be reached")

    def _reachable(self, node_id: int | None) -> None:
        """Accept the node's clients again."""
        self._gates.reachable(node_id)
        if self._stopping.is_set():
            return
        for bound in self.ports.listeners:
            if node_id in bound.ports:
                bound.ports[node_id].listen()
        if node_id is None:
            self.health.ready()


def _count_gates(translator: Translator, state: GateState) -> int:
    return translator.rollout.gates_by_state()[state]


def _count_moves(translator: Translator, phase: str) -> int:
    return translator.rollout.moves_by_phase()[phase]
