"""One client connection and its upstream connection, as bytes in and bytes out. No socket, no clock, no task.

The shell (``proxy.server.client_connection``) feeds the bytes that it reads, and writes those in
:attr:`ClientSession.to_upstream` and :attr:`ClientSession.to_client`. ``proxy.session.responses`` handles what the
broker answers. The shell hands :attr:`ClientSession.request` and :attr:`ClientSession.replies` to the translation, and
brings back what it decides by ``answer``, ``forward`` and ``call``.

Theory of operation. The session takes a client's requests one after another. It passes most of them on as they are,
without waiting for earlier responses (pipelining); :class:`proxy.session.in_flight.InFlightRequests` keeps the
order. A request for the translation holds up the ones behind it until it is answered or forwarded, as a
broker works on one request of a connection at a time. Requests of the proxy go upstream between the client's,
one at a time, and never inside a request that is still being passed on in pieces, nor during authentication.
"""

from collections import deque
from collections.abc import Callable
from itertools import count

from protocol_codecs import ApiKey, CodecError, ErrorCode, Message, decode, decode_bounded, decode_prefix
from protocol_codecs.messages.api_versions import ApiVersionsRequest
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateResponse
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest
from proxy.session.group_calls import GroupCalls, Treatment, refusal
from proxy.session.heartbeat_cache import MAX_CACHED_FRAME_BYTES, CachedHeartbeat, heartbeat_response_frame
from proxy.session.in_flight import InFlightRequest, InFlightRequests, Origin
from proxy.session.injected_requests import InjectedRequests
from proxy.session.listener_context import (
    ClientError,
    ListenerContext,
    UpstreamError,
    check_token,
    check_version_offered,
)
from proxy.session.request_metrics import api_name
from proxy.session.response_tap import (
    TOPIC_IDS_FROM,
    ResponseTap,
    decode_group_call,
    tap_group_call,
    tap_topic_names,
)
from proxy.session.responses import Responses
from proxy.session.sasl import BEFORE_AUTHENTICATION, SASL_APIS, SaslState, begins_with_gssapi
from proxy.session.speculation import Prediction
from proxy.wire import api_versions, node_endpoints, request_upgrades, share_groups
from proxy.wire.api_versions import Ranges
from proxy.wire.broker_addresses import CARRYING_ADDRESSES, rewrite_addresses
from proxy.wire.frame_splitter import FrameError, FrameSplitter, Piece
from proxy.wire.framing import response_body_offset, response_frame
from proxy.wire.node_endpoints import EndpointRewriter
from proxy.wire.request_header import (
    HeaderError,
    RequestHeader,
    body_offset,
    client_id_of,
    expects_response,
    is_enough,
    read_header,
)
from proxy.wire.supported_versions import NEWEST_REVIEWED, TRANSLATED
from translation.actions import Answer, Call, Connection, ConnectionId, Request, RequestId, never
from translation.passthrough.observer import ASKED, OBSERVED

# What each request is compared with. Bound once: Python 3.11 looks for a member of an enum for as long as a small
# message takes to be decoded.
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_HEARTBEAT = int(ApiKey.HEARTBEAT)
_METADATA = int(ApiKey.METADATA)
_PRODUCE = int(ApiKey.PRODUCE)
_SASL_AUTHENTICATE = int(ApiKey.SASL_AUTHENTICATE)
_RELAYED, _LOCAL = Origin.RELAYED, Origin.LOCAL
_DECODE = Treatment.DECODE

_LOOKED_INTO = (
    {_API_VERSIONS, _METADATA, _SASL_AUTHENTICATE}
    | node_endpoints.FIRST_VERSION.keys()
    | CARRYING_ADDRESSES
    | OBSERVED
)
"""The APIs whose responses are edited or looked at, in some versions at least."""

_request_ids = count(1)


class ClientSession:
    """See the module. The translation knows the connection by ``connection_id`` and ``client_host``.

    ``peer_closed`` is for the translation: see :class:`translation.actions.Connection`. ``go_on`` is called when
    :meth:`process` can go on for a reason that lies outside of this connection.
    """

    def __init__(
        self,
        connection_id: ConnectionId,
        client_host: str,
        context: ListenerContext,
        peer_closed: Callable[[], bool] = never,
        go_on: Callable[[], None] = lambda: None,
    ) -> None:
        self.to_upstream: list[bytes] = []
        """Bytes to be written to the broker, in order; the shell takes them out."""
        self.request: Request | None = None
        """A request for the translation; the shell takes it out."""
        self._injected = InjectedRequests(context.clock, self._send_next_injected, self._answer_early)
        self.replies = self._injected.replies
        """Responses to calls of the translation; the shell takes them out."""
        self.calls_waiting = self._injected.waiting
        """Calls of the translation that could not be sent yet."""
        self.passed: deque[tuple[Request, Message | None]] = deque()
        """Group calls that pass through, with their responses: those of
        :data:`translation.passthrough.observer.OBSERVED`, and before that those of ``ASKED`` when they are passed on.
        The shell takes them out."""
        self.upstream_open = False
        """Whether there is an upstream connection; set by :meth:`opened`."""
        self.wants_upstream = False
        """Whether a request waits for the upstream connection to be opened."""
        self.requests_started = 0
        """How many requests have begun."""
        self.spoke = False
        """Whether the client has sent a valid request."""
        self.translated = False
        """Whether the translation has heard of this connection."""

        self._id = connection_id
        self._client_host = client_host
        self._software = ""
        self._peer_closed = peer_closed
        self._context = context
        self._limits = context.limits
        self._requests = FrameSplitter(
            min(context.limits.first_frame_max_bytes, context.limits.frame_max_bytes), enough=is_enough
        )
        self.receive_from_client: Callable[[bytes], None] = self._requests.feed
        """Takes what was read from the client; :meth:`process` looks at it."""
        self._in_flight = InFlightRequests()
        self._ranges: Ranges = context.negotiator.default_ranges
        self._connection: Connection | None = None  # made once the broker's ranges are known

        self._postponed: Piece | None = None  # the beginning of a request that nothing is done with yet
        self._group_calls = GroupCalls(context, go_on)
        self._held: tuple[RequestHeader, bytes, Request] | None = (
            None  # the request that the translation works on
        )
        self._awaiting: RequestId | None = None
        self._answered_early: InFlightRequest | None = None
        self._last_heartbeat: CachedHeartbeat | None = None
        self._passing_heartbeat_tap: ResponseTap | None = None  # of the last Heartbeat, if it was forwarded
        self._relaying = False  # in the middle of a request that goes upstream in pieces
        self._accepting = True

        self._sasl = SaslState(context.clock)
        self.responses = Responses(self._in_flight, self._sasl, context)
        """What the broker answers; the shell feeds it what it reads there."""
        self.to_client = self.responses.to_client
        """Bytes to be written to the client, in order; the shell takes them out."""

    # -- the client's side ---------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is under way: no response outstanding, no request half passed on."""
        return self._in_flight.idle and not self._relaying and self._postponed is None

    @property
    def quiescent(self) -> bool:
        """Whether nothing at all is under way, of the client or of the proxy, and no request has begun to arrive."""
        return (
            self.idle
            and not self._injected.waiting
            and not self._requests.in_frame
            and self._awaiting is None
        )

    @property
    def request_incomplete(self) -> bool:
        """Whether the client has begun a request whose rest is waited for."""
        if self._relaying or self._group_calls.collecting:
            return True
        return self._free_for_next and self._requests.in_frame

    @property
    def request_size(self) -> int:
        """The size of the request that is under way, as far as it is known, in bytes."""
        return self._requests.frame_size if self._relaying or self._group_calls.collecting else 0

    @property
    def backlog_bytes(self) -> int:
        """Bytes that were read from the client and wait for an earlier request; 0 if none does."""
        if (
            not self._requests.buffered
            or self._relaying
            or self._group_calls.collecting
            or self._free_for_next
        ):
            return 0  # what is buffered is the beginning of a frame, and waits for its rest
        return self._requests.buffered

    @property
    def _free_for_next(self) -> bool:
        """Whether the next request may be looked at."""
        return (
            self._awaiting is None
            and self._accepting
            and self._postponed is None
            and len(self._in_flight.client) < self._limits.in_flight_requests
        )

    @property
    def mid_request(self) -> bool:
        """Whether the client has sent a part of a request: if it vanishes now, it vanished in mid-frame."""
        return self._requests.in_frame

    @property
    def can_inject(self) -> bool:
        """Whether requests of the proxy can still be sent after the client is gone."""
        return self.upstream_open and not self._relaying

    @property
    def may_outlive_client(self) -> bool:
        """Whether the upstream connection is of use after the client is gone.

        It is not while the broker owes the answer to a JoinGroup: it answers no other request before, and a classic
        group never answers a JoinGroup that a later one of the same member has overtaken.
        """
        return self.can_inject and all(one.api_key != ApiKey.JOIN_GROUP for one in self._in_flight.upstream)

    def passthrough_bytes(self) -> int:
        """Bytes that the client will send next and that go to the broker whatever they are."""
        return self._requests.unfed_bytes if self._relaying else 0

    def spliced_upstream(self, n: int) -> None:
        """``n`` of them went to the broker past this session."""
        self._requests.skip(n)
        if not self._requests.in_frame:
            self._relaying = False
            self._send_next_injected()

    def stop_accepting(self) -> None:
        """Look at no further request; the one that is half passed on is completed."""
        self._accepting = False

    def client_closed(self) -> None:
        """The client is gone: nothing more is read from or written to it."""
        self._accepting = False
        self.responses.client_closed()

    def forget_request(self) -> None:
        """The request that the translation works on, or that waits here, will be neither answered nor forwarded."""
        self._held = self._postponed = None
        self._group_calls.settled()

    def process(self) -> None:
        """Look at the requests that were read, as far as they may be looked at now.

        :raises ClientError: what the client sent ends the connection.
        """
        try:
            while self._requests.buffered or self._postponed is not None:
                if (piece := self._next_piece()) is None:
                    return
                if piece.first:
                    self._begin(piece)
                else:
                    self._go_on(piece)
        except FrameError as error:
            raise ClientError(error.kind, str(error)) from error
        except HeaderError as error:
            raise ClientError("malformed_header", str(error)) from error
        except CodecError as error:
            raise ClientError("malformed_request", str(error)) from error

    def _next_piece(self) -> Piece | None:
        if self._relaying or self._group_calls.collecting:
            return self._requests.next_piece() if self.responses.client_open else None
        if self._postponed is not None:
            if self._group_calls.must_wait or not (self.upstream_open and self.responses.client_open):
                return None
            piece, self._postponed = self._postponed, None
            return piece
        return self._requests.next_piece() if self._free_for_next else None

    def _begin(self, piece: Piece) -> None:
        if not self.spoke and begins_with_gssapi(piece.data):
            self._sasl.begin(0, "GSSAPI")
        if self._sasl.headerless and self._sasl.is_token(piece.data):
            self._pass_token(piece)
            return
        self.requests_started += 1
        last = self._last_heartbeat
        if last is not None and (header := last.repeated_in(piece.data)) is not None:
            self._sasl.ordinary_request()
            tap, message = self._passing_heartbeat_tap, last.message
            if tap is not None and self._context.passes_through(
                self._id, message.group_id, message.member_id
            ):
                self._relay_heartbeat(header, piece, tap)
            else:
                self._hand_to_translation(header, piece.data, last.client_id, message)
            return
        header = read_header(piece.data)
        if header.api_key == _API_VERSIONS and header.version > NEWEST_REVIEWED[_API_VERSIONS]:
            self._answer_here(header, piece, api_versions.refusal(header.correlation_id))
            return
        check_version_offered(header, self._ranges, self._context.request_metrics)
        if not (self.spoke and self.upstream_open) and not self._has_upstream(piece):
            return
        if header.api_key in TRANSLATED:
            self._sasl.ordinary_request()
            treatment = self._group_calls.begin(header, piece, trusted=self.responses.trusted)
            if treatment is _DECODE:
                self._translate(header, piece.data)
            else:
                self._apply_treatment(treatment, header, piece)
            return
        if header.api_key in share_groups.ANSWERED_HERE:
            self._sasl.ordinary_request()
            self._answer_here(header, piece, share_groups.refusal(header.correlation_id))
            return
        if header.api_key not in BEFORE_AUTHENTICATION:
            self._sasl.ordinary_request()
        elif header.api_key in SASL_APIS:
            self._check_authentication(header, piece)
        self._relay(header, piece)

    def _has_upstream(self, piece: Piece) -> bool:
        """Whether the frame can be passed on; the first of a valid client waits for the connection."""
        if not self.spoke:
            self.spoke = True
            self._requests.max_size = self._limits.frame_max_bytes
        if not self.upstream_open:
            self._postponed = piece
            self.wants_upstream = True
        return self.upstream_open

    def _check_authentication(self, header: RequestHeader, piece: Piece) -> None:
        check_token(piece, self._limits)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            offset = body_offset(piece.data, header)
            asked, _ = decode_prefix(SaslHandshakeRequest, header.version, piece.data, offset)
            self._sasl.begin(header.version, asked.mechanism)

    def _pass_token(self, piece: Piece) -> None:
        """Pass on a token of SASL that has no header; it counts as the SaslAuthenticate that it would be later."""
        check_token(piece, self._limits)
        if not self._has_upstream(piece):
            return
        if self._sasl.token():
            asked = InFlightRequest(
                Origin.RELAYED, ApiKey.SASL_AUTHENTICATE, 0, 0, self._context.clock(), headerless=True
            )
            self._in_flight.relay(asked)
        self._context.request_metrics.request(ApiKey.SASL_AUTHENTICATE, 0, piece.frame_size, decoded=False)
        self._context.request_metrics.sent(ApiKey.SASL_AUTHENTICATE, 0, injected=False)
        self.to_upstream.append(piece.data)
        self._relaying = not piece.last

    def _go_on(self, piece: Piece) -> None:
        """Another piece of the request that has begun."""
        if not self._group_calls.collecting:
            self.to_upstream.append(piece.data)
            if piece.last:
                self._relaying = False
                self._send_next_injected()
        elif (frame := self._group_calls.add(piece)) is not None:
            self._translate(read_header(frame), frame)

    def _answer_here(self, header: RequestHeader, piece: Piece, response: bytes) -> None:
        """Answer a request whatever its body says, in its turn."""
        if not piece.last:
            raise ClientError("oversized", f"{api_name(header.api_key)} in {piece.frame_size} bytes")
        self._answer_at_once(header, response, piece)

    def _apply_treatment(self, treatment: Treatment, header: RequestHeader, piece: Piece) -> None:
        """Do with a group call what was decided, if it is not to be decoded now."""
        match treatment:
            case Treatment.RELAY:
                self._group_calls.settled()
                self._relay(header, piece)
            case Treatment.REFUSE:
                self._group_calls.settled()
                self._answer_at_once(header, refusal(header), piece)
            case Treatment.PROBE_BROKER:
                self._postponed = piece
                client_id = client_id_of(piece.data, header)
                self._send_injected(*self._injected.probe(client_id, self._group_calls.probe_answered))
            case Treatment.WAIT:
                self._postponed = piece

    def _answer_at_once(self, header: RequestHeader, response: bytes, piece: Piece) -> None:
        """Answer a request without asking anybody."""
        entry = self._new_entry(_LOCAL, header)
        entry.response = response
        self._in_flight.receive(entry)
        self._context.request_metrics.request(header.api_key, header.version, piece.frame_size, decoded=True)
        self.responses.flush_ready()

    def _relay(self, header: RequestHeader, piece: Piece) -> None:
        api_key = header.api_key
        self._context.request_metrics.relayed(api_key, header.version, piece.frame_size)
        if api_key != _PRODUCE or expects_response(piece.data, header):
            entry = InFlightRequest(
                _RELAYED, api_key, header.version, header.correlation_id, self._context.clock()
            )
            if api_key in _LOOKED_INTO:
                self._attach_rewriters(entry, piece)
                self._attach_tap(entry, header, piece)
            self._in_flight.relay(entry)
        self.to_upstream.append(piece.data)
        self._relaying = not piece.last
        if self._injected.waiting:
            self._send_next_injected()

    def _relay_heartbeat(self, header: RequestHeader, piece: Piece, tap: ResponseTap) -> None:
        """Relay a repeated Heartbeat that the translation is sure to forward, before anybody looks at it."""
        context = self._context
        context.request_metrics.relayed(_HEARTBEAT, header.version, piece.frame_size, decoded=True)
        self._in_flight.relay(
            InFlightRequest(
                _RELAYED, _HEARTBEAT, header.version, header.correlation_id, context.clock(), tap=tap
            )
        )
        self.to_upstream.append(piece.data)
        if self._injected.waiting:
            self._send_next_injected()

    def _attach_rewriters(self, entry: InFlightRequest, piece: Piece) -> None:
        """Have the response edited if it may carry broker addresses or versions."""
        api_key, version = entry.api_key, entry.version
        if (first := node_endpoints.FIRST_VERSION.get(api_key)) is not None:
            if version >= first:
                entry.endpoint_rewriter = EndpointRewriter(api_key, version, self._context.map_address)
        elif api_key in CARRYING_ADDRESSES:
            entry.rewrite = lambda frame: rewrite_addresses(
                api_key, version, frame, self._context.map_address
            )
        elif api_key == _API_VERSIONS:
            self._learn_software(version, piece)
            entry.rewrite = lambda frame: self._offer(version, frame)
        elif api_key == _SASL_AUTHENTICATE:
            entry.rewrite = lambda frame: self._authenticated(version, entry.started, frame)

    def _attach_tap(self, entry: InFlightRequest, header: RequestHeader, piece: Piece) -> None:
        """Have the response looked at if it tells of members, or of names that are looked for."""
        if header.api_key in OBSERVED:
            if self._connection is not None and piece.last:
                max_elements = self._limits.group_call_max_elements
                request = decode_group_call(piece.data, header, RequestId(next(_request_ids)), max_elements)
                if request is not None:
                    self._tap_call(entry, request)
        elif header.api_key == _METADATA and header.version >= TOPIC_IDS_FROM and self._context.topics.wanted:
            entry.tap = tap_topic_names(header.version, self._context.topics)

    def _tap_call(self, entry: InFlightRequest, request: Request) -> None:
        """Have a call that passes through looked at, and its response."""
        if request.api_key in ASKED:
            self.passed.append((request, None))
        entry.tap = tap_group_call(
            request,
            lambda response: self.passed.append((request, response)),
            self._limits.group_call_max_elements,
        )

    def _learn_software(self, version: int, piece: Piece) -> None:
        """Who the client says that it is; nobody's business but that of people who watch, so never an error."""
        if version < api_versions.SOFTWARE_FROM or not piece.last:
            return
        try:
            offset = body_offset(piece.data, read_header(piece.data))
            max_elements = self._limits.group_call_max_elements
            message, _ = decode_bounded(ApiVersionsRequest, version, piece.data, offset, max_elements)
        except (CodecError, HeaderError):
            return
        self._software = api_versions.software(message)

    def _new_entry(self, origin: Origin, header: RequestHeader) -> InFlightRequest:
        return InFlightRequest(
            origin, header.api_key, header.version, header.correlation_id, self._context.clock()
        )

    # -- the translation -----------------------------------------------------------------------------------

    def _translate(self, header: RequestHeader, frame: bytes) -> None:
        message = self._group_calls.read(header, frame)
        if isinstance(message, Treatment):
            self._apply_treatment(message, header, Piece(frame, first=True, last=True, frame_size=len(frame)))
            return
        client_id = client_id_of(frame, header)
        if isinstance(message, HeartbeatRequest) and len(frame) <= MAX_CACHED_FRAME_BYTES:
            self._last_heartbeat = CachedHeartbeat(frame, header, client_id, message)
            self._passing_heartbeat_tap = None
        self._hand_to_translation(header, frame, client_id, message)

    def _hand_to_translation(
        self, header: RequestHeader, frame: bytes, client_id: str | None, message: Message
    ) -> None:
        """Give a request to the translation."""
        self._context.request_metrics.request(header.api_key, header.version, len(frame), decoded=True)
        request_id = RequestId(next(_request_ids))
        clock = self._context.clock
        self._in_flight.receive(
            InFlightRequest(_LOCAL, header.api_key, header.version, header.correlation_id, clock())
        )
        request = Request(request_id, header.api_key, header.version, client_id, message)
        self._held = header, frame, request
        self._awaiting = request_id
        self.translated = True
        if self._connection is not None:
            self.request = request
        else:
            self._ask_versions(request)

    def _ask_versions(self, request: Request) -> None:
        """Ask on behalf of a client that never did, before its first request for the translation."""

        def learned(frame: bytes) -> None:
            if not self._learn(api_versions.LEARNING_VERSION, frame).broker:
                raise UpstreamError("api_versions", "the broker refused to name its versions")
            self.request = request

        message = ApiVersionsRequest()
        version = api_versions.LEARNING_VERSION
        self._send_injected(
            *self._injected.build(_API_VERSIONS, version, request.client_id, message, learned)
        )

    @property
    def connection(self) -> Connection:
        """What the translation knows of this connection; there once :attr:`request` was given."""
        if self._connection is None:
            raise LookupError("the broker's versions are not known yet")
        return self._connection

    def answer(self, request_id: RequestId, message: Message) -> None:
        """Answer the request that the translation works on.

        :raises LookupError: it works on another one, or on none.
        """
        header, _, _ = self._take_held(request_id)
        self._passing_heartbeat_tap = None
        entry, self._answered_early = self._answered_early, None
        if entry is None:
            entry = self._give_answer(header, message)
        self._context.request_metrics.answered(entry, message, self._context.clock())

    def _answer_early(self, answer: Answer) -> None:
        """Give the answer that is certain to be given, for which :meth:`answer` follows."""
        if self._held is not None and answer.request_id == self._awaiting:
            self._answered_early = self._give_answer(self._held[0], answer.message)

    def _give_answer(self, header: RequestHeader, message: Message) -> InFlightRequest:
        entry = self._in_flight.client[-1]
        if header.api_key == _HEARTBEAT:
            entry.response = heartbeat_response_frame(header.version, header.correlation_id, message)
        else:
            entry.response = response_frame(header.api_key, header.version, header.correlation_id, message)
        self.responses.flush_ready()
        return entry

    def forward(self, request_id: RequestId) -> None:
        """Pass the request that the translation works on to the broker, as it came if the broker has its version.

        :raises LookupError: it works on another one, or on none.
        """
        header, frame, request = self._take_held(request_id)
        entry = self._in_flight.client[-1]
        entry.origin = _RELAYED
        self._in_flight.inject(entry)
        lowest = self.connection.versions.get(header.api_key, (0, 0))[0]
        if request_upgrades.needs_upgrade(header, lowest):
            frame, entry.rewrite = request_upgrades.upgrade(
                header, request.client_id, request.message, lowest
            )
        if header.api_key in OBSERVED:
            self._tap_call(entry, request)
            last = self._last_heartbeat
            if last is not None and last.message is request.message:
                self._passing_heartbeat_tap = entry.tap
        self._context.request_metrics.sent(header.api_key, header.version, injected=False)
        self.to_upstream.append(frame)

    def _take_held(self, request_id: RequestId) -> tuple[RequestHeader, bytes, Request]:
        if self._held is None or request_id != self._awaiting:
            raise LookupError(
                f"request {request_id} is not under way on this connection (but {self._awaiting} is)"
            )
        held, self._held, self._awaiting = self._held, None, None
        self._group_calls.settled()
        return held

    def call(self, call: Call) -> None:
        """Send a request of the translation, behind those that wait already."""
        if not self._injected.confirms(call):
            self._injected.waiting.append(call)
            self._send_next_injected()

    def send_predicted(self, prediction: Prediction) -> None:
        """Send the request that the translation is certain to call for, before :meth:`call` does.

        Nothing happens if it can't be sent at once.
        """
        if self._injected.waiting or not self._may_inject or self._held is None:
            return
        self._send_injected(*self._injected.predicted(self._held[2].client_id, prediction))

    def _send_next_injected(self) -> None:
        if self._injected.waiting and self._may_inject:
            self._send_injected(*self._injected.next())

    @property
    def _may_inject(self) -> bool:
        return (
            not (self._injected.outstanding or self._relaying)
            and self.upstream_open
            and self._sasl.may_inject(awaited=self._awaiting is not None)
        )

    def _send_injected(self, frame: bytes, entry: InFlightRequest) -> None:
        self._context.request_metrics.sent(entry.api_key, entry.version, injected=True)
        self.to_upstream.append(frame)
        self._in_flight.inject(entry)

    # -- the broker's side ---------------------------------------------------------------------------------

    def opened(self) -> None:
        """There is an upstream connection now."""
        self.upstream_open = True
        self.wants_upstream = False

    def _authenticated(self, version: int, asked_at: float, frame: bytes) -> bytes:
        """Learn how long the session lives; requests of the proxy may go out again."""
        offset = response_body_offset(ApiKey.SASL_AUTHENTICATE, version, frame)
        answer = decode(SaslAuthenticateResponse, version, frame, offset)
        if answer.error_code == ErrorCode.NONE and answer.session_lifetime_ms > 0:
            self._sasl.completed(answer.session_lifetime_ms / 1000, asked_at)
            self._send_next_injected()
        return frame

    @property
    def starved(self) -> bool:
        """Whether a call that somebody waits for can't be made, because the SASL session's lifetime is over.

        Somebody is a client whose request needs it, or a client that is gone and can't authenticate again. A
        broker would close the connection at the next request.
        """
        if not self._injected.waiting or self._injected.outstanding or not self._sasl.expired:
            return False
        return self._awaiting is not None or not self.responses.client_open

    def _offer(self, version: int, frame: bytes) -> bytes:
        return api_versions.answer(self._learn(version, frame), version, frame)

    def _learn(self, version: int, frame: bytes) -> api_versions.NegotiatedVersions:
        offer = self._context.negotiator.negotiate(version, frame)
        if offer.broker:
            self._ranges = offer.client
            self._last_heartbeat = None  # it was checked against what was offered before
            self._connection = Connection(
                self._id, self._client_host, offer.broker, self._software, self._peer_closed
            )
        return offer
