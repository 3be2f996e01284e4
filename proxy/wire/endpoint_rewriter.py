"""Rewrites the broker addresses in responses that have them behind all records (node endpoints, KIP-951).

When a partition has moved, the broker names its new leader's address at the very end of the response. Clients that
connect there walk past the proxy (grepplabs/kafka-proxy 223). So the response is walked through while it is passed on
in pieces (:mod:`proxy.wire.response_walks`); only its tail is held back until it is complete.

- If the response arrived in one piece, the addresses are replaced.
- If it is larger, its size went out before its tail was seen, and the length may not change. Then they are hidden
  (:mod:`proxy.wire.node_endpoints`).
"""

import struct

from protocol_codecs import ApiKey, MalformedMessage
from proxy.wire import node_endpoints
from proxy.wire.broker_addresses import MapAddress
from proxy.wire.frame_splitter import Piece
from proxy.wire.node_endpoints import TailError
from proxy.wire.response_walks import START, WALKS

FIRST_VERSION: dict[int, int] = {
    ApiKey.PRODUCE: 10,
    ApiKey.FETCH: 16,
    ApiKey.SHARE_FETCH: 1,
    ApiKey.SHARE_ACKNOWLEDGE: 1,
}
"""From which version on responses may carry node endpoints."""

_MOST_HELD = 256 * 1024
"""Bytes that are held back of one response at most: addresses of some thousand brokers."""

_SIZE = struct.Struct(">i")


class EndpointRewriter:
    """Edits one response. ``rewrite`` takes its pieces in order and gives what is to be passed on for each.

    ``walk`` knows what was seen on the way, once the last piece has passed.
    """

    def __init__(self, api_key: int, version: int, map_address: MapAddress) -> None:
        self.walk = WALKS[api_key](version)
        self._api_key = api_key
        self._version = version
        self._map_address = map_address
        self._held = b""  # bytes of the frame that were not given out
        self._skip = START  # bytes still to come before the next step

    @property
    def passthrough_bytes(self) -> int:
        """How many of the next bytes are passed on whatever they are, if more follow them."""
        return self._skip

    def skipped(self, n: int) -> None:
        """So many of them were passed on without :meth:`rewrite`."""
        self._skip -= n

    def rewrite(self, piece: Piece) -> bytes:
        """What the client gets for this piece.

        :raises MalformedMessage: the response is not what its version says.
        """
        if self._skip >= len(piece.data) and not piece.last:
            self._skip -= len(piece.data)
            return piece.data
        window = self._held + piece.data if self._held else piece.data
        at, self._skip = self.walk.advance(window, self._skip), 0
        if not piece.last:
            self._held = window[at:]
            if len(self._held) > _MOST_HELD:
                raise self._malformed(f"more than {_MOST_HELD} bytes that belong together")
            self._skip = max(0, at - len(window))
            return window[:at]
        if not self.walk.ended or at > len(window):
            raise self._malformed("the frame ends within the topics")
        try:
            return self._replaced(window, at) if piece.first else self._hidden(window, at)
        except TailError as error:
            raise self._malformed(str(error)) from None

    def _replaced(self, frame: bytes, at: int) -> bytes:
        """The frame with the addresses that clients are told, and its size made right."""
        tail = frame[at:]
        told = node_endpoints.replace(self._api_key, tail, self._map_address)
        if told is tail:
            return frame
        body = frame[_SIZE.size : at] + told
        return _SIZE.pack(len(body)) + body

    def _hidden(self, window: bytes, at: int) -> bytes:
        return window[:at] + node_endpoints.hide(self._api_key, window[at:])

    def _malformed(self, reason: str) -> MalformedMessage:
        name = "".join(word.title() for word in ApiKey(self._api_key).name.split("_"))
        return MalformedMessage(f"{name}Response", self._version, "node_endpoints", 0, reason)
