"""Which nodes can be reached. A node that can't be is retried with backoff and jitter until it can.

A client of a broker that is away is refused: its connection attempt fails, and it turns to another broker or tries
again. A proxy that took the connection and closed it would look like a broker that fails in the middle of a
request, which clients take worse (kafka-python 3 raises it to the application). So while a node can't be
reached, its port is not there.

A node that is merely slow to take a connection keeps its port: thousands of clients that come together can fill its
queue for a while, and this process may be too busy itself to see the answer in time. Such a node counts as away only
when a second attempt fails too and nothing was heard from it on any other connection meanwhile. Nor is a node away
because this process has nothing left to connect with.
"""

import random
from collections.abc import Callable

import structlog
import trio

from proxy.cluster.dialer import Dialer, UnreachableError
from proxy.metrics.counters import HotCounter
from proxy.metrics.registry import Metrics
from proxy.transport.listeners import BindError

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.cluster.broker_health")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0

Tell = Callable[[int | None], None]
"""Takes a node id; None is the bootstrap."""


class Reachability:
    """Watches nodes that failed. ``lost`` and ``found`` are called when a node can't be, and can be, reached."""

    def __init__(self, dialer: Dialer, metrics: Metrics, *, lost: Tell, found: Tell) -> None:
        self._dialer = dialer
        self._metrics = metrics
        self._lost = lost
        self._found = found
        self._away: set[int | None] = set()
        self._checks: dict[int | None, trio.Event] = {}
        self._doubted: set[int | None] = set()
        self._heard: dict[int | None, HotCounter] = {}
        self._nursery: trio.Nursery | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """Watch in the tasks of this nursery from now on."""
        self._nursery = nursery

    def heard(self, node_id: int | None) -> HotCounter:
        """Counts what is read from a node, on whichever connection; who reads adds to it."""
        return self._heard.setdefault(node_id, HotCounter())

    def failed(self, node_id: int | None, error: UnreachableError) -> None:
        """A connection to the node could not be opened."""
        if error.own or node_id in self._away or node_id in self._doubted or self._nursery is None:
            return
        if error.slow:
            self._doubted.add(node_id)
            self._nursery.start_soon(self._look_again, node_id, self.heard(node_id).value)
        else:
            self._take_away(node_id, str(error), self._nursery)

    async def _look_again(self, node_id: int | None, heard_before: int) -> None:
        reason = ""
        try:
            await self._attempt(node_id)
        except UnreachableError as error:
            reason = "" if error.own else str(error)
            if error.slow and self.heard(node_id).value != heard_before:
                _log.warning(
                    "a broker is slow to take connections, but answers on others",
                    node=_name(node_id),
                    reason=reason,
                )
                reason = ""
        finally:
            self._doubted.discard(node_id)
        if reason and node_id not in self._away and self._nursery is not None:
            self._take_away(node_id, reason, self._nursery)

    def _take_away(self, node_id: int | None, reason: str, nursery: trio.Nursery) -> None:
        self._away.add(node_id)
        self._metrics.unreachable.set(len(self._away))
        _log.warning(
            "a broker can't be reached; its port refuses clients", node=_name(node_id), reason=reason
        )
        self._lost(node_id)
        nursery.start_soon(self._watch, node_id)

    async def check(self, node_id: int | None) -> None:
        """See whether a node that closed a connection is still there; its clients are about to come again.

        Any number of connections that were closed at the same time share one attempt.
        """
        if node_id in self._away:
            return
        under_way = self._checks.get(node_id)
        if under_way is not None:
            await under_way.wait()
            return
        done = self._checks[node_id] = trio.Event()
        try:
            await self._attempt(node_id)
        except UnreachableError as error:
            self.failed(node_id, error)
        finally:
            del self._checks[node_id]
            done.set()

    async def _watch(self, node_id: int | None) -> None:
        pause_s = _FIRST_PAUSE_S
        said = ""
        while True:
            await trio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311  jitter
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            try:
                await self._attempt(node_id)
                self._found(node_id)
            except UnreachableError as error:
                _log.debug("still away", node=_name(node_id), reason=str(error))
            except BindError as error:
                if str(error) != said:
                    said = str(error)
                    _log.error("can't listen again", node=_name(node_id), reason=said)
            else:
                break
        self._away.discard(node_id)
        self._metrics.unreachable.set(len(self._away))
        _log.info("a broker can be reached again", node=_name(node_id))

    async def _attempt(self, node_id: int | None) -> None:
        dialed = await self._dialer.dial(node_id)
        await trio.aclose_forcefully(dialed.stream)


def _name(node_id: int | None) -> str:
    return "bootstrap" if node_id is None else str(node_id)
