"""Which worker serves a client, by rendezvous hashing of its address and its client id.

All connections of a member have to reach the worker that knows it: any other takes the member over, which costs a
rejoin. They have the same client id in every library, so clients that share an address (behind a NAT or a load
balancer) need not share a worker. The client id is in the first request, which is read without taking it from the
connection. Clients are told apart by their address alone if that request is not there in time, or is encrypted (TLS),
or if ``limits.max_connections_per_address`` is set, which each worker counts by itself.

Every worker gets a score for the client, and the highest score wins. This needs no shared table, and when the number
of workers changes at a restart, only the clients of the added or removed workers move.
"""

import contextlib
import socket
from collections.abc import Callable
from hashlib import blake2b

import structlog

from proxy.metrics.registry import Metrics
from proxy.runtime.fd_limits import header_limit
from proxy.transport.proxied_port import PendingHeaders, peek
from proxy.wire.request_header import HeaderError, client_id_of, read_header

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")

TIMEOUT_S = 1.0
"""Clients send as soon as they have connected; what a connection without a request waits for is its worker."""

_MOST = 1024
"""Of a request's beginning, in bytes. A longer client id counts as none."""


def worker_of(client_host: str, workers: int, client_id: str = "") -> int:
    """Return the number of the worker, from 0, that serves this client."""
    client = f"{client_host} {client_id}" if client_id else client_host
    return max(range(workers), key=lambda number: _score(client, number))


def _score(client: str, number: int) -> bytes:
    return blake2b(f"{number} {client}".encode(errors="replace"), digest_size=8).digest()


class FirstRequests:
    """The connections whose first request has not come yet. If there are many, the oldest goes on without one."""

    def __init__(self, metrics: Metrics) -> None:
        self._pending = PendingHeaders(header_limit())
        self._metrics = metrics

    async def read(self, connection: socket.socket, hand_over: Callable[[str], None]) -> None:
        """Call ``hand_over`` with the client id, empty if there is none. Closes the connection if it is cancelled."""
        with contextlib.ExitStack() as closing:
            closing.callback(connection.close)
            client_id = ""
            try:
                with contextlib.suppress(OSError), self._pending.waiting(TIMEOUT_S):
                    connection.settimeout(0)
                    client_id = _client_id(await peek(connection, _MOST))
            except Exception as error:  # noqa: BLE001  a bug ends one connection, never the process
                self._metrics.internal_errors.labels("connection").inc()
                _log.error("a connection failed", exc_info=error)
                return
            closing.pop_all()
            hand_over(client_id)


def _client_id(beginning: bytes) -> str:
    """Return the client id of a request; empty for anything else. TLS begins with 22, a size below 16 MiB with 0."""
    with contextlib.suppress(HeaderError):
        if beginning[:1] == b"\0":
            return client_id_of(beginning, read_header(beginning)) or ""
    return ""
