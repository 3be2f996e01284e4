"""A worker's ports. The supervisor listens on them and passes their connections to this process."""

import socket
from collections import deque
from collections.abc import Callable, Iterable

import structlog
import trio

from proxy.config.schema import Listener
from proxy.transport.listeners import Accepted, BoundListener, Counts
from proxy.workers.control_messages import HandoffHeader, ListenerPorts, PortDown, PortKey, PortUp
from proxy.workers.fd_passing import receive_connections

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")

SendPortState = Callable[[PortDown | PortUp], None]


class RemotePort:
    """A port that the supervisor listens on, with the interface of :class:`proxy.transport.listeners.AcceptPort`."""

    def __init__(
        self, key: PortKey, number: int, send: SendPortState, forget: Callable[[PortKey], None]
    ) -> None:
        self.number = number
        self._key = key
        self._send = send
        self._forget = forget
        self._accepted: Accepted | None = None
        self._early: deque[tuple[socket.socket, str]] = deque()
        self._closed = trio.Event()

    def listen(self) -> None:
        """Ask the supervisor to accept clients on this port."""
        self._send(PortUp(self._key))

    def suspend(self) -> None:
        """Ask the supervisor to refuse clients on this port until :meth:`listen` is called again."""
        self._send(PortDown(self._key))

    def close(self) -> None:
        """Accept no further connections."""
        self._closed.set()
        self._accepted = None
        self._forget(self._key)
        while self._early:
            self._early.popleft()[0].close()

    async def accept(self, accepted: Accepted) -> None:
        """Give connections to ``accepted`` until the port is closed."""
        if not self._closed.is_set():
            self._accepted = accepted
            while self._early:
                self.deliver(*self._early.popleft())
        await self._closed.wait()

    def deliver(self, connection: socket.socket, client_host: str) -> None:
        """Accept a connection that the supervisor passed for this port, as soon as :meth:`accept` runs."""
        if self._accepted is None:
            self._early.append((connection, client_host))
            return
        try:
            self._accepted(connection, client_host)
        except OSError as error:  # the client reset it before it was accepted
            connection.close()
            _log.debug("a connection was gone when it was accepted", reason=error.strerror)


class WorkerPorts:
    """All ports of a worker, fed from one socket ``from_`` over which the supervisor passes connections.

    A :class:`proxy.transport.listeners.Binder`: listeners are bound in the order of ``ports``, those of each.
    """

    def __init__(self, ports: Iterable[ListenerPorts], from_: socket.socket, send: SendPortState) -> None:
        self._next = deque(ports)
        self._ports: dict[PortKey, RemotePort] = {}
        self._from = from_
        self._send = send

    def expect(self, ports: Iterable[ListenerPorts]) -> None:
        """Bind these next, each listener in its turn."""
        self._next = deque(ports)

    def bind(self, listener: Listener, _before: BoundListener | None = None) -> BoundListener:
        """See :class:`proxy.transport.listeners.Binder`. A port that stays has the key of before."""
        ports = {node_id: self._port(key, number) for node_id, key, number in self._next.popleft()}
        return BoundListener(listener, ports)

    def applied(self, bound: BoundListener) -> None:
        """See :class:`proxy.transport.listeners.Binder`. What comes before TLS is the supervisor's."""

    def _port(self, key: PortKey, number: int) -> RemotePort:
        if key not in self._ports:
            self._ports[key] = RemotePort(key, number, self._send, self._forget)
        return self._ports[key]

    def _forget(self, key: PortKey) -> None:
        self._ports.pop(key, None)

    async def run(self, failures: Counts) -> None:
        """Accept connections until the supervisor ends. ``failures`` counts those for which no descriptor was left."""

        def deliver(header: HandoffHeader, connection: socket.socket | None) -> None:
            if connection is None:
                failures.inc()
                _log.error("can't take a connection", client=header.client_host, reason="Too many open files")
            elif (port := self._ports.get(header.port)) is None:  # closed meanwhile
                connection.close()
            else:
                port.deliver(connection, header.client_host)

        await receive_connections(self._from, deliver)
