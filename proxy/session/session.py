"""One client connection and its upstream connection, as bytes in and bytes out. No socket, no clock, no task.

The shell (``proxy.server.client_connection``) feeds what it reads, and writes what gathers in
:attr:`Conversation.to_upstream` and
:attr:`Conversation.to_client`. What the broker answers has a room of its own (``proxy.session.responses``). What the
translation is to decide gathers in :attr:`Conversation.request` and :attr:`Conversation.replies`; what it decided comes
back by ``answer``, ``forward`` and ``call``.

Theory of operation. A client's requests are taken one after another. Most are passed on as they are, without
waiting for the response of the one before: that is pipelining, and :class:`proxy.session.in_flight.Ledger` keeps the
order. A request for the translation holds up the ones behind it until it is answered or forwarded, as a
broker works on one request of a connection at a time. Requests of the proxy go upstream between the client's,
one at a time, and never inside a request that is still being passed on in pieces, nor during authentication.
"""

from collections import deque
from collections.abc import Callable
from itertools import count

from protocol_codecs import ApiKey, CodecError, ErrorCode, Message, decode, decode_bounded, decode_prefix
from protocol_codecs.messages.api_versions import ApiVersionsRequest
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateResponse
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest
from proxy.session.group_calls import GroupCalls, Treatment, refusal
from proxy.session.heartbeat_cache import LARGEST, ReadRequest, heartbeat_answer
from proxy.session.in_flight import Exchange, Ledger, Source
from proxy.session.injected_requests import OwnRequests
from proxy.session.listener_context import ClientError, Terms, UpstreamError, check_offered, check_token
from proxy.session.request_metrics import api_name
from proxy.session.response_tap import TOPIC_IDS_FROM, call_in, watched_call, watched_names
from proxy.session.responses import Responses
from proxy.session.sasl import BEFORE_AUTHENTICATION, SASL_APIS, Authentication, begins_with_gssapi
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
from translation.actions import Call, Connection, ConnectionId, Request, RequestId, never
from translation.passthrough.observer import ASKED, OBSERVED

# What each request is compared with. Bound once: Python 3.11 looks for a member of an enum for as long as a small
# message takes to be decoded.
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_HEARTBEAT = int(ApiKey.HEARTBEAT)
_METADATA = int(ApiKey.METADATA)
_PRODUCE = int(ApiKey.PRODUCE)
_SASL_AUTHENTICATE = int(ApiKey.SASL_AUTHENTICATE)
_RELAYED, _LOCAL = Source.RELAYED, Source.LOCAL
_DECODE = Treatment.DECODE

_LOOKED_INTO = (
    {_API_VERSIONS, _METADATA, _SASL_AUTHENTICATE}
    | node_endpoints.FIRST_VERSION.keys()
    | CARRYING_ADDRESSES
    | OBSERVED
)
"""The APIs whose responses are edited or looked at, in some versions at least."""

_request_ids = count(1)


class Conversation:
    """See the module. The translation knows the connection by ``connection_id`` and ``client_host``.

    ``has_hung_up`` is for the translation: see :class:`translation.actions.Connection`. ``go_on`` is called when
    :meth:`process` can go on for a reason that lies outside of this connection.
    """

    def __init__(
        self,
        connection_id: ConnectionId,
        client_host: str,
        terms: Terms,
        has_hung_up: Callable[[], bool] = never,
        go_on: Callable[[], None] = lambda: None,
    ) -> None:
        self.to_upstream: list[bytes] = []
        """Bytes to be written to the broker, in order; the shell takes them out."""
        self.request: Request | None = None
        """A request for the translation; the shell takes it out."""
        self._own = OwnRequests(terms.clock, self._inject)
        self.replies = self._own.replies
        """Responses to calls of the translation; the shell takes them out."""
        self.calls_waiting = self._own.waiting
        """Calls of the translation that could not be sent yet."""
        self.passed: deque[tuple[Request, Message | None]] = deque()
        """Group calls that pass through, with their responses: those of
        :data:`translation.passthrough.observer.OBSERVED`, and before that those of ``ASKED`` when they are passed on.
        The shell takes them out."""
        self.upstream_open = False
        """Whether there is an upstream connection; set by :meth:`opened`."""
        self.wants_upstream = False
        """Whether a request waits for the upstream connection to be opened."""
        self.begun = 0
        """How many requests have begun."""
        self.spoke = False
        """Whether the client has sent a valid request."""
        self.translated = False
        """Whether the translation has heard of this connection."""

        self._id = connection_id
        self._client_host = client_host
        self._software = ""
        self._has_hung_up = has_hung_up
        self._terms = terms
        self._limits = terms.limits
        self._requests = FrameSplitter(
            min(terms.limits.first_frame_max_bytes, terms.limits.frame_max_bytes), enough=is_enough
        )
        self.receive_from_client: Callable[[bytes], None] = self._requests.feed
        """Takes what was read from the client; :meth:`process` looks at it."""
        self._ledger = Ledger()
        self._ranges: Ranges = terms.negotiator.default_ranges
        self._connection: Connection | None = None  # made once the broker's ranges are known

        self._postponed: Piece | None = None  # the beginning of a request that nothing is done with yet
        self._group_calls = GroupCalls(terms, go_on)
        self._held: tuple[RequestHeader, bytes, Request] | None = (
            None  # the request that the translation works on
        )
        self._awaiting: RequestId | None = None
        self._answered_ahead: Exchange | None = None  # what it was asked in
        self._last_heartbeat: ReadRequest | None = None
        self._passing_on = False  # in the middle of a request that goes upstream in pieces
        self._taking = True

        self._sasl = Authentication(terms.clock)
        self.responses = Responses(self._ledger, self._sasl, terms)
        """What the broker answers; the shell feeds it what it reads there."""
        self.to_client = self.responses.to_client
        """Bytes to be written to the client, in order; the shell takes them out."""

    # -- the client's side ---------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is under way: no response outstanding, no request half passed on."""
        return self._ledger.idle and not self._passing_on and self._postponed is None

    @property
    def at_rest(self) -> bool:
        """Whether nothing at all is under way, of the client or of the proxy, and no request has begun to arrive."""
        return self.idle and not self._own.waiting and not self._requests.in_frame and self._awaiting is None

    @property
    def awaits_rest(self) -> bool:
        """Whether the client has begun a request whose rest is waited for."""
        if self._passing_on or self._group_calls.collecting:
            return True
        return self._free_for_next and self._requests.in_frame

    @property
    def request_size(self) -> int:
        """The size of the request that is under way, as far as it is known, in bytes."""
        return self._requests.frame_size if self._passing_on or self._group_calls.collecting else 0

    @property
    def held_back(self) -> int:
        """Bytes that were read from the client and wait for an earlier request; 0 if none does."""
        if (
            not self._requests.buffered
            or self._passing_on
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
            and self._taking
            and self._postponed is None
            and len(self._ledger.client) < self._limits.in_flight_requests
        )

    @property
    def in_request(self) -> bool:
        """Whether the client has sent a part of a request: if it vanishes now, it vanished in mid-frame."""
        return self._requests.in_frame

    @property
    def can_inject(self) -> bool:
        """Whether requests of the proxy can still be sent after the client is gone."""
        return self.upstream_open and not self._passing_on

    @property
    def may_outlive_client(self) -> bool:
        """Whether the upstream connection is of use after the client is gone.

        It is not while the broker owes the answer to a JoinGroup: it answers no other request before, and a classic
        group never answers a JoinGroup that a later one of the same member has overtaken.
        """
        return self.can_inject and all(one.api_key != ApiKey.JOIN_GROUP for one in self._ledger.upstream)

    def passthrough_bytes(self) -> int:
        """Bytes that the client will send next and that go to the broker whatever they are."""
        return self._requests.unfed_bytes if self._passing_on else 0

    def spliced_upstream(self, n: int) -> None:
        """So many of them went to the broker past this conversation."""
        self._requests.skip(n)
        if not self._requests.in_frame:
            self._passing_on = False
            self._inject()

    def stop_taking(self) -> None:
        """Look at no further request; the one that is half passed on is completed."""
        self._taking = False

    def client_closed(self) -> None:
        """The client is gone: nothing more is read from or written to it."""
        self._taking = False
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
        if self._passing_on or self._group_calls.collecting:
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
        if self._sasl.bare and self._sasl.is_token(piece.data):
            self._pass_token(piece)
            return
        self.begun += 1
        last = self._last_heartbeat
        if last is not None and (again := last.again(piece.data)) is not None:
            self._sasl.ordinary_request()
            self._hand_over(again, piece.data, last.client_id, last.message)
            return
        header = read_header(piece.data)
        if header.api_key == _API_VERSIONS and header.version > NEWEST_REVIEWED[_API_VERSIONS]:
            self._answer_here(header, piece, api_versions.refusal(header.correlation_id))
            return
        check_offered(header, self._ranges, self._terms.meter)
        if not (self.spoke and self.upstream_open) and not self._has_upstream(piece):
            return
        if header.api_key in TRANSLATED:
            self._sasl.ordinary_request()
            treatment = self._group_calls.begin(header, piece, trusted=self.responses.trusted)
            if treatment is _DECODE:
                self._translate(header, piece.data)
            else:
                self._treat(treatment, header, piece)
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
            asked = Exchange(Source.RELAYED, ApiKey.SASL_AUTHENTICATE, 0, 0, self._terms.clock(), bare=True)
            self._ledger.relay(asked)
        self._terms.meter.request(ApiKey.SASL_AUTHENTICATE, 0, piece.frame_size, decoded=False)
        self._terms.meter.sent(ApiKey.SASL_AUTHENTICATE, 0, injected=False)
        self.to_upstream.append(piece.data)
        self._passing_on = not piece.last

    def _go_on(self, piece: Piece) -> None:
        """Another piece of the request that has begun."""
        if not self._group_calls.collecting:
            self.to_upstream.append(piece.data)
            if piece.last:
                self._passing_on = False
                self._inject()
        elif (frame := self._group_calls.add(piece)) is not None:
            self._translate(read_header(frame), frame)

    def _answer_here(self, header: RequestHeader, piece: Piece, response: bytes) -> None:
        """Answer a request whatever its body says, in its turn."""
        if not piece.last:
            raise ClientError("oversized", f"{api_name(header.api_key)} in {piece.frame_size} bytes")
        self._answer_at_once(header, response, piece)

    def _treat(self, treatment: Treatment, header: RequestHeader, piece: Piece) -> None:
        """Do with a group call what was decided, if it is not to be decoded now."""
        match treatment:
            case Treatment.RELAY:
                self._group_calls.settled()
                self._relay(header, piece)
            case Treatment.REFUSE:
                self._group_calls.settled()
                self._answer_at_once(header, refusal(header), piece)
            case Treatment.SEE_IF_LET_IN:
                self._postponed = piece
                client_id = client_id_of(piece.data, header)
                self._send_own(*self._own.question_if_let_in(client_id, self._group_calls.let_in))
            case Treatment.WAIT:
                self._postponed = piece

    def _answer_at_once(self, header: RequestHeader, response: bytes, piece: Piece) -> None:
        """Answer a request without asking anybody."""
        exchange = self._exchange(_LOCAL, header)
        exchange.response = response
        self._ledger.receive(exchange)
        self._terms.meter.request(header.api_key, header.version, piece.frame_size, decoded=True)
        self.responses.flush_ready()

    def _relay(self, header: RequestHeader, piece: Piece) -> None:
        api_key = header.api_key
        self._terms.meter.relayed(api_key, header.version, piece.frame_size)
        if api_key != _PRODUCE or expects_response(piece.data, header):
            exchange = Exchange(_RELAYED, api_key, header.version, header.correlation_id, self._terms.clock())
            if api_key in _LOOKED_INTO:
                self._arrange_edits(exchange, piece)
                self._arrange_watch(exchange, header, piece)
            self._ledger.relay(exchange)
        self.to_upstream.append(piece.data)
        self._passing_on = not piece.last
        if self._own.waiting:
            self._inject()

    def _arrange_edits(self, exchange: Exchange, piece: Piece) -> None:
        """Have the response edited if it may carry broker addresses or versions."""
        api_key, version = exchange.api_key, exchange.version
        if (first := node_endpoints.FIRST_VERSION.get(api_key)) is not None:
            if version >= first:
                exchange.endpoints = EndpointRewriter(api_key, version, self._terms.map_address)
        elif api_key in CARRYING_ADDRESSES:
            exchange.edit = lambda frame: rewrite_addresses(api_key, version, frame, self._terms.map_address)
        elif api_key == _API_VERSIONS:
            self._learn_software(version, piece)
            exchange.edit = lambda frame: self._offer(version, frame)
        elif api_key == _SASL_AUTHENTICATE:
            exchange.edit = lambda frame: self._authenticated(version, exchange.started, frame)

    def _arrange_watch(self, exchange: Exchange, header: RequestHeader, piece: Piece) -> None:
        """Have the response looked at if it tells of members, or of names that are looked for."""
        if header.api_key in OBSERVED:
            if self._connection is not None and piece.last:
                most_elements = self._limits.group_call_max_elements
                request = call_in(piece.data, header, RequestId(next(_request_ids)), most_elements)
                if request is not None:
                    self._watch(exchange, request)
        elif header.api_key == _METADATA and header.version >= TOPIC_IDS_FROM and self._terms.topics.wanted:
            exchange.watched = watched_names(header.version, self._terms.topics)

    def _watch(self, exchange: Exchange, request: Request) -> None:
        """Have a call that passes through looked at, and its response."""
        if request.api_key in ASKED:
            self.passed.append((request, None))
        exchange.watched = watched_call(
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
            most_elements = self._limits.group_call_max_elements
            message, _ = decode_bounded(ApiVersionsRequest, version, piece.data, offset, most_elements)
        except (CodecError, HeaderError):
            return
        self._software = api_versions.software(message)

    def _exchange(self, source: Source, header: RequestHeader) -> Exchange:
        return Exchange(source, header.api_key, header.version, header.correlation_id, self._terms.clock())

    # -- the translation -----------------------------------------------------------------------------------

    def _translate(self, header: RequestHeader, frame: bytes) -> None:
        message = self._group_calls.read(header, frame)
        if isinstance(message, Treatment):
            self._treat(message, header, Piece(frame, first=True, last=True, frame_size=len(frame)))
            return
        client_id = client_id_of(frame, header)
        if header.api_key == _HEARTBEAT and len(frame) <= LARGEST:
            self._last_heartbeat = ReadRequest(frame, header, client_id, message)
        self._hand_over(header, frame, client_id, message)

    def _hand_over(
        self, header: RequestHeader, frame: bytes, client_id: str | None, message: Message
    ) -> None:
        """Give a request to the translation."""
        self._terms.meter.request(header.api_key, header.version, len(frame), decoded=True)
        request_id = RequestId(next(_request_ids))
        clock = self._terms.clock
        self._ledger.receive(Exchange(_LOCAL, header.api_key, header.version, header.correlation_id, clock()))
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
        self._send_own(*self._own.made(_API_VERSIONS, version, request.client_id, message, learned))

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
        exchange, self._answered_ahead = self._answered_ahead, None
        if exchange is None:
            exchange = self._give_answer(header, message)
        self._terms.meter.answered(exchange, message, self._terms.clock())

    def answer_ahead(self, request_id: RequestId, message: Message) -> None:
        """Give the answer that is certain to be given, for which :meth:`answer` follows."""
        if self._held is not None and request_id == self._awaiting:
            self._answered_ahead = self._give_answer(self._held[0], message)

    def _give_answer(self, header: RequestHeader, message: Message) -> Exchange:
        exchange = self._ledger.client[-1]
        if header.api_key == _HEARTBEAT:
            exchange.response = heartbeat_answer(header.version, header.correlation_id, message)
        else:
            exchange.response = response_frame(header.api_key, header.version, header.correlation_id, message)
        self.responses.flush_ready()
        return exchange

    def forward(self, request_id: RequestId) -> None:
        """Pass the request that the translation works on to the broker, as it came if the broker has its version.

        :raises LookupError: it works on another one, or on none.
        """
        header, frame, request = self._take_held(request_id)
        exchange = self._ledger.client[-1]
        exchange.source = _RELAYED
        self._ledger.inject(exchange)
        lowest = self.connection.versions.get(header.api_key, (0, 0))[0]
        if request_upgrades.needs_upgrade(header, lowest):
            frame, exchange.edit = request_upgrades.upgrade(
                header, request.client_id, request.message, lowest
            )
        if header.api_key in OBSERVED:
            self._watch(exchange, request)
        self._terms.meter.sent(header.api_key, header.version, injected=False)
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
        if not self._own.was_ahead(call):
            self._own.waiting.append(call)
            self._inject()

    def call_ahead(self, message: Message) -> None:
        """Send the ConsumerGroupHeartbeat that is certain to be called for, before :meth:`call` does.

        Nothing happens if it can't be sent at once.
        """
        if self._own.waiting or not self._may_inject or self._held is None:
            return
        self._send_own(*self._own.send_ahead(self._held[2].client_id, message))

    def _inject(self) -> None:
        if self._own.waiting and self._may_inject:
            self._send_own(*self._own.next())

    @property
    def _may_inject(self) -> bool:
        return (
            not (self._own.outstanding or self._passing_on)
            and self.upstream_open
            and self._sasl.may_add(awaited=self._awaiting is not None)
        )

    def _send_own(self, frame: bytes, exchange: Exchange) -> None:
        self._terms.meter.sent(exchange.api_key, exchange.version, injected=True)
        self.to_upstream.append(frame)
        self._ledger.inject(exchange)

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
            self._inject()
        return frame

    @property
    def starved(self) -> bool:
        """Whether a call that somebody waits for can't be made, because the SASL session's lifetime is over.

        Somebody is a client whose request needs it, or a client that is gone and can't authenticate again. A
        broker would close the connection at the next request.
        """
        if not self._own.waiting or self._own.outstanding or not self._sasl.expired:
            return False
        return self._awaiting is not None or not self.responses.client_open

    def _offer(self, version: int, frame: bytes) -> bytes:
        return api_versions.answer(self._learn(version, frame), version, frame)

    def _learn(self, version: int, frame: bytes) -> api_versions.NegotiatedVersions:
        offer = self._terms.negotiator.negotiate(version, frame)
        if offer.broker:
            self._ranges = offer.client
            self._last_heartbeat = None  # it was checked against what was offered before
            self._connection = Connection(
                self._id, self._client_host, offer.broker, self._software, self._has_hung_up
            )
        return offer
