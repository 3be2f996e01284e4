"""Negotiates the API versions of one connection (ApiVersions, KIP-511), also for a client that never asks, and
describes the connection to the translation.

Both follow from the broker's ApiVersions response: to the client's own request, or to one that the proxy sends for a
client that never asks.
"""

from collections.abc import Callable

from msgspec.structs import replace

from protocol_codecs import CodecError, decode_bounded, encode
from protocol_codecs.messages.api_versions import NODE_FROM, ApiVersionsRequest
from proxy.session.errors import UpstreamError
from proxy.session.listener import Listener
from proxy.wire import api_versions
from proxy.wire.api_versions import NegotiatedVersions, Ranges
from proxy.wire.frame_splitter import Piece
from proxy.wire.request_header import HeaderError, RequestHeader, body_offset
from translation.actions import Connection, ConnectionId

_SIZE_BYTES = 4


class Negotiation:
    """The versions of one connection. ``on_change`` is called when a response of the broker has changed them.

    ``connection_id``, ``client_host`` and ``peer_closed`` go to the translation in
    :class:`translation.actions.Connection`.
    """

    def __init__(
        self,
        listener: Listener,
        connection_id: ConnectionId,
        client_host: str,
        peer_closed: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        self.ranges: Ranges = listener.negotiator.default_ranges
        """The versions that the client may use."""
        self.connection = Connection(connection_id, client_host, {}, peer_closed=peer_closed)
        """What the translation knows of the connection; it has no versions until the broker has named them."""
        self.stand_in = False
        """Whether the upstream connection leads to a bootstrap broker, because the node's address is not known yet."""
        self._listener = listener
        self._negotiator = listener.negotiator
        self._on_change = on_change
        self._software = ""

    def withhold_authentication(self) -> None:
        """Offer the client no API of authentication from the start: the proxy authenticates in its place."""
        self._negotiator = self._negotiator.for_authenticated
        self.ranges = self._negotiator.default_ranges

    def note_software(self, header: RequestHeader, piece: Piece) -> None:
        """Remember the software name in an ApiVersions request; ignore what can't be read."""
        if header.version < api_versions.SOFTWARE_FROM:
            return
        if (message := self._read(header, piece)) is not None:
            self._software = api_versions.software(message)

    def for_any_node(self, header: RequestHeader, piece: Piece) -> Piece:
        """Return the client's ApiVersions request as the broker gets it: without the node that it names since v5 if
        another broker stands in for that one, which would refuse it as a wrong route (KIP-1242).
        """
        if not self.stand_in or header.version < NODE_FROM:
            return piece
        if (message := self._read(header, piece)) is None:
            return piece
        head = piece.data[_SIZE_BYTES : body_offset(piece.data, header)]
        rest = head + encode(replace(message, cluster_id=None, node_id=-1), header.version)
        frame = len(rest).to_bytes(_SIZE_BYTES, "big") + rest
        return Piece(frame, first=True, last=True, frame_size=len(frame))

    def _read(self, header: RequestHeader, piece: Piece) -> ApiVersionsRequest | None:
        """An ApiVersions request; None if it can't be read."""
        if not piece.last:
            return None
        try:
            offset = body_offset(piece.data, header)
            max_elements = self._listener.limits.group_call_max_elements
            message, _ = decode_bounded(ApiVersionsRequest, header.version, piece.data, offset, max_elements)
        except (CodecError, HeaderError):
            return None
        return message

    def rewrite(self, version: int, frame: bytes) -> bytes:
        """Return the client's response for the broker's ApiVersions response ``frame`` in this version.

        :raises MalformedMessage: the frame is not an ApiVersions response.
        """
        return api_versions.answer(self._learn(version, frame), version, frame)

    def learn(self, frame: bytes) -> None:
        """Learn from the response to the proxy's own request.

        :raises UpstreamError: the broker names no versions.
        :raises MalformedMessage: the frame is not an ApiVersions response.
        """
        if not self._learn(api_versions.LEARNING_VERSION, frame).broker:
            raise UpstreamError("api_versions", "the broker refused to name its versions")

    def _learn(self, version: int, frame: bytes) -> NegotiatedVersions:
        negotiated = self._negotiator.negotiate(version, frame)
        if negotiated.broker:
            self.ranges = negotiated.client
            self.connection = replace(self.connection, versions=negotiated.broker, software=self._software)
            self._on_change()
        return negotiated
