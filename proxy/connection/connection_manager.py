"""Decides who may connect and how many (``limits.max_connections``, ``max_connections_per_address``), and from
when on those that are idle, slow or too old are closed (``idle_timeout_s``, ``request_timeout_s``,
``connection_max_age_s``).

Timeouts are checked once per second for each connection, off the request path: a connection only counts its reads and
writes, and this module remembers when a count last changed.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
import structlog
import trio

from proxy.config.schema import Address, Limits
from proxy.connection.client_connection import ClientConnection
from proxy.connection.connection_progress import ConnectionProgress
from proxy.connection.disconnect_cause import DisconnectCause
from proxy.metrics.periodic import run_periodically
from proxy.metrics.registry import Metrics
from proxy.runtime.fd_limits import connection_limit
from proxy.runtime.log_throttle import LogThrottle
from proxy.runtime.time_slice import TimeSlice
from proxy.transport.listeners import AcceptPort

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.connection.connection_manager")

CHECK_INTERVAL_S = 1.0
"""Seconds between two checks of a connection: the accuracy of all timeouts."""

_AGE_SPREAD = 0.2
"""Each connection's maximum age is drawn from the last fifth, so that clients that came together leave one by one."""

_LEAVING_PER_S = 200.0
"""The pace at which connections are to end that have to leave together: their clients reconnect at once."""

_MEBIBYTE = 1024 * 1024


class _Activity(msgspec.Struct):
    """The progress of one connection at its last check, and when its counts last changed (trio's clock, seconds)."""

    host: str
    port: AcceptPort | None
    leaves_at: float
    """When it is to end at its next moment of rest."""
    leaves_for: DisconnectCause
    progress: ConnectionProgress | None
    reads_since: float
    writes_since: float
    request_since: float


class ConnectionManager:
    """The connections of one process, which listens on so many ``ports``."""

    def __init__(self, limits: Limits, metrics: Metrics, ports: int = 0) -> None:
        self._metrics = metrics
        self.set_limits(limits, ports)
        self._open: dict[ClientConnection, _Activity] = {}
        self._by_host: Counter[str] = Counter()
        self._none_left = trio.Event()
        self._throttle = LogThrottle()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(list(self._open))

    def set_limits(self, limits: Limits, ports: int) -> None:
        """Enforce these from now on, except for the age of the connections that are open. There are so many ports."""
        self._limits = limits
        self._max_connections = connection_limit(limits, ports)

    def refuses(self, host: str) -> bool:
        """Whether a new connection from this address exceeds a limit; counts and logs the refusal."""
        if len(self._open) >= self._max_connections:
            reason, limit = "total", f"there are {self._max_connections} connections"
        elif self._by_host[host] >= self._limits.max_connections_per_address:
            reason, limit = "per_address", f"the address has {self._by_host[host]} connections"
        else:
            return False
        self._metrics.connections_refused.labels(reason).inc()
        if (suppressed := self._throttle.suppressed(reason)) is not None:
            _log.warning("connection refused", client=host, reason=limit, suppressed=suppressed)
        return True

    async def serve(self, connection: ClientConnection, host: str, port: AcceptPort | None = None) -> None:
        """Run a connection that came to this port to its end."""
        now = trio.current_time()
        age_s = self._limits.connection_max_age_s
        too_old_at = (
            float("inf") if age_s is None else now + age_s * random.uniform(1 - _AGE_SPREAD, 1)  # noqa: S311  jitter
        )
        self._open[connection] = _Activity(host, port, too_old_at, DisconnectCause.AGE, None, now, now, now)
        self._by_host[host] += 1
        try:
            await connection.run()
        except* Exception as errors:  # noqa: BLE001  a bug ends one connection, never the process
            self._metrics.internal_errors.labels("connection").inc()
            _log.error("a connection failed", connection=connection.id, client=host, exc_info=errors)
        finally:
            del self._open[connection]
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]
            if not self._open:
                self._none_left.set()

    def node_learned(self, node_id: int, address: Address) -> None:
        """Close, once idle, connections on which a bootstrap broker stands in for a node whose address is known now."""
        _log.info("node learned", node=node_id, address=str(address))
        for connection in self:
            dialed = connection.dialed
            is_misrouted = dialed is not None and dialed.assumed and dialed.address != address
            if is_misrouted and connection.node_id == node_id:
                connection.close_when_idle(DisconnectCause.MISROUTED)

    def leave(self, has_to: Callable[[AcceptPort | None, int | None], bool]) -> None:
        """Have connections end, each at its next moment of rest.

        ``has_to`` decides by the port that one came to and the node that it leads to.
        """
        leaving = [
            activity
            for connection, activity in self._open.items()
            if has_to(activity.port, connection.node_id)
        ]
        for number, activity in enumerate(leaving):
            leaves_at = trio.current_time() + number / _LEAVING_PER_S
            if leaves_at < activity.leaves_at:
                activity.leaves_at, activity.leaves_for = leaves_at, DisconnectCause.RELOADED

    async def enforce_limits(self) -> None:
        """Check all connections once per second until cancelled."""
        await run_periodically(CHECK_INTERVAL_S, self._check_all, self._metrics)

    async def _check_all(self) -> None:
        time_slice = TimeSlice()
        for connection, activity in list(self._open.items()):
            if connection.is_serving:
                self._check(connection, activity, trio.current_time())
            await time_slice.yield_if_spent()

    def _check(self, connection: ClientConnection, activity: _Activity, now: float) -> None:
        progress = connection.progress()
        before, activity.progress = activity.progress or progress, progress
        if progress.reads != before.reads:
            activity.reads_since = now
        if progress.writes != before.writes or not progress.client_owes_reading:
            activity.writes_since = now
        if progress.requests != before.requests or not progress.client_owes_rest:
            activity.request_since = now
        limits = self._limits
        if progress.client_owes_rest:
            patience_s = limits.request_timeout_s * max(1.0, progress.request_size / _MEBIBYTE)
            if now - activity.request_since > patience_s:
                reason = f"a request of {progress.request_size} bytes did not arrive within {patience_s:g} s"
                connection.end(DisconnectCause.SLOW_REQUEST, reason)
        elif progress.client_owes_reading:
            if now - activity.writes_since > limits.idle_timeout_s:
                reason = f"it has read nothing for {limits.idle_timeout_s:g} s of what waits for it"
                connection.end(DisconnectCause.CLIENT_STALLED, reason)
        elif progress.quiescent and now - activity.reads_since > limits.idle_timeout_s:
            connection.end(DisconnectCause.IDLE, f"nothing was sent for {limits.idle_timeout_s:g} s")
        if now >= activity.leaves_at:
            connection.close_when_quiescent(activity.leaves_for)

    async def wait_until_none(self) -> None:
        """Return once no connection is open."""
        if self._open:
            self._none_left = trio.Event()
            await self._none_left.wait()
