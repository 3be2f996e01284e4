"""The ports of a worker: they are the supervisor's, which hands over the connections that come in by them."""

import socket
from collections.abc import Callable

import structlog
import trio

from proxy.config.schema import Config
from proxy.transport.listeners import Accepted, BoundListener, Counts
from proxy.workers.control_messages import Away, Back, Handed, PortKey
from proxy.workers.fd_passing import take_over

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")

Say = Callable[[Away | Back], None]


class HandedPort:
    """One port, as :class:`proxy.transport.listeners.Port`. ``number`` is the one that the supervisor listens on."""

    def __init__(self, key: PortKey, number: int, say: Say) -> None:
        self.number = number
        self._key = key
        self._say = say
        self._accepted: Accepted | None = None
        self._closed = trio.Event()

    def listen(self) -> None:
        """Have clients connect from now on."""
        self._say(Back(self._key))

    def suspend(self) -> None:
        """Have clients refused until :meth:`listen` is called again."""
        self._say(Away(self._key))

    def close(self) -> None:
        """Take no further client."""
        self._closed.set()

    async def accept(self, accepted: Accepted) -> None:
        """Take connections until the port is closed."""
        self._accepted = accepted
        await self._closed.wait()
        self._accepted = None

    def hand(self, connection: socket.socket, client_host: str) -> None:
        """A connection came in by this port."""
        if self._accepted is None:
            connection.close()
            return
        try:
            self._accepted(connection, client_host)
        except OSError as error:  # reset before it was looked at
            connection.close()
            _log.debug("a connection was gone when it was accepted", reason=error.strerror)


class Doors:
    """All ports of a worker, and the socket over which connections arrive."""

    def __init__(
        self, config: Config, ports: list[tuple[PortKey, int]], from_: socket.socket, say: Say
    ) -> None:
        self._ports = {key: HandedPort(key, number, say) for key, number in ports}
        self._from = from_
        self.listeners = tuple(
            BoundListener(
                listener,
                {node_id: port for (place, node_id), port in self._ports.items() if place == n},
            )
            for n, listener in enumerate(config.listeners)
        )

    async def run(self, lost: Counts) -> None:
        """Take over connections until the supervisor is gone. ``lost`` counts those without a descriptor."""

        def taken(handed: Handed, connection: socket.socket | None) -> None:
            if connection is None:
                lost.inc()
                _log.error("can't take a connection", client=handed.client_host, reason="Too many open files")
            else:
                self._ports[handed.port].hand(connection, handed.client_host)

        await take_over(self._from, taken)
