"""The process: everything put together, started in the order in which it can fail, and drained at the end."""

import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count

import msgspec
import structlog
import trio

from proxy.admin import Health, admin_app, serve_admin
from proxy.api_versions import OfferBook
from proxy.config import Address, Config
from proxy.connection import Cause, ClientConnection, Services
from proxy.conversation import Terms
from proxy.events import EventTeller
from proxy.listeners import BoundListener, accept, bind, bind_listener, port_of
from proxy.meter import Meter
from proxy.metrics import Metrics
from proxy.nodes import ClientView, NodeTable
from proxy.startup import reach_brokers
from proxy.streams import TcpStream, open_tcp
from proxy.translation_hub import Translation, TranslationHub
from proxy.upstream import Dialer, Open
from translation.actions import ConnectionId

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.server")


class Ports(msgspec.Struct, frozen=True):
    """Where the process really listens; differs from the configuration where that says 0."""

    listeners: tuple[BoundListener, ...]
    admin: int


class Server:
    """One proxy process. Constructing it binds all ports.

    :raises BindError: one of them can't be had.
    """

    def __init__(self, config: Config, translator: Translation, open_: Open = open_tcp) -> None:
        self._config = config
        self.metrics = Metrics()
        self.health = Health(self.metrics)
        with ExitStack() as bound_so_far:
            self._admin_socket = bind(config.admin.bind, config.admin.port)
            bound_so_far.callback(self._admin_socket.close)
            listeners = []
            for listener in config.listeners:
                listeners.append(bind_listener(listener))
                bound_so_far.callback(listeners[-1].close)
            self._close_ports = bound_so_far.pop_all().close
        self.ports = Ports(tuple(listeners), port_of(self._admin_socket))
        self.nodes = NodeTable()
        self.nodes.on_change = self._node_changed
        self._meter = Meter(self.metrics)
        self.hub = TranslationHub(translator, self._meter, EventTeller(self.metrics).tell)
        self._dialer = Dialer(
            config.upstream.addresses, self.nodes, config.upstream.connect_timeout_s, self.metrics, open_
        )
        self._offers = OfferBook(allow_unknown_apis=config.versions.allow_unknown_apis)
        self._connections: set[ClientConnection] = set()
        self._none_left = trio.Event()
        self._ids = count(1)
        self._stopping = trio.Event()
        self._starting = trio.CancelScope()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until :meth:`stop` is called, then drain. ``task_status`` is told when clients are welcome.

        :raises UnreachableError: no broker answered in time.
        :raises BindError: a port was taken meanwhile.
        """
        admin_may_close = trio.Event()
        app = admin_app(self.metrics, self.health)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve_admin, self._admin_socket, app, admin_may_close.wait)
                self.health.not_ready("no broker reached yet")
                with self._starting:
                    timeout_s = self._config.upstream.startup_timeout_s
                    reached = await reach_brokers(self._dialer, self.nodes, timeout_s)
                    _log.info("cluster reached", broker=str(reached), nodes=len(self.nodes))
                if not self._stopping.is_set():
                    await self._serve_clients(task_status)
                admin_may_close.set()
        finally:
            self._close_ports()

    async def _serve_clients(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.hub.run_timers)
            for bound in self.ports.listeners:
                self._listen(bound, nursery)
            self.health.ready()
            task_status.started()
            await self._stopping.wait()
            await self._drain()
            nursery.cancel_scope.cancel()

    def stop(self) -> None:
        """Drain and end; before clients are welcome, end at once."""
        self._stopping.set()
        self._starting.cancel()

    async def stop_at_signals(self) -> None:
        """Drain at SIGTERM or SIGINT; end at once at the second."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if self._stopping.is_set():
                    _log.warning("ending at once", signal=signal.Signals(number).name)
                    raise SystemExit(1)
                _log.info("draining", signal=signal.Signals(number).name)
                self.stop()

    def _listen(self, bound: BoundListener, nursery: trio.Nursery) -> None:
        listener = bound.listener
        view = ClientView(
            self.nodes, listener.advertised_host, bound.node_ports, self.metrics.hidden_nodes.inc
        )
        terms = Terms(view.advertise, self._offers, self._config.limits, self._meter, time.perf_counter)
        services = Services(terms, self._dialer, self.hub)
        bound.listen()
        for node_id, sock in bound.sockets.items():
            nursery.start_soon(accept, sock, self._acceptor(node_id, services, nursery))
        _log.info("listening", address=str(Address(listener.bind, bound.port)), nodes=listener.nodes)

    def _acceptor(
        self, node_id: int | None, services: Services, nursery: trio.Nursery
    ) -> Callable[[socket.socket, str], None]:
        def accepted(sock: socket.socket, host: str) -> None:
            connection_id = ConnectionId(next(self._ids))
            connection = ClientConnection(connection_id, TcpStream(sock), host, node_id, services)
            nursery.start_soon(self._serve, connection)

        return accepted

    async def _serve(self, connection: ClientConnection) -> None:
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            if not self._connections:
                self._none_left.set()

    def _node_changed(self, node_id: int, address: Address) -> None:
        """Let go of connections where a bootstrap broker stands in for a node that is known now."""
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
                connection.end_when_idle(Cause.MISROUTED)

    async def _drain(self) -> None:
        self.health.not_ready("draining")
        for bound in self.ports.listeners:
            bound.close()
        self._none_left = trio.Event()
        for connection in list(self._connections):
            connection.end_when_idle(Cause.DRAIN)
        if self._connections:
            with trio.move_on_after(self._config.drain.grace_s) as grace:
                await self._none_left.wait()
            if grace.cancelled_caught:
                _log.warning(
                    "closing connections with requests in flight", connections=len(self._connections)
                )
        _log.info("drained")
