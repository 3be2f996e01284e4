"""A worker's ports. The supervisor listens on them and passes their connections to this process."""

import socket
from collections.abc import Callable

import structlog
import trio

from proxy.config.schema import Config
from proxy.transport.listeners import Accepted, BoundListener, Counts
from proxy.workers.control_messages import HandoffHeader, PortDown, PortKey, PortUp
from proxy.workers.fd_passing import receive_connections

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")

SendPortState = Callable[[PortDown | PortUp], None]


class RemotePort:
    """A port that the supervisor listens on, with the interface of :class:`proxy.transport.listeners.AcceptPort`."""

    def __init__(self, key: PortKey, number: int, send: SendPortState) -> None:
        self.number = number
        self._key = key
        self._send = send
        self._accepted: Accepted | None = None
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

    async def accept(self, accepted: Accepted) -> None:
        """Give connections to ``accepted`` until the port is closed."""
        self._accepted = accepted
        await self._closed.wait()
        self._accepted = None

    def deliver(self, connection: socket.socket, client_host: str) -> None:
        """Accept a connection that the supervisor passed for this port; after :meth:`close` it is closed."""
        if self._accepted is None:
            connection.close()
            return
        try:
            self._accepted(connection, client_host)
        except OSError as error:  # the client reset it before it was accepted
            connection.close()
            _log.debug("a connection was gone when it was accepted", reason=error.strerror)


class WorkerPorts:
    """All ports of a worker, fed from one socket ``from_`` over which the supervisor passes connections."""

    def __init__(
        self, config: Config, ports: list[tuple[PortKey, int]], from_: socket.socket, send: SendPortState
    ) -> None:
        self._ports = {key: RemotePort(key, number, send) for key, number in ports}
        self._from = from_
        self.listeners = tuple(
            BoundListener(
                listener,
                {node_id: port for (place, node_id), port in self._ports.items() if place == n},
            )
            for n, listener in enumerate(config.listeners)
        )

    async def run(self, failures: Counts) -> None:
        """Accept connections until the supervisor ends. ``failures`` counts those for which no descriptor was left."""

        def deliver(header: HandoffHeader, connection: socket.socket | None) -> None:
            if connection is None:
                failures.inc()
                _log.error("can't take a connection", client=header.client_host, reason="Too many open files")
            else:
                self._ports[header.port].deliver(connection, header.client_host)

        await receive_connections(self._from, deliver)
