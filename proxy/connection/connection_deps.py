"""What the connections of one listener need of the process."""

from typing import Protocol

import msgspec

from proxy.connection.share_session_cuts import ShareSessionCuts
from proxy.connection.translator_driver import TranslatorDriver
from proxy.metrics.counters import HotCounter
from proxy.session.listener import Listener
from proxy.transport.dialer import Dialer, UnreachableError
from proxy.transport.splice import PipePool


class NodeHealth(Protocol):
    """Tracks which nodes can be reached, as :class:`proxy.server.broker_health.BrokerHealth` does."""

    def connect_failed(self, node_id: int | None, error: UnreachableError) -> None:
        """Record that a connection to the node could not be opened."""
        ...

    def read_counter(self, node_id: int | None) -> HotCounter:
        """Return the counter that every connection to this node increments at each read."""
        ...

    async def probe(self, node_id: int | None) -> None:
        """Try to connect to a node that closed a connection, before its clients reconnect."""
        ...


class ConnectionDeps(msgspec.Struct, frozen=True):
    """The parts of the process that each connection of a ``listener`` uses."""

    listener: Listener
    dialer: Dialer
    broker_health: NodeHealth
    driver: TranslatorDriver
    pipes: PipePool
    share_session_cuts: ShareSessionCuts
