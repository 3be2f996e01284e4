"""Opens connections to brokers (``upstream.connect_timeout_s``): looks up a node's address, or tries the bootstrap
brokers.
"""

import errno
import os
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import trio

from proxy.config.schema import Address
from proxy.metrics.registry import Metrics
from proxy.runtime.fd_limits import OUT_OF_RESOURCES
from proxy.transport.node_table import NodeIdentity, NodeTable
from proxy.transport.tcp_stream import open_tcp
from proxy.transport.tls_errors import TlsError

_LOCAL_ERRNOS = OUT_OF_RESOURCES | {errno.EADDRNOTAVAIL}

Open = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Opens a stream to a host and port. TLS wraps it; tests use memory streams."""


class UnreachableError(Exception):
    """No broker accepted the connection. The message names the addresses that were tried and each error.

    ``timed_out``: an attempt ended by timeout, so the broker may be down or busy, or this process was too busy to see
    its answer. ``local``: this process had no descriptor, memory or local port left, which says nothing about brokers.
    """

    def __init__(self, message: str, *, timed_out: bool = False, local: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out
        self.local = local


class Dialed(msgspec.Struct, frozen=True):
    """A connection to a broker.

    ``assumed``: the node's address was unknown when this was opened, so it leads to a bootstrap broker instead.
    ``identity``: whom it is meant to reach, where brokers check that (KIP-1242).
    ``lifetime_s``: for how many seconds its SASL session lives if the proxy has authenticated it, None without an end.
    """

    stream: trio.abc.Stream
    address: Address
    assumed: bool
    identity: NodeIdentity | None = None
    lifetime_s: float | None = None


class Dialer:
    """Opens connections to nodes by id, or to any bootstrap broker."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        nodes: NodeTable,
        timeout_s: float,
        metrics: Metrics,
        open_: Open = open_tcp,
    ) -> None:
        self._nodes = nodes
        self._metrics = metrics
        self._next = 0
        self.use(bootstrap, timeout_s, open_)

    def use(self, bootstrap: Sequence[Address], timeout_s: float, open_: Open) -> None:
        """Connect to other bootstrap brokers, or in another way, from now on."""
        self.bootstrap = tuple(bootstrap)
        self._timeout_s = timeout_s
        self._open = open_

    async def open(self, host: str, port: int) -> trio.abc.Stream:
        """Open a stream to an address, as connections to brokers are opened now."""
        return await self._open(host, port)

    async def dial(self, node_id: int | None) -> Dialed:
        """Connect to a node, or for None to any bootstrap broker. Each address gets ``timeout_s`` seconds.

        :raises UnreachableError: none of the addresses accepted a connection.
        """
        known = None if node_id is None else self._nodes.address_of(node_id)
        addresses = self._rotated_bootstrap() if known is None else (known,)
        failures: list[str] = []
        timed_out = local = False
        self._metrics.upstream_connections.labels("bootstrap" if node_id is None else str(node_id)).inc()
        for address in addresses:
            try:
                with trio.fail_after(self._timeout_s):
                    stream = await self._open(address.host, address.port)
            except (OSError, UnicodeError, trio.TooSlowError, trio.BrokenResourceError) as error:
                kind = error.kind if isinstance(error, TlsError) else "connect"
                self._metrics.upstream_errors.labels(kind).inc()
                failures.append(f"{address}: {_reason(error, self._timeout_s)}")
                timed_out = timed_out or isinstance(error, trio.TooSlowError)
                local = local or all(_errno_of(one) in _LOCAL_ERRNOS for one in _errors(error))
            else:
                assumed = node_id is not None and self._nodes.address_of(node_id) != address
                identity = None if node_id is None or assumed else self._nodes.identity_of(node_id)
                return Dialed(stream, address, assumed, identity)
        raise UnreachableError("; ".join(failures), timed_out=timed_out, local=local)

    def is_misrouted(self, node_id: int | None, dialed: Dialed) -> bool:
        """Whether ``dialed`` leads to a bootstrap broker, and the node's own address has become known meanwhile."""
        if not dialed.assumed or node_id is None:
            return False
        return self._nodes.address_of(node_id) not in (None, dialed.address)

    def _rotated_bootstrap(self) -> tuple[Address, ...]:
        """Return the bootstrap brokers, starting with another one at each call."""
        start = self._next % len(self.bootstrap)
        self._next = start + 1
        return self.bootstrap[start:] + self.bootstrap[:start]


def _reason(error: Exception, timeout_s: float) -> str:
    if isinstance(error, trio.TooSlowError):
        return f"no answer within {timeout_s:g} s"
    return "; ".join(dict.fromkeys(_message(one) for one in _errors(error)))


def _errors(error: Exception) -> Sequence[Exception]:
    """Return the errors of all addresses that a host name resolved to, or the error itself."""
    several = error.__cause__
    return several.exceptions if isinstance(several, ExceptionGroup) else (error,)


def _message(error: Exception) -> str:
    """Return the system's error text without the address, which the caller already names."""
    return os.strerror(number) if (number := _errno_of(error)) > 0 else str(error)


def _errno_of(error: Exception) -> int:
    number = getattr(error, "errno", None)
    return number if isinstance(number, int) else 0
