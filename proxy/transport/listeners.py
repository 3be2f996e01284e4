"""Listening sockets. They are bound before anything else starts, so that a taken port ends the process at once."""

import errno
import socket
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
import structlog
import trio

from proxy.config.schema import Address, Listener
from proxy.metrics.registry import Metrics
from proxy.runtime.fd_limits import OUT_OF_RESOURCES, header_limit
from proxy.runtime.log_throttle import LogThrottle
from proxy.transport.epoll import notify_closing, wait_readable

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
        """Give ``accepted`` each new connection until the port is closed."""
        while not self._closed:
            sock = self._socket
            try:
                await wait_readable(sock)
            except trio.ClosedResourceError:
                await self._changed.wait()
            else:
                await self._accept_some(sock, accepted)

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
    sock = socket.socket(family, socket.SOCK_STREAM)
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


def bind_listener(listener: Listener, metrics: Metrics) -> BoundListener:
    """Bind all ports of a listener.

    :raises BindError: one of them can't be bound.
    """
    ports: dict[int | None, Port] = {}
    try:
        ports[None] = Port(listener.bind, listener.port, metrics.accept_failures)
        for node_id, port in listener.node_ports.items():
            ports[node_id] = Port(listener.bind, port, metrics.accept_failures)
    except BindError:
        for reserved in ports.values():
            reserved.close()
        raise
    if listener.proxy_protocol is None:
        return BoundListener(listener, ports)
    from proxy.transport.proxied_port import PendingHeaders, ProxiedPort  # noqa: PLC0415 - most have no balancer

    pending = PendingHeaders(header_limit())
    proxied = {
        node_id: ProxiedPort(port, listener.proxy_protocol, pending, metrics)
        for node_id, port in ports.items()
    }
    return BoundListener(listener, proxied)
