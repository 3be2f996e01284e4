"""What a broker answers on one connection, on its way to the client: bytes in and bytes out.

Most responses are passed on as their bytes arrive. Some are edited or read first, and wait here until they are whole;
those to requests of the proxy go to whoever asked. Responses that the proxy makes itself wait in the ledger for the
ones before them.
"""

from protocol_codecs import CodecError
from proxy.session.in_flight import Exchange, Ledger, UnexpectedResponseError
from proxy.session.listener_context import Terms, UpstreamError, check_decodable, check_token
from proxy.session.sasl import BEFORE_AUTHENTICATION, Authentication
from proxy.wire.frame_splitter import RESPONSE_HEAD, FrameError, FrameSplitter, Piece

_LARGEST_RESPONSE = 2**31 - 1


class Responses:
    """See the module. ``ledger`` says what was asked, ``sasl`` whether a token without a header may come."""

    def __init__(self, ledger: Ledger, sasl: Authentication, terms: Terms) -> None:
        self.to_client: list[bytes] = []
        """Bytes to be written to the client, in order; the shell takes them out."""
        self.trusted = False
        """Whether the broker has answered an ordinary request, so that its client is one that it lets in."""
        self.client_open = True
        """Whether there is still a client; set by :meth:`client_closed`."""
        self._ledger = ledger
        self._sasl = sasl
        self._terms = terms
        self._frames = FrameSplitter(_LARGEST_RESPONSE, RESPONSE_HEAD)
        self._current: Exchange | None = None  # whose response is arriving in pieces
        self._collecting: bytearray | None = None  # a large response to be edited or read

    def client_closed(self) -> None:
        """The client is gone: what is answered from now on is dropped."""
        self.client_open = False
        self.to_client.clear()

    def flush_ready(self) -> None:
        """Give the client what the proxy answers itself and nothing stands before any more."""
        client = self._ledger.client
        while client and (response := client[0].response) is not None:
            client.popleft()
            self._give(response)

    def receive(self, data: bytes) -> None:
        """Take what was read from the broker.

        :raises UpstreamError: it ends the connection.
        """
        self._frames.feed(data)
        try:
            while self._frames.buffered:
                if (piece := self._frames.next_piece()) is None:
                    return
                if piece.first:
                    self._begin(piece)
                else:
                    self._go_on(piece)
        except FrameError as error:
            raise UpstreamError(error.kind, f"the broker sent {error}") from error
        except UnexpectedResponseError as error:
            raise UpstreamError("correlation", f"the broker sent {error}") from error
        except CodecError as error:
            raise UpstreamError("malformed_response", f"the broker sent a {error}") from error

    # -- bytes that need not come here ---------------------------------------------------------------------

    def passthrough_bytes(self) -> int:
        """Bytes that the broker will send next and that go to the client whatever they are."""
        exchange = self._current
        if exchange is None or self._collecting is not None or not self.client_open:
            return 0
        if exchange.watched is not None:
            return 0
        passthrough_bytes = self._frames.unfed_bytes
        if exchange.endpoints is None:
            return passthrough_bytes
        return max(0, min(passthrough_bytes - 1, exchange.endpoints.passthrough_bytes))

    def trailing_bytes(self) -> int:
        """Bytes of the same response that follow those, and come here."""
        return self._frames.unfed_bytes - self.passthrough_bytes()

    def spliced(self, n: int) -> None:
        """``n`` of the :meth:`passthrough_bytes` went to the client past this."""
        exchange = self._current
        assert exchange is not None  # noqa: S101  there was something to move
        self._frames.skip(n)
        if exchange.endpoints is not None:
            exchange.endpoints.skipped(n)
        if not self._frames.in_frame:
            self._current = None
            self._completed(exchange, self._frames.frame_size)

    # -- pieces --------------------------------------------------------------------------------------------

    def _begin(self, piece: Piece) -> None:
        if self._sasl.bare and self._sasl.tokens_unasked and not self._ledger.upstream:
            check_token(piece, self._terms.limits)  # without a header, and nobody counted it
            self._give(piece.data)
            return
        exchange = self._ledger.expected(piece.data)
        if exchange.edit is None and exchange.receive is None:
            self._pass_on(exchange, piece)
            if not piece.last:
                self._current = exchange
        elif piece.last:
            self._take_whole(exchange, piece.data)
        else:
            check_decodable(piece, self._terms.limits, trusted=self.trusted)
            self._current = exchange
            self._collecting = bytearray(piece.data)

    def _go_on(self, piece: Piece) -> None:
        exchange = self._current
        if exchange is None:  # a large token of SASL
            self._give(piece.data)
        elif self._collecting is None:
            if piece.last:
                self._current = None
            self._pass_on(exchange, piece)
        else:
            self._collecting += piece.data
            if piece.last:
                frame = bytes(self._collecting)
                self._collecting = self._current = None
                self._take_whole(exchange, frame)

    def _pass_on(self, exchange: Exchange, piece: Piece) -> None:
        if self.client_open:
            self.to_client.append(
                piece.data if exchange.endpoints is None else exchange.endpoints.rewrite(piece)
            )
        if exchange.watched is not None:
            exchange.watched.take(piece.data, last=piece.last)
        if piece.last:
            self._completed(exchange, piece.frame_size)

    def _take_whole(self, exchange: Exchange, frame: bytes) -> None:
        if exchange.receive is not None:
            self._ledger.answered(exchange)
            self._terms.meter.call_returned(exchange, self._terms.clock())
            if exchange.api_key not in BEFORE_AUTHENTICATION:
                self.trusted = True
            exchange.receive(frame)
            return
        told = frame if exchange.edit is None else exchange.edit(frame)
        self._give(told)
        if exchange.watched is not None:
            exchange.watched.take(told, last=True)
        self._completed(exchange, len(frame))

    def _completed(self, exchange: Exchange, size: int) -> None:
        self._ledger.answered(exchange)
        if exchange.api_key not in BEFORE_AUTHENTICATION:
            self.trusted = True
        self._terms.meter.response(exchange, size, self._terms.clock())
        if self._ledger.client:
            self.flush_ready()

    def _give(self, data: bytes) -> None:
        if self.client_open:
            self.to_client.append(data)
