"""The ports of a supervisor: it accepts connections there and passes each to the worker of its client."""

import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count

import structlog
import trio

from proxy.config.network import matched
from proxy.config.schema import Address, Listener
from proxy.metrics.registry import Metrics
from proxy.transport.listeners import AcceptPort, BindError, BoundListener, PortBinder
from proxy.workers.control_messages import ListenerPorts, PortKey

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")

_LISTEN_RETRY_S = 1.0

HandOver = Callable[[PortKey, socket.socket, str], None]
"""Passes on a connection that came to this port from this host."""


class SupervisorPorts:
    """The listeners of the supervisor, in the order of the configuration. Their ports are bound, and listen later.

    :raises BindError: a port is taken or not allowed.
    """

    def __init__(self, listeners: Sequence[Listener], metrics: Metrics, undo: ExitStack) -> None:
        self._binder = PortBinder(metrics)
        self._keys = count()
        self._key_of: dict[AcceptPort, PortKey] = {}
        self._suspended: set[AcceptPort] = set()
        self._changed = trio.Event()
        self.listeners: tuple[BoundListener, ...] = ()
        self._nursery: trio.Nursery | None = None
        self._hand_over: HandOver
        self.replace(self.bind(listeners, undo))

    def bind(self, listeners: Sequence[Listener], undo: ExitStack) -> tuple[BoundListener, ...]:
        """Return these listeners, which share the ports of before; ``undo`` closes the new ones.

        :raises BindError: a port is taken or not allowed.
        """
        found = []
        before = matched([one.listener for one in self.listeners], listeners)
        for listener, place in zip(listeners, before, strict=True):
            found.append(self._binder.bind(listener, None if place is None else self.listeners[place]))
            for port in found[-1].ports.values():
                if port not in self._key_of:
                    self._key_of[port] = next(self._keys)
                    undo.callback(self._close, port)
        return tuple(found)

    def of(self, listeners: Sequence[BoundListener]) -> list[ListenerPorts]:
        """Return the ports of these listeners, for workers."""
        return [
            [(node_id, self._key_of[port], port.number) for node_id, port in one.ports.items()]
            for one in listeners
        ]

    def listen(self, listeners: Sequence[BoundListener]) -> None:
        """Have the ports of these listeners listen, but for those that refuse clients by now.

        :raises BindError: another process has taken a port meanwhile.
        """
        for one in listeners:
            for port in one.ports.values():
                if port not in self._suspended:
                    port.listen()

    def start(self, nursery: trio.Nursery, hand_over: HandOver) -> None:
        """Accept clients.

        :raises BindError: another process has taken a port meanwhile.
        """
        self.listen(self.listeners)
        self._nursery, self._hand_over = nursery, hand_over
        self._accept(self.listeners, frozenset())

    def replace(self, listeners: tuple[BoundListener, ...]) -> None:
        """Have these and no others; what came of :meth:`bind`, and listens if clients are accepted."""
        before, self.listeners = self.listeners, listeners
        had = {port for one in before for port in one.ports.values()}
        for port in had - {port for one in listeners for port in one.ports.values()}:
            self._close(port)
        for one in listeners:
            self._binder.applied(one)
        if self._nursery is not None:
            self._accept(listeners, had)

    def close(self) -> None:
        """Refuse all clients."""
        for one in self.listeners:
            one.close()

    def _close(self, port: AcceptPort) -> None:
        port.close()
        del self._key_of[port]
        self._suspended.discard(port)

    def _accept(self, listeners: Sequence[BoundListener], had: Collection[AcceptPort]) -> None:
        assert self._nursery is not None  # noqa: S101  who calls has looked
        for one in listeners:
            new = [port for port in one.ports.values() if port not in had]
            for port in new:
                accepted = partial(self._hand_over, self._key_of[port])
                self._nursery.start_soon(port.accept, accepted)
            if one.ports[None] in new:
                _log.info("listening", address=str(Address(one.listener.bind, one.port)))

    # -- nodes that can't be reached -----------------------------------------------------------------------

    def changed(self) -> None:
        """A worker can reach a node again, or not any more."""
        self._changed.set()

    async def sync(self, down: Callable[[], Collection[PortKey]]) -> None:
        """Refuse clients on the ports that are ``down`` at any worker, as a single process would."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            keys = down()
            are_down = {port for port, key in self._key_of.items() if key in keys}
            for port in are_down - self._suspended:
                port.suspend()
            still_down: set[AcceptPort] = set()
            for port in self._suspended - are_down:
                try:
                    port.listen()
                except BindError as error:
                    _log.error("can't listen again", reason=str(error))
                    still_down.add(port)
            self._suspended = are_down | still_down
            if still_down:
                await trio.sleep(_LISTEN_RETRY_S)
                self._changed.set()
