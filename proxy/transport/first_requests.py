"""Which client a connection is of, before a worker is chosen: the client id in its first request, which stays in the
socket.
"""

import contextlib
import socket
from collections.abc import Callable

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
