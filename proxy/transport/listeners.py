"""Listening sockets, and when they accept. They are bound before anything else starts, so that a taken port ends
the process at once.
"""

import errno
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec
import structlog
import trio

from proxy.config.schema import Address, Listener
from proxy.metrics.registry import Metrics
from proxy.runtime.fd_limits import OUT_OF_RESOURCES, header_limit
from proxy.runtime.log_throttle import LogThrottle
from proxy.transport.epoll import notify_closing, wait_readable

if TYPE_CHECKING:
    from proxy.transport.proxied_port import ProxyHeaders

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.transport.listeners")

_BACKLOG = 4096  # Linux' default limit (net.core.somaxconn); the kernel drops connections beyond it
_ACCEPTS_IN_A_ROW = 64
_MAPPED = "::ffff:"
_PAUSE_S = 0.1

Accepted = Callable[[socket.socket, str], None]
"""Takes a new connection and the client's host."""


class BindError(Exception):
    """A port can't be bound; the message says which and why."""


class Counts(Protocol):
    """A counter, as those of prometheus_client."""

    def inc(self) -> None:
        """Add one."""
        ...


class AcceptPort(Protocol):
    """A port that clients connect to: of this process, or of the supervisor, which hands its connections over."""

    number: int

    def listen(self) -> None:
        """Let clients connect from now on."""
        ...

    def suspend(self) -> None:
        """Refuse clients until :meth:`listen` is called again."""
        ...

    def close(self) -> None:
        """Refuse clients for good."""
        ...

    async def accept(self, accepted: Accepted) -> None:
        """Give ``accepted`` each new connection until the port is closed."""
        ...


class Port:
    """A port of this process. It can refuse clients for a while.

    The constructor binds the port and accepts no connections yet; port 0 is any free one. ``failures`` counts how often
    a connection had to wait because no descriptor or memory was left to accept it.

    :raises BindError: the port can't be bound.
    """

    def __init__(self, host: str, port: int, failures: Counts) -> None:
        self._socket = bind(host, port)
        self._host = host
        self._failures = failures
        self._throttle = LogThrottle()
        self._closed = False
        self._changed = trio.Event()
        self.number = port_of(self._socket)
        self.headers: ProxyHeaders | None = None
        """What reads the PROXY headers of the connections that come from now on; None if they have none."""

    def listen(self) -> None:
        """Let clients connect from now on.

        :raises BindError: another process has taken the port meanwhile.
        """
        if self._socket.fileno() == -1:
            self._socket = bind(self._host, self.number)
        try:
            self._socket.listen(_BACKLOG)
        except OSError as error:
            raise _bind_error((self._host, self.number), error) from None
        self._changed.set()

    def suspend(self) -> None:
        """Refuse clients until :meth:`listen` is called again."""
        if self._socket.fileno() != -1:
            if trio.lowlevel.in_trio_run():
                notify_closing(self._socket)
            self._socket.close()
            self._changed = trio.Event()

    def close(self) -> None:
        """Refuse clients for good."""
        self._closed = True
        self.suspend()
        self._changed.set()

    async def accept(self, accepted: Accepted) -> None:
        """Give ``accepted`` each new connection until the port is closed. Those whose header is being read end then."""
        async with trio.open_nursery() as reading:
            take = partial(self._take, reading, accepted)
            while not self._closed:
                sock = self._socket
                try:
                    await wait_readable(sock)
                except trio.ClosedResourceError:
                    await self._changed.wait()
                else:
                    await self._accept_some(sock, take)
            reading.cancel_scope.cancel()

    def _take(self, reading: trio.Nursery, accepted: Accepted, connection: socket.socket, host: str) -> None:
        if self.headers is None:
            accepted(connection, host)
        else:
            self.headers.take(reading, partial(self._give, accepted), connection, host)

    def _give(self, accepted: Accepted, connection: socket.socket, host: str) -> None:
        """Give a connection away whose header was read, unless the port was closed meanwhile."""
        if self._closed:
            connection.close()
        else:
            accepted(connection, host)

    async def _accept_some(self, sock: socket.socket, accepted: Accepted) -> None:
        for _ in range(_ACCEPTS_IN_A_ROW):
            try:
                connection, address = sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in OUT_OF_RESOURCES:
                    self._failures.inc()
                    if self._throttle.suppressed("") is not None:
                        _log.error("can't accept a connection", port=self.number, reason=error.strerror)
                    await trio.sleep(_PAUSE_S)
                return  # otherwise the client gave up before it was accepted
            try:
                accepted(connection, client_host(address[0]))
            except OSError as error:  # the client has reset it already
                connection.close()
                _log.debug("a connection was gone when it was accepted", reason=error.strerror)


def client_host(address: str) -> str:
    """Return the client's address without the prefix that IPv4 clients have on a port that also accepts IPv6."""
    return address.removeprefix(_MAPPED) if "." in address else address


class BoundListener(msgspec.Struct, frozen=True):
    """A listener of the configuration with its ports, by node id; None is the bootstrap port."""

    listener: Listener
    ports: Mapping[int | None, AcceptPort]

    @property
    def advertised(self) -> dict[int, Address]:
        """The address of each node id in clients' metadata; the port is the bound one where the configuration has 0."""
        of, port = self.listener, self.listener.advertised_port
        return {
            node_id: Address(of.host_of(node_id), port or self.ports[node_id if of.nodes else None].number)
            for node_id in of.node_ids_served
        }

    def own_port_of(self, node_id: int | None) -> AcceptPort | None:
        """Return the port of a node, or of the bootstrap brokers for None; None where one port is that of all nodes."""
        return None if self.listener.nodes_by_name is not None else self.ports.get(node_id)

    @property
    def descriptors(self) -> int:
        """How many descriptors it may take beside its clients' connections."""
        return len(self.ports) + (0 if self.listener.proxy_protocol is None else header_limit())

    @property
    def port(self) -> int:
        """The real number of the bootstrap port."""
        return self.ports[None].number

    def close(self) -> None:
        """Close all ports, so that no client can connect any more."""
        for port in self.ports.values():
            port.close()


class Ports(msgspec.Struct, frozen=True):
    """The ports that the process really listens on. They differ from the configuration where that says 0."""

    listeners: tuple[BoundListener, ...]
    admin: int


def port_of(sock: socket.socket) -> int:
    """Return the port that a socket is bound to."""
    port: int = sock.getsockname()[1]
    return port


def bind(host: str, port: int) -> socket.socket:
    """Bind a port without accepting connections yet; port 0 is any free one.

    :raises BindError: the port can't be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:  # no descriptors
        raise _bind_error((host, port), error) from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise _bind_error((host, port), error) from None
    sock.settimeout(0)
    return sock


def _bind_error(address: tuple[str, int], error: OSError) -> BindError:
    reason = "the port is taken by another process" if error.errno == errno.EADDRINUSE else error.strerror
    return BindError(f"can't listen on {Address(*address)}: {reason}")


class Binder(Protocol):
    """Has the ports of this process's listeners."""

    def bind(self, listener: Listener, before: BoundListener | None = None, /) -> BoundListener:
        """Return the listener with its ports, which accept no connections yet; those it shares with ``before`` stay.

        :raises BindError: one of them can't be bound. None is then.
        """
        ...

    def applied(self, bound: BoundListener) -> None:
        """Treat connections that come from now on as this listener says."""
        ...


class PortBinder:
    """Binds ports of this process."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def bind(self, listener: Listener, before: BoundListener | None = None) -> BoundListener:
        """See :class:`Binder`."""
        kept = kept_ports(listener, before)
        ports: dict[int | None, AcceptPort] = {}
        try:
            for node_id, number in port_numbers(listener).items():
                ports[node_id] = kept.get(node_id) or Port(
                    listener.bind, number, self._metrics.accept_failures
                )
        except BindError:
            for node_id in ports.keys() - kept.keys():
                ports[node_id].close()
            raise
        return BoundListener(listener, ports)

    def applied(self, bound: BoundListener) -> None:
        """See :class:`Binder`."""
        ports = [port for port in bound.ports.values() if isinstance(port, Port)]
        settings = bound.listener.proxy_protocol
        if settings is None:
            for port in ports:
                port.headers = None
            return
        from proxy.transport.proxied_port import (  # noqa: PLC0415 - most have no balancer
            PendingHeaders,
            ProxyHeaders,
        )

        pending = PendingHeaders(header_limit())
        for port in ports:
            port.headers = ProxyHeaders(port.number, settings, pending, self._metrics)


def port_numbers(listener: Listener) -> dict[int | None, int]:
    """Return the ports of a listener by node id, as it was configured; None is the bootstrap port."""
    numbers: dict[int | None, int] = {None: listener.port}
    return numbers | listener.node_ports


def kept_ports(listener: Listener, before: BoundListener | None) -> dict[int | None, AcceptPort]:
    """Return the ports of ``before`` that stay: the same node has the same number."""
    if before is None:
        return {}
    numbers, numbers_before = port_numbers(listener), port_numbers(before.listener)
    return {
        node_id: port
        for node_id, port in before.ports.items()
        if numbers.get(node_id) == numbers_before[node_id]
    }
