"""A port behind load balancers (``proxy_protocol.trusted``): what a trusted one sends first is a PROXY header, which
names the client's address.

The header is read where connections are accepted (with several processes by the supervisor), before TLS and before a
worker is chosen, so everything after it knows the client's address only. Not one byte beyond the header is taken from
the connection.

Each header that has not come yet has a task of its own and a deadline, so a slow one delays no other connection. There
are at most :attr:`PendingHeaders.limit` of them at a listener: one more ends the wait for the oldest, because a
balancer sends the header at once, and a flood of silent connections must not keep those that do from being served.

Health checks are quiet: connections that end before a byte of a client came, without a header or with one that names no
client: LOCAL, UNKNOWN, or the balancer itself (HAProxy's checks in version 1).
"""

import contextlib
import ipaddress
import socket
from collections.abc import Iterator

import structlog
import trio

from proxy.config.proxy_protocol import ProxyProtocol
from proxy.metrics.registry import Metrics
from proxy.runtime.log_throttle import LogThrottle
from proxy.transport.epoll import wait_readable
from proxy.transport.listeners import Accepted, client_host
from proxy.wire.proxy_header import MAX_HEADER, HeaderParser, ProxyHeaderError

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.transport.proxied_port")


class PendingHeaders:
    """The connections of one listener whose header is being read, at most ``limit``."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._scopes: dict[trio.CancelScope, None] = {}

    def __len__(self) -> int:
        return len(self._scopes)

    @contextlib.contextmanager
    def waiting(self, timeout_s: float) -> Iterator[trio.CancelScope]:
        """Be one of them in this block, for so many seconds; it is cancelled if others need the place."""
        if len(self._scopes) >= self.limit:
            oldest = next(iter(self._scopes))
            del self._scopes[oldest]
            oldest.cancel()
        with trio.move_on_after(timeout_s) as scope:
            self._scopes[scope] = None
            try:
                yield scope
            finally:
                self._scopes.pop(scope, None)


class ProxyHeaders:
    """Reads the headers at one port, whose ``number`` is for the log. ``pending`` are those of its whole listener."""

    def __init__(
        self, number: int, settings: ProxyProtocol, pending: PendingHeaders, metrics: Metrics
    ) -> None:
        self._number = number
        self._settings = settings
        self._pending = pending
        self._metrics = metrics
        self._throttle = LogThrottle()

    def take(
        self, nursery: trio.Nursery, accepted: Accepted, connection: socket.socket, peer_host: str
    ) -> None:
        """Give ``accepted`` the connection with its client's address, once ``nursery`` has read its header."""
        if self._trusts(peer_host):
            nursery.start_soon(self._identify, accepted, connection, peer_host)
        else:
            accepted(connection, peer_host)

    def _trusts(self, peer_host: str) -> bool:
        address = ipaddress.ip_address(peer_host)
        return any(address in network for network in self._settings.networks)

    async def _identify(self, accepted: Accepted, connection: socket.socket, peer_host: str) -> None:
        """Read the header of one connection and give it to ``accepted``, or close it."""
        with contextlib.ExitStack() as closing:
            closing.callback(connection.close)
            parser = HeaderParser()
            host = None
            try:
                with self._pending.waiting(self._settings.timeout_s) as scope:
                    host = await self._client_of(connection, parser, peer_host)
            except ProxyHeaderError as error:
                self._refuse("invalid", peer_host, str(error))
                return
            except OSError as error:
                self._ended(parser, peer_host, error.strerror or "the connection broke")
                return
            except Exception as error:  # noqa: BLE001  a bug ends one connection, never the process
                self._metrics.internal_errors.labels("connection").inc()
                _log.error("a connection failed", load_balancer=peer_host, exc_info=error)
                return
            if scope.cancelled_caught:
                self._cut(parser, peer_host, crowded_out=trio.current_time() < scope.deadline)
            elif host is None:
                self._ended(parser, peer_host, "the connection was closed in the middle of its PROXY header")
            else:
                with contextlib.suppress(OSError):  # the client has reset it already
                    accepted(connection, host)
                    closing.pop_all()

    async def _client_of(self, connection: socket.socket, parser: HeaderParser, peer_host: str) -> str | None:
        """Read the header and return whose connection it is; None if that ended first.

        :raises ProxyHeaderError: there is no valid header.
        :raises OSError: the connection broke.
        """
        connection.settimeout(0)
        while parser.header is None:
            data = await peek(connection, MAX_HEADER)
            if not data:
                return None
            connection.recv(parser.feed(data))
        named = parser.header.client_host
        if named is not None and (host := client_host(named)) != peer_host:
            self._metrics.proxy_headers.labels("client").inc()
            return host
        # A health check ends here. Anything else is a connection of the balancer's own.
        if not await peek(connection, 1):
            return None
        self._metrics.proxy_headers.labels("peer").inc()
        return peer_host

    def _ended(self, parser: HeaderParser, peer_host: str, reason: str) -> None:
        if parser.header is None and parser.begun:
            self._refuse("invalid", peer_host, reason)
        else:
            self._metrics.proxy_headers.labels("health_check").inc()

    def _cut(self, parser: HeaderParser, peer_host: str, *, crowded_out: bool) -> None:
        if parser.header is not None:
            self._metrics.proxy_headers.labels("health_check").inc()
        elif crowded_out:
            reason = f"{self._pending.limit} newer connections wait for their PROXY header"
            self._refuse("crowded_out", peer_host, reason)
        else:
            reason = f"no whole PROXY header within {self._settings.timeout_s:g} s"
            self._refuse("timeout", peer_host, reason)

    def _refuse(self, result: str, peer_host: str, reason: str) -> None:
        self._metrics.proxy_headers.labels(result).inc()
        if (suppressed := self._throttle.suppressed(result)) is not None:
            _log.warning(
                "connection refused",
                load_balancer=peer_host,
                port=self._number,
                reason=reason,
                suppressed=suppressed,
            )


async def peek(connection: socket.socket, n: int) -> bytes:
    """Wait for bytes and return up to ``n`` of them, which stay in the socket; empty at the end of the stream.

    :raises OSError: the connection broke.
    """
    while True:
        try:
            return connection.recv(n, socket.MSG_PEEK)
        except BlockingIOError:
            await wait_readable(connection)
