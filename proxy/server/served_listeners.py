"""The listeners that serve clients: their ports, certificates, what the connections of each are served with, and
ports that close while a broker is unreachable.

:mod:`proxy.server.reconfigure` replaces them: a port that stays keeps its socket and the task that accepts at it, so no
client is refused meanwhile.
"""

import socket
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import msgspec
import structlog
import trio

from proxy.config.schema import Address, Limits
from proxy.connection.client_connection import ClientConnection
from proxy.connection.connection_deps import ConnectionDeps
from proxy.metrics.registry import Metrics
from proxy.server.advertised_cluster import AdvertisedCluster
from proxy.server.compose import Parts
from proxy.transport.listeners import AcceptPort, Binder, BoundListener
from proxy.transport.tcp_stream import TcpStream, keep_alive
from translation.actions import ConnectionId

if TYPE_CHECKING:
    from proxy.transport.tls_context import Certificates
    from proxy.transport.tls_stream import Route

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.server.served_listeners")


class Served:
    """One listener. ``number`` stays for its life, wherever the configuration has it.

    ``addresses`` are those in its clients' metadata, by node id. They change in place, for open connections too; the
    other attributes are for connections that are accepted from now on.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.addresses: dict[int, Address] = {}
        self.cluster: AdvertisedCluster
        self.bound: BoundListener
        self.certificates: Certificates | None
        self.deps: ConnectionDeps
        self.route: Route | None


class Next(msgspec.Struct, frozen=True):
    """What a listener is to become. ``number`` is that of the one that it continues, or a new one."""

    number: int
    bound: BoundListener
    certificates: "Certificates | None"


class ServedListeners:
    """All listeners of one process. They accept clients from :meth:`start` to :meth:`close`."""

    def __init__(
        self,
        parts: Parts,
        binder: Binder,
        metrics: Metrics,
        limits: Limits,
        listeners: Sequence[tuple[BoundListener, "Certificates | None"]],
    ) -> None:
        self.binder = binder
        self._parts = parts
        self._metrics = metrics
        self._numbers, self._ids = count(), count(1)
        self._nursery: trio.Nursery | None = None
        self._closed = False
        self.all: tuple[Served, ...] = ()
        """In the order of the configuration."""
        self.replace([Next(self.new_number(), bound, one) for bound, one in listeners], limits)

    @property
    def bound(self) -> tuple[BoundListener, ...]:
        """The listeners with their ports, in the order of the configuration."""
        return tuple(one.bound for one in self.all)

    def new_number(self) -> int:
        """Return a number that no listener has had."""
        return next(self._numbers)

    def start(self, nursery: trio.Nursery) -> None:
        """Accept clients.

        :raises BindError: another process has taken a port meanwhile.
        """
        self._nursery = nursery
        for one in self.all:
            for port in one.bound.ports.values():
                port.listen()
            self._accept_new(one, (), nursery)
            _log_listening(one)

    def close(self) -> None:
        """Accept no clients any more."""
        self._closed = True
        for one in self.all:
            one.bound.close()

    # -- nodes that can't be reached -----------------------------------------------------------------------

    def unreachable(self, node_id: int | None) -> None:
        """Refuse clients of an unreachable node, as the node itself would; clients handle that best."""
        self._parts.gates.unreachable(node_id)
        for one in self.all:
            if (port := one.bound.own_port_of(node_id)) is not None:
                port.suspend()
        if node_id is None:
            self._parts.health.not_ready("no bootstrap broker can be reached")

    def reachable(self, node_id: int | None) -> None:
        """Accept the node's clients again.

        :raises BindError: another process has taken the port meanwhile.
        """
        self._parts.gates.reachable(node_id)
        if self._closed:
            return
        for one in self.all:
            if (port := one.bound.ports.get(node_id)) is not None:
                port.listen()
        if node_id is None:
            self._parts.health.ready()

    # -- another configuration -----------------------------------------------------------------------------

    def learn_anew(self) -> None:
        """Learn brokers' addresses from connections accepted from now on only: others lead to other addresses."""
        for one in self.all:
            one.cluster.learns = False
            one.cluster = self._cluster(one.addresses)

    def replace(self, listeners: Sequence[Next], limits: Limits) -> None:
        """Serve these and no others. New ports listen already, if clients are served; nothing here can fail."""
        served = {one.number: one for one in self.all}
        ports_before = _nodes_at(self.all).keys()
        self.all = tuple(self._become(served.get(one.number), one, limits) for one in listeners)
        nodes_at = _nodes_at(self.all)
        for port in ports_before - nodes_at.keys():
            port.close()
        for one in self.all:
            self.binder.applied(one.bound)
            if self._nursery is not None:
                self._accept_new(one, ports_before, self._nursery)
                if one.number not in served:
                    _log_listening(one)
        self._parts.connections.leave(
            lambda port, node_id: port is None or node_id not in nodes_at.get(port, ())
        )

    def _become(self, served: Served | None, now: Next, limits: Limits) -> Served:
        one, listener = served or Served(now.number), now.bound.listener
        one.bound, one.certificates = now.bound, now.certificates
        one.addresses.clear()
        one.addresses.update(now.bound.advertised)
        if served is None:
            one.cluster = self._cluster(one.addresses)
        one.deps = self._parts.connection_deps(one.number, listener, one.cluster, limits)
        one.route = None
        if names := listener.server_names:
            from proxy.transport.server_names import ServerNames  # noqa: PLC0415 - most nodes have ports

            one.route = ServerNames(names, self._parts.broker_health.is_unreachable, self._metrics).route
        return one

    def _cluster(self, addresses: Mapping[int, Address]) -> AdvertisedCluster:
        return AdvertisedCluster(self._parts.nodes, addresses, self._metrics.hidden_nodes.inc)

    # -- connections ---------------------------------------------------------------------------------------

    def _accept_new(self, one: Served, ports_before: Collection[AcceptPort], nursery: trio.Nursery) -> None:
        for node_id, port in one.bound.ports.items():
            if port in ports_before:
                continue
            if one.bound.own_port_of(node_id) and self._parts.broker_health.is_unreachable(node_id):
                port.suspend()
            nursery.start_soon(port.accept, partial(self._accepted, one, node_id, port, nursery))

    def _accepted(
        self,
        one: Served,
        node_id: int | None,
        port: AcceptPort,
        nursery: trio.Nursery,
        sock: socket.socket,
        host: str,
    ) -> None:
        connections = self._parts.connections
        if connections.refuses(host):
            sock.close()
            return
        keep_alive(sock)
        plain = TcpStream(sock)
        stream = plain if one.certificates is None else one.certificates.guard(plain, one.route)
        connection = ClientConnection(ConnectionId(next(self._ids)), stream, host, node_id, one.deps)
        nursery.start_soon(connections.serve, connection, host, port)


def _nodes_at(listeners: Sequence[Served]) -> dict[AcceptPort, Collection[int | None]]:
    """Return the nodes that clients reach at each port; None stands for the bootstrap brokers."""
    found: dict[AcceptPort, Collection[int | None]] = {}
    for one in listeners:
        names = one.bound.listener.server_names
        for node_id, port in one.bound.ports.items():
            found[port] = frozenset(names.values()) if names else (node_id,)
    return found


def _log_listening(one: Served) -> None:
    listener = one.bound.listener
    _log.info(
        "listening",
        address=str(Address(listener.bind, one.bound.port)),
        nodes=listener.nodes or listener.nodes_by_name,
        tls=one.certificates is not None,
    )
