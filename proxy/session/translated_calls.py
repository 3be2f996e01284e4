"""Hands a client's group calls to the translation, one at a time, and answers or forwards them as it decides.

A Heartbeat that repeats the one before it is not decoded again; if that one was forwarded, and the translation is sure
to forward this one too, it is relayed at once.
"""

import msgspec

from protocol_codecs import ApiKey, Message
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from proxy.session.core import SessionCore, new_request_id
from proxy.session.events import GroupCallReceived
from proxy.session.group_calls import GroupCalls, Treatment
from proxy.session.heartbeat_cache import MAX_CACHED_FRAME_BYTES, CachedHeartbeat, heartbeat_response_frame
from proxy.session.in_flight import InFlightRequest, Origin
from proxy.session.injected_requests import InjectedRequests
from proxy.session.negotiation import Negotiation
from proxy.session.relay import Relay
from proxy.session.response_tap import ResponseTap
from proxy.session.responses import Responses
from proxy.session.session_state import RequestEvent
from proxy.session.speculation import Prediction
from proxy.wire import request_upgrades
from proxy.wire.frame_splitter import Piece
from proxy.wire.framing import response_frame
from proxy.wire.request_header import RequestHeader, client_id_of
from translation.actions import Answer, ConnectionId, Request, RequestId
from translation.passthrough.observer import OBSERVED

_HEARTBEAT = int(ApiKey.HEARTBEAT)
_RELAYED, _LOCAL = Origin.RELAYED, Origin.LOCAL
_HANDED_OVER, _ANSWERED = RequestEvent.HANDED_OVER, RequestEvent.ANSWERED


class _Held(msgspec.Struct, frozen=True, gc=False):
    """The request that the translation works on."""

    header: RequestHeader
    frame: bytes
    request: Request


class TranslatedCalls:
    """The group calls of one session that the translation decides about."""

    def __init__(
        self,
        core: SessionCore,
        connection_id: ConnectionId,
        negotiation: Negotiation,
        relay: Relay,
        injected: InjectedRequests,
        responses: Responses,
        group_calls: GroupCalls,
    ) -> None:
        self._core = core
        self._context = core.context
        self._connection_id = connection_id
        self._negotiation = negotiation
        self._relay = relay
        self._injected = injected
        self._responses = responses
        self._group_calls = group_calls
        self._held: _Held | None = None
        self._answered_early: InFlightRequest | None = None
        self._last_heartbeat: CachedHeartbeat | None = None
        self._passing_tap: ResponseTap | None = None  # of the last Heartbeat, if it was forwarded

    # -- to the translation --------------------------------------------------------------------------------

    def repeated_heartbeat(self, piece: Piece) -> bool:
        """Handle a request if it repeats the last Heartbeat; return whether it does."""
        last = self._last_heartbeat
        if last is None or (header := last.repeated_in(piece.data)) is None:
            return False
        self._core.sasl.ordinary_request()
        tap, message = self._passing_tap, last.message
        if tap is not None and self._context.passes_through(
            self._connection_id, message.group_id, message.member_id
        ):
            self._relay.heartbeat(header, piece, tap)
        else:
            self._hand_over(header, piece.data, last.client_id, message)
        return True

    def translate(self, header: RequestHeader, frame: bytes) -> Treatment | None:
        """Decode a group call and hand it over; if it has too many elements, return what to do with it instead.

        :raises ClientError: it has too many elements, and its group is translated.
        :raises MalformedMessage: it can't be decoded.
        :raises HeaderError: its header can't be read.
        """
        message = self._group_calls.read(header, frame)
        if isinstance(message, Treatment):
            return message
        client_id = client_id_of(frame, header)
        if isinstance(message, HeartbeatRequest) and len(frame) <= MAX_CACHED_FRAME_BYTES:
            self._last_heartbeat = CachedHeartbeat(frame, header, client_id, message)
            self._passing_tap = None
        self._hand_over(header, frame, client_id, message)
        return None

    def _hand_over(
        self, header: RequestHeader, frame: bytes, client_id: str | None, message: Message
    ) -> None:
        core, context = self._core, self._context
        context.request_metrics.request(header.api_key, header.version, len(frame), decoded=True)
        core.in_flight.receive(
            InFlightRequest(_LOCAL, header.api_key, header.version, header.correlation_id, context.clock())
        )
        request = Request(new_request_id(), header.api_key, header.version, client_id, message)
        self._held = _Held(header, frame, request)
        core.state.on_request(_HANDED_OVER)
        connection = self._negotiation.known_connection
        if connection is not None:
            core.events.append(GroupCallReceived(connection, request))
        else:
            self._injected.ask_versions(client_id, lambda frame: self._versions_learned(frame, request))

    def _versions_learned(self, frame: bytes, request: Request) -> None:
        self._negotiation.learn(frame)
        self._core.events.append(GroupCallReceived(self._negotiation.connection, request))

    def forget_heartbeat(self) -> None:
        """Forget the last Heartbeat: it was checked against versions that have changed since."""
        self._last_heartbeat = None

    def forget(self) -> None:
        """The client is gone: the translation will neither answer nor forward the request that it works on."""
        self._held = None
        self._group_calls.release()

    # -- what it decides -----------------------------------------------------------------------------------

    def send_predicted(self, prediction: Prediction) -> None:
        """Send the request that the translation is certain to call for, because of the one that it works on."""
        if self._held is not None:
            self._injected.send_predicted(self._held.request.client_id, prediction)

    def answer(self, request_id: RequestId, message: Message) -> None:
        """Answer the request that the translation works on.

        :raises LookupError: it works on another one, or on none.
        """
        held = self._take(request_id, _ANSWERED)
        self._passing_tap = None
        entry, self._answered_early = self._answered_early, None
        if entry is None:
            entry = self._respond(held.header, message)
        self._context.request_metrics.answered(entry, message, self._context.clock())

    def answer_early(self, answer: Answer) -> None:
        """Answer the client by a prediction; the translation calls :meth:`answer` with the same message later."""
        held = self._held
        if held is not None and answer.request_id == held.request.id:
            self._answered_early = self._respond(held.header, answer.message)

    def forward(self, request_id: RequestId) -> None:
        """Relay the request that the translation works on, upgraded if the broker lacks its version.

        :raises LookupError: it works on another one, or on none.
        """
        held = self._take(request_id, RequestEvent.FORWARDED)
        header, frame, request = held.header, held.frame, held.request
        in_flight = self._core.in_flight
        entry = in_flight.client[-1]
        entry.origin = _RELAYED
        in_flight.inject(entry)
        lowest = self._negotiation.connection.versions.get(header.api_key, (0, 0))[0]
        if request_upgrades.needs_upgrade(header, lowest):
            frame, entry.rewrite = request_upgrades.upgrade(
                header, request.client_id, request.message, lowest
            )
        if header.api_key in OBSERVED:
            self._relay.tap(entry, request)
            last = self._last_heartbeat
            if last is not None and last.message is request.message:
                self._passing_tap = entry.tap
        self._context.request_metrics.sent(header.api_key, header.version, injected=False)
        self._core.to_upstream.append(frame)

    def _take(self, request_id: RequestId, event: RequestEvent) -> _Held:
        held = self._held
        if held is None or request_id != held.request.id:
            raise LookupError(
                f"the translation answers request {request_id}, but works on {held} on this connection"
            )
        self._held = None
        self._core.state.on_request(event)
        self._group_calls.release()
        return held

    def _respond(self, header: RequestHeader, message: Message) -> InFlightRequest:
        entry = self._core.in_flight.client[-1]
        if header.api_key == _HEARTBEAT:
            entry.response = heartbeat_response_frame(header.version, header.correlation_id, message)
        else:
            entry.response = response_frame(header.api_key, header.version, header.correlation_id, message)
        self._responses.flush_ready()
        return entry
