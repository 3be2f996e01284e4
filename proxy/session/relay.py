"""Relays a client's requests to the broker (all but translated group calls), and attaches what changes or reads their
responses.

Most responses pass through untouched. A rewriter changes those with broker addresses or versions; a tap reads those
with group members or topic names while they pass through.
"""

from protocol_codecs import ApiKey, ErrorCode, decode
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateResponse
from proxy.session.core import SessionCore, new_request_id
from proxy.session.events import GroupCallPassed
from proxy.session.in_flight import InFlightRequest, Origin
from proxy.session.injected_requests import InjectedRequests
from proxy.session.negotiation import Negotiation
from proxy.session.response_tap import (
    TOPIC_IDS_FROM,
    ResponseTap,
    decode_group_call,
    tap_group_call,
    tap_topic_names,
)
from proxy.session.session_state import RequestEvent
from proxy.wire import endpoint_rewriter
from proxy.wire.broker_addresses import CARRYING_ADDRESSES, rewrite_addresses
from proxy.wire.endpoint_rewriter import EndpointRewriter
from proxy.wire.frame_splitter import Piece
from proxy.wire.framing import response_body_offset
from proxy.wire.request_header import RequestHeader, expects_response
from proxy.wire.response_walks import ShareWalk
from proxy.wire.share_requests import read_share_request
from translation.actions import Request
from translation.passthrough.observer import OBSERVED, OBSERVED_WHEN_FORWARDED

# What each request is compared with. Bound once: Python 3.11 looks for a member of an enum for as long as a small
# message takes to be decoded.
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_HEARTBEAT = int(ApiKey.HEARTBEAT)
_METADATA = int(ApiKey.METADATA)
_PRODUCE = int(ApiKey.PRODUCE)
_SASL_AUTHENTICATE = int(ApiKey.SASL_AUTHENTICATE)
_RELAYED = Origin.RELAYED

_REWRITTEN_OR_TAPPED = (
    {_API_VERSIONS, _METADATA, _SASL_AUTHENTICATE}
    | endpoint_rewriter.FIRST_VERSION.keys()
    | CARRYING_ADDRESSES
    | OBSERVED
)
"""The APIs whose responses are rewritten or tapped, in some versions at least."""


class Relay:
    """The relayed requests of one session."""

    def __init__(self, core: SessionCore, negotiation: Negotiation, injected: InjectedRequests) -> None:
        self._core = core
        self._listener = core.listener
        self._negotiation = negotiation
        self._injected = injected

    def request(self, header: RequestHeader, piece: Piece) -> None:
        """Relay the first piece of a request.

        :raises HeaderError: it is a Produce request that ends too early.
        """
        api_key = header.api_key
        listener = self._listener
        listener.request_metrics.relayed(api_key, header.version, piece.frame_size)
        if api_key != _PRODUCE or expects_response(piece.data, header):
            entry = InFlightRequest(
                _RELAYED, api_key, header.version, header.correlation_id, listener.clock()
            )
            if api_key in _REWRITTEN_OR_TAPPED:
                self._attach_rewriter(entry, header, piece)
                self._attach_tap(entry, header, piece)
            self._core.in_flight.relay(entry)
        self._core.to_upstream.append(piece.data)
        if not piece.last:
            self._core.state.on_request(RequestEvent.RELAY_STARTED)
        elif self._injected.pending:
            self._injected.send_next()

    def heartbeat(self, header: RequestHeader, piece: Piece, tap: ResponseTap) -> None:
        """Relay a repeated Heartbeat that the translation is sure to forward, without handing it to the translation."""
        listener = self._listener
        listener.request_metrics.relayed(_HEARTBEAT, header.version, piece.frame_size, decoded=True)
        self._core.in_flight.relay(
            InFlightRequest(
                _RELAYED, _HEARTBEAT, header.version, header.correlation_id, listener.clock(), tap=tap
            )
        )
        self._core.to_upstream.append(piece.data)
        if self._injected.pending:
            self._injected.send_next()

    def token(self, piece: Piece, *, expects_token: bool) -> None:
        """Relay a SASL token without a header; it counts as the SaslAuthenticate that it would be later."""
        listener = self._listener
        if expects_token:
            self._core.in_flight.relay(
                InFlightRequest(_RELAYED, _SASL_AUTHENTICATE, 0, 0, listener.clock(), headerless=True)
            )
        listener.request_metrics.relayed(_SASL_AUTHENTICATE, 0, piece.frame_size)
        self._core.to_upstream.append(piece.data)
        if not piece.last:
            self._core.state.on_request(RequestEvent.RELAY_STARTED)

    def next_piece(self, piece: Piece) -> None:
        """Relay another piece of the same request."""
        self._core.to_upstream.append(piece.data)
        if piece.last:
            self.completed()

    def completed(self) -> None:
        """The broker has the whole of the request that was relayed in pieces."""
        self._core.state.on_request(RequestEvent.LAST_PIECE)
        self._injected.send_next()

    def tap(self, entry: InFlightRequest, request: Request) -> None:
        """Return a group call that passes through to the shell as an event, and its response as another."""
        events = self._core.events
        if request.api_key in OBSERVED_WHEN_FORWARDED:
            events.append(GroupCallPassed(request, None))
        entry.tap = tap_group_call(
            request,
            lambda response: events.append(GroupCallPassed(request, response)),
            self._listener.limits.group_call_max_elements,
        )

    def _attach_rewriter(self, entry: InFlightRequest, header: RequestHeader, piece: Piece) -> None:
        api_key, version, map_address = entry.api_key, entry.version, self._listener.map_address
        if (first := endpoint_rewriter.FIRST_VERSION.get(api_key)) is not None:
            if version >= first:
                entry.endpoint_rewriter = rewriter = EndpointRewriter(api_key, version, map_address)
                if isinstance(rewriter.walk, ShareWalk):
                    self._follow_share_session(entry, header, piece, rewriter.walk)
        elif api_key in CARRYING_ADDRESSES:
            known_nodes, learn_cluster = self._listener.known_nodes, self._listener.learn_cluster
            entry.rewrite = lambda frame: rewrite_addresses(
                api_key, version, frame, map_address, known_nodes, learn_cluster
            )
        elif api_key == _API_VERSIONS:
            self._negotiation.note_software(header, piece)
            entry.rewrite = lambda frame: self._negotiation.rewrite(version, frame)
        elif api_key == _SASL_AUTHENTICATE:
            started = entry.started
            entry.rewrite = lambda frame: self._authenticated(version, started, frame)

    def _attach_tap(self, entry: InFlightRequest, header: RequestHeader, piece: Piece) -> None:
        if header.api_key in OBSERVED:
            connection = self._negotiation.connection
            if connection.versions and piece.last:
                max_elements = self._listener.limits.group_call_max_elements
                request = decode_group_call(piece.data, header, connection, new_request_id(), max_elements)
                if request is not None:
                    self.tap(entry, request)
        elif (
            header.api_key == _METADATA and header.version >= TOPIC_IDS_FROM and self._listener.topics.wanted
        ):
            entry.tap = tap_topic_names(header.version, self._listener.topics)

    def _follow_share_session(
        self, entry: InFlightRequest, header: RequestHeader, piece: Piece, walk: ShareWalk
    ) -> None:
        share_session, limits = self._core.share_session, self._listener.limits
        request_metrics = self._listener.request_metrics
        # Only a client that the broker has let in has much to acknowledge.
        most = limits.group_call_max_bytes if share_session.is_open else limits.first_group_call_max_bytes
        request = read_share_request(header, piece, most, limits.group_call_max_elements)

        def passed() -> None:
            share_session.answered(header.api_key, request, walk)
            request_metrics.share_answered(header.api_key, walk)

        entry.on_passed = passed

    def _authenticated(self, version: int, asked_at: float, frame: bytes) -> bytes:
        """Learn how long the SASL session lives (KIP-368); pending calls may go out again."""
        offset = response_body_offset(_SASL_AUTHENTICATE, version, frame)
        answer = decode(SaslAuthenticateResponse, version, frame, offset)
        if answer.error_code == ErrorCode.NONE and answer.session_lifetime_ms > 0:
            self._core.sasl.completed(answer.session_lifetime_ms / 1000, asked_at)
            self._injected.send_next()
        return frame
