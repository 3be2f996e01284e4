"""Handles a broker's responses on one connection: bytes in, bytes for the client out.

Most responses go to the client as their bytes arrive. Those that have to be rewritten wait here until they are whole,
and those to injected requests go to whoever sent the request. A response of the proxy itself waits until the client has
those before it.
"""

from protocol_codecs import CodecError
from proxy.session.core import SessionCore
from proxy.session.errors import UpstreamError
from proxy.session.in_flight import InFlightRequest, UnexpectedResponseError
from proxy.session.request_checks import check_decodable, check_token
from proxy.session.sasl import BEFORE_AUTHENTICATION
from proxy.session.session_state import ClientState
from proxy.wire.frame_splitter import RESPONSE_HEAD, FrameError, FrameSplitter, Piece

_GONE = ClientState.GONE
_LARGEST_RESPONSE = 2**31 - 1


class Responses:
    """Handles the responses on one session's upstream connection."""

    def __init__(self, core: SessionCore) -> None:
        self._to_client = core.to_client
        self.trusted = False
        """Whether the broker has answered an ordinary request, and so has let the client in."""
        self._state = core.state
        self._in_flight = core.in_flight
        self._sasl = core.sasl
        self._listener = core.listener
        self._frames = FrameSplitter(_LARGEST_RESPONSE, RESPONSE_HEAD)
        self._current: InFlightRequest | None = None  # whose response is arriving in pieces
        self._collecting: bytearray | None = None  # a large response to be rewritten or decoded

    def flush_ready(self) -> None:
        """Give the client the proxy's own responses that are next in order."""
        client = self._in_flight.client
        while client and (response := client[0].response) is not None:
            client.popleft()
            self._pass_to_client(response)

    def receive(self, data: bytes) -> None:
        """Take what was read from the broker.

        :raises UpstreamError: the broker sent something that ends the connection.
        """
        self._frames.feed(data)
        try:
            while self._frames.buffered:
                if (piece := self._frames.next_piece()) is None:
                    return
                if piece.first:
                    self._begin(piece)
                else:
                    self._continue(piece)
        except FrameError as error:
            raise UpstreamError(error.kind, f"the broker sent {error}") from error
        except UnexpectedResponseError as error:
            raise UpstreamError("correlation", f"the broker sent {error}") from error
        except CodecError as error:
            raise UpstreamError("malformed_response", f"the broker sent a {error}") from error

    # -- bytes that may be spliced -------------------------------------------------------------------------

    def passthrough_bytes(self) -> int:
        """Return how many of the broker's next bytes may be spliced to the client."""
        entry = self._current
        if entry is None or self._collecting is not None or self._state.client is _GONE:
            return 0
        if entry.tap is not None:
            return 0
        passthrough_bytes = self._frames.unfed_bytes
        if entry.endpoint_rewriter is None:
            return passthrough_bytes
        return max(0, min(passthrough_bytes - 1, entry.endpoint_rewriter.passthrough_bytes))

    def trailing_bytes(self) -> int:
        """Return how many bytes of the same response follow those, and have to be read."""
        return self._frames.unfed_bytes - self.passthrough_bytes()

    def spliced(self, n: int) -> None:
        """``n`` of the :meth:`passthrough_bytes` were spliced to the client."""
        entry = self._current
        assert entry is not None  # noqa: S101  passthrough_bytes was not 0
        self._frames.skip(n)
        if entry.endpoint_rewriter is not None:
            entry.endpoint_rewriter.skipped(n)
        if not self._frames.in_frame:
            self._current = None
            self._completed(entry, self._frames.frame_size)

    # -- pieces --------------------------------------------------------------------------------------------

    def _begin(self, piece: Piece) -> None:
        if self._sasl.headerless and self._sasl.expects_uncounted_tokens and not self._in_flight.upstream:
            check_token(piece, self._listener.limits)  # a token without a header, and for no request
            self._pass_to_client(piece.data)
            return
        entry = self._in_flight.expected(piece.data)
        if entry.rewrite is None and entry.on_response is None:
            self._pass_on(entry, piece)
            if not piece.last:
                self._current = entry
        elif piece.last:
            self._take_whole(entry, piece.data)
        else:
            check_decodable(piece, self._listener.limits, trusted=self.trusted)
            self._current = entry
            self._collecting = bytearray(piece.data)

    def _continue(self, piece: Piece) -> None:
        entry = self._current
        if entry is None:  # a large SASL token
            self._pass_to_client(piece.data)
        elif self._collecting is None:
            if piece.last:
                self._current = None
            self._pass_on(entry, piece)
        else:
            self._collecting += piece.data
            if piece.last:
                frame = bytes(self._collecting)
                self._collecting = self._current = None
                self._take_whole(entry, frame)

    def _pass_on(self, entry: InFlightRequest, piece: Piece) -> None:
        if self._state.client is not _GONE:
            self._to_client.append(
                piece.data if entry.endpoint_rewriter is None else entry.endpoint_rewriter.rewrite(piece)
            )
        if entry.tap is not None:
            entry.tap.take(piece.data, last=piece.last)
        if piece.last:
            self._completed(entry, piece.frame_size)

    def _take_whole(self, entry: InFlightRequest, frame: bytes) -> None:
        if entry.on_response is not None:
            self._in_flight.answered(entry)
            self._listener.request_metrics.call_returned(entry, self._listener.clock())
            if entry.api_key not in BEFORE_AUTHENTICATION:
                self.trusted = True
            entry.on_response(frame)
            return
        rewritten = frame if entry.rewrite is None else entry.rewrite(frame)
        self._pass_to_client(rewritten)
        if entry.tap is not None:
            entry.tap.take(rewritten, last=True)
        self._completed(entry, len(frame))

    def _completed(self, entry: InFlightRequest, size: int) -> None:
        self._in_flight.answered(entry)
        if entry.api_key not in BEFORE_AUTHENTICATION:
            self.trusted = True
        self._listener.request_metrics.response(entry, size, self._listener.clock())
        if entry.on_passed is not None:
            entry.on_passed()
        if self._in_flight.client:
            self.flush_ready()

    def _pass_to_client(self, data: bytes) -> None:
        if self._state.client is not _GONE:
            self._to_client.append(data)
