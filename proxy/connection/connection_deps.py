"""What the connections of one listener need of the process."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec
import trio

from proxy.connection.share_session_cuts import ShareSessionCuts
from proxy.connection.translator_driver import TranslatorDriver
from proxy.metrics.counters import HotCounter
from proxy.session.listener import Listener
from proxy.transport.dialer import Dialed, Dialer, UnreachableError
from proxy.transport.splice import PipePool

if TYPE_CHECKING:
    from proxy.wire.sasl_login import Login


class Speaker(Protocol):
    """Speaks for one client with a certificate, as :class:`proxy.identity.speaker.CertificateSpeaker` does."""

    async def dial(self, node_id: int | None) -> Dialed:
        """Connect as :meth:`proxy.transport.dialer.Dialer.dial` does, and authenticate as the client's principal.

        :raises UnreachableError: no broker accepted the connection.
        :raises ClientError: the proxy may not speak for the client any more.
        :raises UpstreamError: the broker refuses to authenticate it.
        """
        ...

    async def login(self) -> "tuple[str, Login]":
        """Return the mechanism and the tokens of another authentication of the same principal.

        :raises ClientError: the proxy may not speak for it any more.
        :raises NoPrincipalError: nor will it later.
        """
        ...

    def authenticated_again(self, pause_s: float) -> None:
        """Count an authentication in the middle of a connection, which took this long."""
        ...

    def lifetime_of(self, lifetime_s: float | None) -> float | None:
        """Return how many seconds a session lives that began now; the broker's answer, or less."""
        ...

    def close(self) -> None:
        """The client's connection has ended."""
        ...


Identify = Callable[[trio.abc.Stream], Speaker | None]
"""Returns who speaks for the client of this stream, after its TLS handshake; None if it authenticates itself.

Raises ClientError for a client that nobody speaks for."""


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
    identify: Identify | None = None
    by_name: bool = False
    """Whether the TLS handshake selects the node, and not the port."""
