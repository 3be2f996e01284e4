"""Hands a client's group calls to the translation, one at a time, and answers or forwards them as it decides.

A commit is handed over behind others as soon as the translation has sent the one before it to the broker, so all keep
their order. Their answers go out in order, and nothing else of the client goes on before the last of them.

A Heartbeat that repeats the one before it is not decoded again; if that one was forwarded, and the translation is sure
to forward this one too, it is relayed at once.
"""

from itertools import takewhile

import msgspec
from msgspec.structs import replace

from protocol_codecs import ApiKey, Message
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from proxy.session.core import SessionCore, new_request_id
from proxy.session.group_calls import GroupCalls, Treatment
from proxy.session.heartbeat_cache import MAX_CACHED_FRAME_BYTES, CachedHeartbeat, heartbeat_response_frame
from proxy.session.in_flight import InFlightRequest, Origin
from proxy.session.injected_requests import InjectedRequests
from proxy.session.negotiation import Negotiation
from proxy.session.relay import Relay
from proxy.session.response_tap import ResponseTap
from proxy.session.responses import Responses
from proxy.session.session_state import RequestEvent
from proxy.wire import request_upgrades
from proxy.wire.frame_splitter import Piece
from proxy.wire.framing import response_frame
from proxy.wire.request_header import RequestHeader, api_key_of, client_id_of
from translation.actions import Answer, Call, ConnectionId, Request, RequestId
from translation.passthrough.commits import COMMITS
from translation.passthrough.observer import OBSERVED

_HEARTBEAT = int(ApiKey.HEARTBEAT)
_RELAYED, _LOCAL = Origin.RELAYED, Origin.LOCAL
_HANDED_OVER, _ANSWERED = RequestEvent.HANDED_OVER, RequestEvent.ANSWERED


MOST_COMMITS = 16
"""So many commits of a connection are at the translation at once: the broker, which works on one request of a
connection at a time, has the next one there when it is done with one."""

_MOST_BYTES = 64 * 1024
"""The size of their frames together; a larger commit waits until it is alone."""


class _Held(msgspec.Struct):
    """A request that the translation works on.

    ``sent``: a commit that it has called for. ``forwarded``: it is to be relayed, behind those before it.
    """

    header: RequestHeader
    frame: bytes
    size: int
    request: Request
    entry: InFlightRequest
    sent: bool = False
    forwarded: bool = False


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
        self._listener = core.listener
        self._connection_id = connection_id
        self._negotiation = negotiation
        self._relay = relay
        self._injected = injected
        self._responses = responses
        self._group_calls = group_calls
        self._held: dict[RequestId, _Held] = {}
        """What the translation works on, in order: one call, or commits."""
        self._held_bytes = 0
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
        if tap is not None and self._listener.passes_through(
            self._connection_id, message.group_id, message.member_id
        ):
            self._relay.heartbeat(header, piece, tap)
        else:
            self._hand_over(header, piece.data, last.client_id, message)
        return True

    def may_take(self, piece: Piece) -> bool:
        """Whether a request may be handed over behind those that the translation works on: only a commit may."""
        return (
            piece.last
            and api_key_of(piece.data) in COMMITS
            and self._held_bytes + piece.frame_size <= _MOST_BYTES
        )

    @property
    def may_take_another(self) -> bool:
        """Whether the next request may be looked at while the translation works on others."""
        newest = next(reversed(self._held.values()), None)
        return newest is not None and newest.sent and len(self._held) < MOST_COMMITS

    def commit_called(self, call: Call) -> bool:
        """The translation has called for a commit at the broker; return whether another may follow now."""
        if self._held:
            newest = next(reversed(self._held.values()))
            if call.message.topics is newest.request.message.topics:
                newest.sent = True
                return self.may_take_another
        return False

    def translate(self, header: RequestHeader, frame: bytes) -> Treatment | None:
        """Decode a group call and hand it over; if it has too many elements, return what to do with it instead.

        :raises ClientError: it has too many elements, and its group is translated.
        :raises MalformedMessage: it can't be decoded.
        :raises HeaderError: its header can't be read.
        """
        message = self._group_calls.read(header, frame)
        if isinstance(message, Treatment):
            return Treatment.POSTPONE if self._held else message
        client_id = client_id_of(frame, header)
        if isinstance(message, HeartbeatRequest) and len(frame) <= MAX_CACHED_FRAME_BYTES:
            self._last_heartbeat = CachedHeartbeat(frame, header, client_id, message)
            self._passing_tap = None
        self._hand_over(header, frame, client_id, message)
        return None

    def _hand_over(
        self, header: RequestHeader, frame: bytes, client_id: str | None, message: Message
    ) -> None:
        core, listener, size = self._core, self._listener, len(frame)
        listener.request_metrics.request(header.api_key, header.version, size, decoded=True)
        entry = InFlightRequest(
            _LOCAL, header.api_key, header.version, header.correlation_id, listener.clock()
        )
        core.in_flight.receive(entry)
        connection = self._negotiation.connection
        request = Request(new_request_id(), connection, header.api_key, header.version, client_id, message)
        self._held[request.id] = held = _Held(header, frame, size, request, entry)
        self._held_bytes += size
        core.state.on_request(_HANDED_OVER)
        if connection.versions:
            core.events.append(request)
        else:
            self._injected.ask_versions(client_id, lambda frame: self._versions_learned(frame, held))

    def _versions_learned(self, frame: bytes, held: _Held) -> None:
        self._negotiation.learn(frame)
        held.request = replace(held.request, connection=self._negotiation.connection)
        self._core.events.append(held.request)

    def forget_heartbeat(self) -> None:
        """Forget the last Heartbeat: it was checked against versions that have changed since."""
        self._last_heartbeat = None

    def forget(self) -> None:
        """The client is gone: the translation will neither answer nor forward what it works on."""
        self._held.clear()
        self._held_bytes = 0
        self._group_calls.release()

    # -- what it decides -----------------------------------------------------------------------------------

    def answer(self, request_id: RequestId, message: Message) -> None:
        """Answer a request that the translation works on.

        :raises LookupError: it does not work on this one.
        """
        held = self._held.get(request_id)
        if held is None:
            raise self._unknown(request_id)
        self._passing_tap = None
        entry, self._answered_early = self._answered_early, None
        if entry is None:
            self._respond(held, message)
        self._done(held, _ANSWERED)
        self._listener.request_metrics.answered(held.entry, message, self._listener.clock())

    def answer_early(self, answer: Answer) -> None:
        """Answer the client by a prediction; the translation calls :meth:`answer` with the same message later."""
        held = self._held.get(answer.request_id)
        if held is not None:
            self._respond(held, answer.message)
            self._answered_early = held.entry

    def forward(self, request_id: RequestId) -> None:
        """Relay a request that the translation works on, behind those that came before it.

        :raises LookupError: it does not work on this one.
        """
        held = self._held.get(request_id)
        if held is None:
            raise self._unknown(request_id)
        held.forwarded = True
        self.relay_forwarded()

    def relay_forwarded(self) -> None:
        """Relay what is to be forwarded and has nothing before it that the translation still works on."""
        reauthentication = self._core.reauthentication
        if reauthentication is not None and reauthentication.is_under_way:
            return  # it ends with this
        for held in list(takewhile(lambda held: held.forwarded, self._held.values())):
            self._done(held, RequestEvent.FORWARDED)
            self._relay_held(held)

    def _relay_held(self, held: _Held) -> None:
        """Relay a request, upgraded if the broker lacks its version."""
        header, frame, request, entry = held.header, held.frame, held.request, held.entry
        entry.origin = _RELAYED
        self._core.in_flight.inject(entry)
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
        self._listener.request_metrics.sent(header.api_key, header.version, injected=False)
        self._core.to_upstream.append(frame)

    def _unknown(self, request_id: RequestId) -> LookupError:
        return LookupError(
            f"the translation answers request {request_id}, but works on {[*self._held]} on this connection"
        )

    def _done(self, held: _Held, event: RequestEvent) -> None:
        """The translation works on a request no more."""
        del self._held[held.request.id]
        self._held_bytes -= held.size
        if not self._held:
            self._core.state.on_request(event)
            if self._group_calls.reservation is not None:
                self._group_calls.release()
        elif not held.forwarded:
            self.relay_forwarded()

    def _respond(self, held: _Held, message: Message) -> None:
        header = held.header
        if header.api_key == _HEARTBEAT:
            response = heartbeat_response_frame(header.version, header.correlation_id, message)
        else:
            response = response_frame(header.api_key, header.version, header.correlation_id, message)
        held.entry.response = response
        self._responses.flush_ready()
