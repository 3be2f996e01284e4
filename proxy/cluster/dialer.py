"""Connections to brokers: which address stands behind a port, and opening it."""

import errno
import os
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import trio

from proxy.cluster.node_table import NodeTable
from proxy.config.schema import Address
from proxy.metrics.registry import Metrics
from proxy.runtime.fd_limits import OUT_OF_RESOURCES
from proxy.transport.tcp_stream import open_tcp
from proxy.transport.tls_stream import TlsError

_OUT_OF_OWN = OUT_OF_RESOURCES | {errno.EADDRNOTAVAIL}

Open = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Host and port -> a stream; tests put memory streams here, TLS lays itself over it."""


class UnreachableError(Exception):
    """No broker took the connection; the message says which were tried and what came of it.

    ``slow`` says that one of them did not refuse but did not answer in time either: it is away, or busy, or this
    process itself was too busy to see its answer. ``own`` says that this process has no descriptor, memory or port
    left to connect with, which says nothing of the brokers.
    """

    def __init__(self, message: str, *, slow: bool = False, own: bool = False) -> None:
        super().__init__(message)
        self.slow = slow
        self.own = own


class Dialed(msgspec.Struct, frozen=True):
    """A connection to a broker.

    ``assumed`` says that the node's own address is not known, or was not when it was opened, and a bootstrap
    broker stands in for the node.
    """

    stream: trio.abc.Stream
    address: Address
    assumed: bool


class Dialer:
    """Opens connections to nodes, or to a bootstrap broker where none is meant."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        nodes: NodeTable,
        timeout_s: float,
        metrics: Metrics,
        open_: Open = open_tcp,
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self._nodes = nodes
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._open = open_
        self._next = 0

    async def dial(self, node_id: int | None) -> Dialed:
        """Connect to a node; None: to any bootstrap broker.

        :raises UnreachableError: within the timeout for each, nobody took the connection.
        """
        known = None if node_id is None else self._nodes.address_of(node_id)
        addresses = self._bootstrap_in_turn() if known is None else (known,)
        failures: list[str] = []
        slow = own = False
        self._metrics.upstream_connections.labels("bootstrap" if node_id is None else str(node_id)).inc()
        for address in addresses:
            try:
                with trio.fail_after(self._timeout_s):
                    stream = await self._open(address.host, address.port)
            except (OSError, UnicodeError, trio.TooSlowError, trio.BrokenResourceError) as error:
                kind = error.kind if isinstance(error, TlsError) else "connect"
                self._metrics.upstream_errors.labels(kind).inc()
                failures.append(f"{address}: {_reason(error, self._timeout_s)}")
                slow = slow or isinstance(error, trio.TooSlowError)
                own = own or all(_number(one) in _OUT_OF_OWN for one in _errors(error))
            else:
                assumed = node_id is not None and self._nodes.address_of(node_id) != address
                return Dialed(stream, address, assumed)
        raise UnreachableError("; ".join(failures), slow=slow, own=own)

    def _bootstrap_in_turn(self) -> tuple[Address, ...]:
        """All bootstrap brokers, each time beginning with the next."""
        start, self._next = self._next, (self._next + 1) % len(self._bootstrap)
        return self._bootstrap[start:] + self._bootstrap[:start]


def _reason(error: Exception, timeout_s: float) -> str:
    if isinstance(error, trio.TooSlowError):
        return f"no answer within {timeout_s:g} s"
    return "; ".join(dict.fromkeys(_said(one) for one in _errors(error)))


def _errors(error: Exception) -> Sequence[Exception]:
    """What came of each address of a name, else the error itself."""
    several = error.__cause__
    return several.exceptions if isinstance(several, ExceptionGroup) else (error,)


def _said(error: Exception) -> str:
    """What the system says, without the address that stands before it anyway."""
    return os.strerror(number) if (number := _number(error)) > 0 else str(error)


def _number(error: Exception) -> int:
    number = getattr(error, "errno", None)
    return number if isinstance(number, int) else 0
