"""Selects the node of a connection by the server name in its TLS handshake (SNI), where all nodes have one port
(``nodes_by_name``, ``bootstrap_name``, ``node_ids``).

Nothing is sent to a broker before. A client that names no node of this listener gets the alert ``unrecognized_name``
(RFC 6066) in place of a handshake. One that names a node that can't be reached is disconnected without an alert:
clients take an alert for a mistake in their settings (Java raises ``SslAuthenticationException``), and retry after a
disconnect, as after the refusal of a port (:mod:`proxy.server.broker_health`).
"""

from collections.abc import Callable, Mapping
from contextlib import suppress

import trio

from protocol_codecs.printable import printable
from proxy.metrics.registry import Metrics
from proxy.transport.tcp_stream import TcpStream
from proxy.transport.tls_errors import TlsError
from proxy.wire.client_hello import ClientHelloError, ClientHelloReader

_LONGEST_SHOWN = 100
"""Bytes of an unknown name that a message shows."""

_READ_SIZE = 16 * 1024
_DECODE_ERROR = b"\x15\x03\x03\x00\x02\x02\x32"
_UNRECOGNIZED_NAME = b"\x15\x03\x03\x00\x02\x02\x70"
"""Alerts (RFC 8446 6) as they are sent before the first answer: records that nothing encrypts."""


class ServerNames:
    """The names of one listener: the node of each, in small letters, and None for the bootstrap name."""

    def __init__(
        self, nodes: Mapping[str, int | None], is_unreachable: Callable[[int | None], bool], metrics: Metrics
    ) -> None:
        self._nodes = nodes
        self._is_unreachable = is_unreachable
        self._refused = metrics.connections_refused.labels("node_unreachable")

    async def route(self, transport: TcpStream, take_in: Callable[[bytes], bool]) -> int | None:
        """Read a client's first bytes until its ClientHello is complete, and return the node that it names.

        ``take_in`` gets all that is read.

        :raises TlsError: it sent no ClientHello, or one without a name of this listener.
        :raises trio.BrokenResourceError: the connection broke, or the node can't be reached.
        """
        hello = ClientHelloReader()
        complete = False
        while not complete:
            data = await transport.receive_some(_READ_SIZE)
            if not take_in(data):
                raise TlsError("tls_handshake", "the peer closed the connection in the TLS handshake")
            try:
                complete = hello.feed(data)
            except ClientHelloError as error:
                await _send(transport, _DECODE_ERROR)
                raise TlsError(
                    "tls_handshake", f"the TLS handshake failed: no ClientHello: {error}"
                ) from None
        name = None if hello.server_name is None else hello.server_name.decode("latin-1")
        try:
            node_id = self._nodes["" if name is None else name.lower().removesuffix(".")]
        except KeyError:
            await _send(transport, _UNRECOGNIZED_NAME)
            raise TlsError("unknown_name", f"the client {_named(name)}") from None
        if self._is_unreachable(node_id):
            self._refused.inc()
            raise trio.BrokenResourceError("the node can't be reached")
        return node_id


async def _send(transport: TcpStream, alert: bytes) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await transport.send_all(alert)


def _named(name: str | None) -> str:
    if name is None:
        return "names no server in its TLS handshake (SNI), which selects the node"
    shown = printable(name[:_LONGEST_SHOWN]) + ("…" if len(name) > _LONGEST_SHOWN else "")
    return f"names the server '{shown}' in its TLS handshake (SNI), which is no name of this listener"
