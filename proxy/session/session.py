"""One client connection and its upstream connection: bytes in, bytes and events out. No socket, no clock, no task.

The shell (``proxy.connection.session_shell``) feeds the bytes that it reads, writes those in
:attr:`ClientSession.to_upstream` and :attr:`ClientSession.to_client`, and handles :attr:`ClientSession.events` in
order. ``proxy.session.session_state`` has the states, ``proxy.session.responses`` handles what the broker answers.

Theory of operation. The session takes a client's requests one after another. It relays most of them as they are,
without waiting for earlier responses (pipelining, ``proxy.session.relay``). A request for the translation holds up the
ones behind it until it is answered or forwarded (``proxy.session.translated_calls``), as a broker works on one request
of a connection at a time; only commits go on behind commits. Requests of the proxy go upstream between the client's
(``proxy.session.injected_requests``).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol_codecs import ApiKey, CodecError, decode_prefix
from protocol_codecs.api_key import api_name
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest
from proxy.session.core import SessionCore
from proxy.session.errors import ClientError
from proxy.session.events import UpstreamNeeded
from proxy.session.group_calls import GroupCalls, Treatment, refusal
from proxy.session.in_flight import InFlightRequest, Origin
from proxy.session.injected_requests import InjectedRequests
from proxy.session.listener import Listener
from proxy.session.negotiation import Negotiation
from proxy.session.relay import Relay
from proxy.session.request_checks import check_token, check_version_offered
from proxy.session.responses import Responses
from proxy.session.sasl import BEFORE_AUTHENTICATION, SASL_APIS, begins_with_gssapi
from proxy.session.session_state import (
    ClientEvent,
    ClientState,
    RequestEvent,
    RequestState,
    UpstreamEvent,
    UpstreamState,
)
from proxy.session.share_session import ShareSession
from proxy.session.translated_calls import TranslatedCalls
from proxy.wire import api_versions
from proxy.wire.frame_splitter import FrameError, FrameSplitter, Piece
from proxy.wire.request_header import (
    HeaderError,
    RequestHeader,
    body_offset,
    client_id_of,
    group_id_of,
    is_enough,
    read_header,
)
from proxy.wire.translated_apis import GUARDED, TRANSLATED
from translation.actions import Answer, Call, ConnectionId, never
from translation.passthrough.commits import COMMITS

if TYPE_CHECKING:
    from proxy.wire.sasl_login import Login

# What each request is compared with. Bound once: Python 3.11 looks for a member of an enum for as long as a small
# message takes to be decoded.
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_UNFIT_TO_OUTLIVE = frozenset({int(ApiKey.JOIN_GROUP), int(ApiKey.SHARE_FETCH)})
_DECODE = Treatment.DECODE
_NEW, _ACTIVE, _GONE = ClientState.NEW, ClientState.ACTIVE, ClientState.GONE
_OPEN = UpstreamState.OPEN
_READY, _RELAYING, _TRANSLATING = RequestState.READY, RequestState.RELAYING, RequestState.TRANSLATING
_COLLECTING, _DISCARDING = RequestState.COLLECTING, RequestState.DISCARDING
_IN_PIECES = frozenset({_RELAYING, _COLLECTING, _DISCARDING})


class ClientSession:
    """See the module. The translation knows the connection by ``connection_id`` and ``client_host``.

    ``peer_closed`` is for the translation, see :class:`translation.actions.Connection`. ``on_unblocked`` is called when
    memory for a large call has become free, so that :meth:`process` can go on.
    """

    def __init__(
        self,
        connection_id: ConnectionId,
        client_host: str,
        listener: Listener,
        peer_closed: Callable[[], bool] = never,
        on_unblocked: Callable[[], None] = lambda: None,
    ) -> None:
        self._core = core = SessionCore(listener)
        self._state = core.state
        self._listener = listener
        self._limits = limits = listener.limits
        self._requests = FrameSplitter(
            min(limits.first_frame_max_bytes, limits.frame_max_bytes), enough=is_enough
        )
        self._postponed: Piece | None = None  # the first piece of a request that waits
        self._group_calls = GroupCalls(listener, on_unblocked)
        self._negotiation = Negotiation(
            listener, connection_id, client_host, peer_closed, self._versions_changed
        )
        self._injected = InjectedRequests(core, on_predicted_answer=self._answer_early)
        self._relay = Relay(core, self._negotiation, self._injected)
        self.responses = Responses(core)
        """Handles the broker's responses; the shell gives it what it reads from the broker."""
        self._translated = TranslatedCalls(
            core,
            connection_id,
            self._negotiation,
            self._relay,
            self._injected,
            self.responses,
            self._group_calls,
        )
        self.answer = self._translated.answer
        self.forward = self._translated.forward
        self.send_predicted = self._injected.send_predicted
        self.to_upstream = core.to_upstream
        """Bytes for the broker, in order; the shell takes them out."""
        self.to_client = core.to_client
        """Bytes for the client, in order; the shell takes them out."""
        self.events = core.events
        """What the shell has to carry out, in order; it takes the events out."""
        self._is_authenticated = False
        self.requests_started = 0
        """How many requests have begun."""
        self.receive_from_client: Callable[[bytes], None] = self._requests.feed
        """Takes what was read from the client; call :meth:`process` then."""

    def _answer_early(self, answer: Answer) -> None:
        self._translated.answer_early(answer)

    # -- how far it is -------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether no response is outstanding and no request is half relayed or postponed."""
        return (
            self._core.in_flight.idle and self._state.request is not _RELAYING and not self._has_begun_to_wait
        )

    @property
    def _has_begun_to_wait(self) -> bool:
        """Whether a request is postponed that the session has begun, and not only read."""
        return self._postponed is not None and self._state.request not in {_READY, _TRANSLATING}

    @property
    def quiescent(self) -> bool:
        """Whether nothing at all is under way, of the client or of the proxy, and no request has begun to arrive.

        Something is under way, too, as long as records are locked for the client: they would be delivered once more.
        """
        return (
            self.idle
            and not self._core.share_session.has_locks
            and not self._injected.pending
            and not self._requests.in_frame
            and self._postponed is None
            and self._state.request is not _TRANSLATING
        )

    @property
    def request_incomplete(self) -> bool:
        """Whether the client has begun a request and the session waits for the rest."""
        return self._state.request in _IN_PIECES or (self._free_for_next and self._requests.in_frame)

    @property
    def request_size(self) -> int:
        """The size of the request that arrives in pieces, in bytes; 0 if there is none."""
        return self._requests.frame_size if self._state.request in _IN_PIECES else 0

    @property
    def backlog_bytes(self) -> int:
        """Bytes that were read from the client and wait behind an earlier request; 0 if none do."""
        if not self._requests.buffered or self._state.request in _IN_PIECES or self._free_for_next:
            return 0  # what is buffered is the beginning of a frame, and waits for its rest
        return self._requests.buffered

    @property
    def _free_for_next(self) -> bool:
        """Whether the session may begin the next request."""
        return self._state.request is _READY and self._may_begin

    @property
    def _may_begin(self) -> bool:
        client = self._state.client
        return (
            (client is _ACTIVE or client is _NEW)
            and len(self._core.in_flight.client) < self._limits.in_flight_requests
            and self._core.reauthentication is None
        )

    @property
    def mid_request(self) -> bool:
        """Whether the client has sent only a part of a request."""
        return self._requests.in_frame

    @property
    def may_outlive_client(self) -> bool:
        """Whether the upstream connection is of use after the client has gone.

        It is not while the broker owes the response to a JoinGroup: it answers no other request before, and a classic
        group never answers a JoinGroup after a later one of the same member has arrived. Nor with a share session, or
        a ShareFetch that may open one: the broker hands its records to other members when the connection ends.
        """
        return (
            self._state.upstream is _OPEN
            and self._state.request is not _RELAYING
            and not self._core.share_session.is_open
            and all(entry.api_key not in _UNFIT_TO_OUTLIVE for entry in self._core.in_flight.upstream)
        )

    @property
    def authentication_answers(self) -> int:
        """How many answers of the broker were for the proxy's own authentication."""
        return self._core.authentication_answers

    @property
    def awaits_authentication(self) -> bool:
        """Whether requests were read that wait only until the proxy has authenticated again."""
        has_read = self._postponed is not None or self._requests.buffered > 0
        is_free = self._state.request is _READY and self._state.client is _ACTIVE
        return self._core.reauthentication is not None and is_free and has_read

    @property
    def awaits_only_versions(self) -> bool:
        """Whether all that was read of the client is an ApiVersions that waits for the upstream connection."""
        postponed = self._postponed
        return (
            postponed is not None
            and not self._requests.buffered
            and postponed.last
            and read_header(postponed.data).api_key == _API_VERSIONS
        )

    @property
    def share_session(self) -> ShareSession:
        """The share session that the client has on this connection."""
        return self._core.share_session

    def passthrough_bytes(self) -> int:
        """Return how many of the client's next bytes may be spliced to the broker."""
        return self._requests.unfed_bytes if self._state.request is _RELAYING else 0

    # -- what happens to it --------------------------------------------------------------------------------

    def spliced_upstream(self, n: int) -> None:
        """``n`` of the :meth:`passthrough_bytes` were spliced to the broker."""
        self._requests.skip(n)
        if not self._requests.in_frame:
            self._relay.completed()

    def upstream_opened(self, lifetime_s: float | None = None, *, stand_in: bool = False) -> None:
        """The upstream connection is open; if the proxy has authenticated it, its session lives so many seconds.

        ``stand_in``: it leads to a bootstrap broker, because the address of the client's node is not known yet.
        """
        self._negotiation.stand_in = stand_in
        self._state.on_upstream(UpstreamEvent.OPENED)
        if lifetime_s is not None:
            self._core.sasl.completed(lifetime_s, self._listener.clock())

    def authenticated(self) -> None:
        """The proxy authenticates upstream in the client's place, from the start: the client may not do so itself."""
        self._is_authenticated = True
        self._negotiation.withhold_authentication()
        self._core.sasl.ordinary_request()

    def reauthenticate(
        self, mechanism: str, tokens: "Login", on_done: Callable[[float | None, float], None]
    ) -> None:
        """Authenticate the upstream connection again, between two frames; call :meth:`process` then.

        ``on_done`` is called with the seconds that the session lives from then on (None: without an end), and those for
        which no request could begin.
        """
        from proxy.session.reauthentication import Reauthentication  # noqa: PLC0415 - only for tokens

        self._core.reauthentication = Reauthentication(
            self._core, self._injected, mechanism, tokens, self._translated.relay_forwarded, on_done
        )

    def stop_accepting(self) -> None:
        """Begin no further request; one that is half relayed is completed."""
        self._state.on_client(ClientEvent.STOP_ACCEPTING)

    def client_closed(self) -> None:
        """The client has gone: nothing more is read from or written to it."""
        self._state.on_client(ClientEvent.CLOSED)
        self.to_client.clear()

    def forget_request(self) -> None:
        """Drop the request that waits here or at the translation; it will be neither answered nor forwarded."""
        self._postponed = None
        self._translated.forget()
        self._state.on_request(RequestEvent.FORGOTTEN)

    # -- requests of the client ----------------------------------------------------------------------------

    def process(self) -> None:
        """Process the requests that were read, as far as possible now.

        :raises ClientError: the client sent something that ends the connection.
        """
        try:
            while self._requests.buffered or self._postponed is not None:
                if (piece := self._next_piece()) is None:
                    break
                if piece.first:
                    self._begin(piece)
                else:
                    self._continue(piece)
        except FrameError as error:
            raise ClientError(error.kind, str(error)) from error
        except HeaderError as error:
            raise ClientError("malformed_header", str(error)) from error
        except CodecError as error:
            raise ClientError("malformed_request", str(error)) from error
        if self._core.reauthentication is not None:
            self._core.reauthentication.advance()
        if self._injected.pending:
            self._injected.check_expiry()

    def _next_piece(self) -> Piece | None:
        state = self._state
        if state.request is _READY:
            if not self._may_begin:
                return None
            if self._postponed is None:
                return self._requests.next_piece()
            piece, self._postponed = self._postponed, None
            return piece
        if state.client is _GONE:
            return None
        if state.request in _IN_PIECES:
            return self._requests.next_piece()
        if state.request is _TRANSLATING:
            may_look = self._translated.may_take_another and self._may_begin and self._postponed is None
            return self._requests.next_piece() if may_look else None
        must_wait = self._group_calls.must_wait or self._core.reauthentication is not None
        if self._postponed is None or must_wait or state.upstream is not _OPEN:
            return None
        piece, self._postponed = self._postponed, None
        state.on_request(RequestEvent.RESUMED)
        return piece

    def _begin(self, piece: Piece) -> None:
        sasl, state = self._core.sasl, self._state
        if state.request is _TRANSLATING and not self._translated.may_take(piece):
            self._postponed = piece
            return
        if state.client is _NEW and not self._is_authenticated and begins_with_gssapi(piece.data):
            sasl.begin(0, "GSSAPI")
        if sasl.headerless and sasl.is_token(piece.data):
            self._relay_token(piece)
            return
        self.requests_started += 1
        if self._translated.repeated_heartbeat(piece):
            return
        header = read_header(piece.data)
        if header.api_key == _API_VERSIONS:
            newest = api_versions.newest_offered(self._negotiation.ranges)
            if header.version > newest:
                self._answer_here(header, piece, api_versions.refusal(header.correlation_id, newest))
                return
        check_version_offered(header, self._negotiation.ranges, self._listener.request_metrics)
        if (state.client is _NEW or state.upstream is not _OPEN) and not self._has_upstream(piece):
            return
        if header.api_key in TRANSLATED or (
            header.api_key in GUARDED and self._may_be_refused(header, piece)
        ):
            sasl.ordinary_request()
            treatment = self._group_calls.begin(header, piece, trusted=self.responses.trusted)
            self._treat(treatment, header, piece)
            return
        if header.api_key not in BEFORE_AUTHENTICATION:
            sasl.ordinary_request()
        elif header.api_key in SASL_APIS:
            self._check_authentication(header, piece)
        else:
            piece = self._negotiation.for_any_node(header, piece)
        self._relay.request(header, piece)

    def _may_be_refused(self, header: RequestHeader, piece: Piece) -> bool:
        """Whether the policy lets nobody join this heartbeat's group by its API."""
        return self._listener.rule_for(group_id_of(piece.data, header)).refusal(header.api_key) is not None

    def _continue(self, piece: Piece) -> None:
        """Process another piece of the request that has begun."""
        if self._state.request is _RELAYING:
            self._relay.next_piece(piece)
            return
        if self._state.request is _COLLECTING:
            self._group_calls.add(piece)
        if piece.last:
            was_collecting = self._state.request is _COLLECTING
            self._state.on_request(RequestEvent.LAST_PIECE)
            if was_collecting:
                frame = self._group_calls.take()
                if self._core.reauthentication is None:
                    self._translate(read_header(frame), frame)
                else:  # it may have to go to the broker
                    self._postponed = Piece(frame, first=True, last=True, frame_size=len(frame))

    def _has_upstream(self, piece: Piece) -> bool:
        """Whether there is an upstream connection; without one, postpone the request and ask the shell for one."""
        state = self._state
        if state.client is _NEW:
            state.on_client(ClientEvent.VALID_REQUEST)
            self._requests.max_size = self._limits.frame_max_bytes
        if state.upstream is _OPEN:
            return True
        self._postponed = piece
        state.on_upstream(UpstreamEvent.NEEDED)
        state.on_request(RequestEvent.UPSTREAM_MISSING)
        self.events.append(UpstreamNeeded())
        return False

    def _check_authentication(self, header: RequestHeader, piece: Piece) -> None:
        check_token(piece, self._limits)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            offset = body_offset(piece.data, header)
            asked, _ = decode_prefix(SaslHandshakeRequest, header.version, piece.data, offset)
            self._core.sasl.begin(header.version, asked.mechanism)

    def _relay_token(self, piece: Piece) -> None:
        check_token(piece, self._limits)
        if self._has_upstream(piece):
            self._relay.token(piece, expects_token=self._core.sasl.token())

    def _translate(self, header: RequestHeader, frame: bytes) -> None:
        treatment = self._translated.translate(header, frame)
        if treatment is not None:
            self._treat(treatment, header, Piece(frame, first=True, last=True, frame_size=len(frame)))

    def _treat(self, treatment: Treatment, header: RequestHeader, piece: Piece) -> None:
        """Carry out what was decided about a group call."""
        if treatment is _DECODE:
            self._translate(header, piece.data)
            return
        match treatment:
            case Treatment.COLLECT:
                self._state.on_request(RequestEvent.COLLECTING_STARTED)
            case Treatment.RELAY:
                self._group_calls.release()
                self._relay.request(header, piece)
            case Treatment.REFUSE:
                self._group_calls.release()
                self._answer(header, refusal(header, self._group_calls.refusal_code), piece)
                if not piece.last:
                    self._state.on_request(RequestEvent.DISCARDING_STARTED)
            case Treatment.PROBE_BROKER:
                self._postponed = piece
                self._state.on_request(RequestEvent.PROBE_SENT)
                client_id = client_id_of(piece.data, header)
                self._injected.probe(client_id, self._group_calls.probe_answered)
            case Treatment.POSTPONE:
                self._postponed = piece
            case Treatment.WAIT:
                self._postponed = piece
                self._state.on_request(RequestEvent.MEMORY_MISSING)

    def _answer_here(self, header: RequestHeader, piece: Piece, response: bytes) -> None:
        """Answer a request whatever its body contains, behind the responses before it."""
        if not piece.last:
            raise ClientError("oversized", f"{api_name(header.api_key)} in {piece.frame_size} bytes")
        self._answer(header, response, piece)

    def _answer(self, header: RequestHeader, response: bytes, piece: Piece) -> None:
        """Answer a request without the broker."""
        listener = self._listener
        entry = InFlightRequest(
            Origin.LOCAL,
            header.api_key,
            header.version,
            header.correlation_id,
            listener.clock(),
            response=response,
        )
        self._core.in_flight.receive(entry)
        listener.request_metrics.request(header.api_key, header.version, piece.frame_size, decoded=True)
        self.responses.flush_ready()

    # -- the translation -----------------------------------------------------------------------------------

    def call(self, call: Call) -> bool:
        """Send a request of the translation, behind those that are pending; return whether :meth:`process` can go on.

        :raises LookupError: another request than this was sent in advance.
        """
        self._injected.call(call)
        if self._injected.pending:
            self._injected.check_expiry()
        return call.api_key in COMMITS and self._translated.commit_called(call)

    def _versions_changed(self) -> None:
        self._translated.forget_heartbeat()
