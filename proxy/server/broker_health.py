"""Tracks which brokers can be reached, and retries unreachable ones with exponential backoff and jitter; their ports
close meanwhile.

While a node is unreachable its port is closed. A client's connection attempt then fails at once, and the client tries
another broker or retries. If the proxy accepted the connection and closed it, it would look like a broker that fails in
the middle of a request, which some clients handle worse (kafka-python 3 raises it to the application).

A timeout only makes a node suspected: thousands of clients that connect at once can fill its accept queue, or this
process may be too busy to see the answer in time. A suspected node is unreachable only if a second attempt fails too
and nothing was read from it on any other connection meanwhile. Errors of this process (no descriptors, no memory, no
local ports) say nothing about the node.
"""

import random
from collections.abc import Callable

import structlog
import trio

from proxy.metrics.counters import HotCounter
from proxy.metrics.registry import Metrics
from proxy.transport.dialer import Dialer, UnreachableError
from proxy.transport.listeners import BindError

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.server.broker_health")

_MIN_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 0.5
"""Less than the second after which Kafka's clients dial a broker again (reconnect.backoff.max.ms)."""

NodeCallback = Callable[[int | None], None]
"""Takes a node id; None for the bootstrap brokers."""


class BrokerHealth:
    """Tracks nodes from :meth:`start` on."""

    def __init__(self, dialer: Dialer, metrics: Metrics) -> None:
        self._dialer = dialer
        self._metrics = metrics
        self._on_unreachable: NodeCallback
        self._on_reachable: NodeCallback
        self._unreachable: set[int | None] = set()
        self._probes: dict[int | None, trio.Event] = {}
        self._suspected: set[int | None] = set()
        self._read_counters: dict[int | None, HotCounter] = {}
        self._nursery: trio.Nursery | None = None

    def start(
        self, nursery: trio.Nursery, *, on_unreachable: NodeCallback, on_reachable: NodeCallback
    ) -> None:
        """Track nodes, with retries in this nursery, and call these when one of them changes."""
        self._on_unreachable, self._on_reachable = on_unreachable, on_reachable
        self._nursery = nursery

    def read_counter(self, node_id: int | None) -> HotCounter:
        """Return the counter that every connection to this node increments at each read."""
        return self._read_counters.setdefault(node_id, HotCounter())

    def connect_failed(self, node_id: int | None, error: UnreachableError) -> None:
        """Record that a connection to the node could not be opened."""
        if error.local or node_id in self._unreachable or node_id in self._suspected or self._nursery is None:
            return
        if error.timed_out:
            self._suspected.add(node_id)
            self._nursery.start_soon(self._confirm, node_id, self.read_counter(node_id).value)
        else:
            self._mark_unreachable(node_id, str(error), self._nursery)

    async def _confirm(self, node_id: int | None, reads_before: int) -> None:
        reason = ""
        try:
            await self._try_connect(node_id)
        except UnreachableError as error:
            reason = "" if error.local else str(error)
            if error.timed_out and self.read_counter(node_id).value != reads_before:
                _log.warning(
                    "a broker is slow to accept connections, but answers on others",
                    node=_name(node_id),
                    reason=reason,
                )
                reason = ""
        finally:
            self._suspected.discard(node_id)
        if reason and node_id not in self._unreachable and self._nursery is not None:
            self._mark_unreachable(node_id, reason, self._nursery)

    def _mark_unreachable(self, node_id: int | None, reason: str, nursery: trio.Nursery) -> None:
        self._unreachable.add(node_id)
        self._metrics.unreachable.set(len(self._unreachable))
        _log.warning(
            "a broker can't be reached; its port refuses clients", node=_name(node_id), reason=reason
        )
        self._on_unreachable(node_id)
        nursery.start_soon(self._retry_until_reachable, node_id)

    def is_unreachable(self, node_id: int | None) -> bool:
        """Whether the node could not be reached lately; None stands for the bootstrap brokers."""
        return node_id in self._unreachable

    async def probe(self, node_id: int | None) -> None:
        """Try to connect to a node that closed a connection, before its clients reconnect.

        All connections that were closed at the same time share one attempt.
        """
        if node_id in self._unreachable:
            return
        running = self._probes.get(node_id)
        if running is not None:
            await running.wait()
            return
        done = self._probes[node_id] = trio.Event()
        try:
            await self._try_connect(node_id)
        except UnreachableError as error:
            self.connect_failed(node_id, error)
        finally:
            del self._probes[node_id]
            done.set()

    async def _retry_until_reachable(self, node_id: int | None) -> None:
        backoff_s = _MIN_BACKOFF_S
        last_reason = ""
        while True:
            await trio.sleep(backoff_s * random.uniform(0.5, 1.0))  # noqa: S311  jitter
            backoff_s = min(backoff_s * 2, _MAX_BACKOFF_S)
            try:
                await self._try_connect(node_id)
                self._on_reachable(node_id)
            except UnreachableError as error:
                _log.debug("still unreachable", node=_name(node_id), reason=str(error))
            except BindError as error:
                if str(error) != last_reason:
                    last_reason = str(error)
                    _log.error("can't listen again", node=_name(node_id), reason=last_reason)
            else:
                break
        self._unreachable.discard(node_id)
        self._metrics.unreachable.set(len(self._unreachable))
        _log.info("a broker can be reached again", node=_name(node_id))

    async def _try_connect(self, node_id: int | None) -> None:
        dialed = await self._dialer.dial(node_id)
        await trio.aclose_forcefully(dialed.stream)


def _name(node_id: int | None) -> str:
    return "bootstrap" if node_id is None else str(node_id)
