"""Sends the proxy's own requests on a client's upstream connection: calls of the translation, and two of the session.

One call is under way at a time: a broker processes one request of a connection at a time, and later calls may depend on
its reply. Only behind commits the next call goes out at once; what depends on their replies is called for when they are
there. A call goes out between the client's requests, never inside one that is relayed in pieces, and never during
authentication (``proxy.session.sasl``).
"""

from collections import deque
from collections.abc import Callable
from itertools import count

from protocol_codecs import ApiKey, Message, decode
from protocol_codecs.messages.api_versions import ApiVersionsRequest
from protocol_codecs.messages.metadata import MetadataRequest
from protocol_codecs.registry import APIS
from proxy.session.core import SessionCore
from proxy.session.events import CallReturned, SaslSessionExpired
from proxy.session.heartbeat_cache import HeartbeatFrames
from proxy.session.in_flight import InFlightRequest, Origin
from proxy.session.prediction import Prediction
from proxy.session.session_state import ClientState, RequestState, UpstreamState
from proxy.wire.api_versions import LEARNING_VERSION
from proxy.wire.framing import request_frame, response_body_offset
from translation.actions import Answer, Call
from translation.passthrough.commits import COMMITS
from translation.upstream.consumer_group_heartbeat import HEARTBEAT_VERSION

FIRST_CORRELATION_ID = 1 << 30
"""Correlation ids of these requests start here, so that they stand out in a capture."""

# Bound once: Python 3.11 looks for a member of an enum for as long as a small message takes to be decoded.
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_CONSUMER_GROUP_HEARTBEAT = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)
_METADATA = int(ApiKey.METADATA)
_EMPTY_METADATA_VERSION = 1
"""The lowest in which an empty list of topics means none; every broker has it."""

_INJECTED = Origin.INJECTED
_GONE = ClientState.GONE
_OPEN = UpstreamState.OPEN
_RELAYING, _TRANSLATING = RequestState.RELAYING, RequestState.TRANSLATING


class InjectedRequests:
    """The injected requests of one session.

    ``on_predicted_answer`` is called with the answer to the client that a reply of the broker makes certain.
    """

    def __init__(self, core: SessionCore, on_predicted_answer: Callable[[Answer], None]) -> None:
        self.pending: deque[Call] = deque()
        """Calls of the translation that have not been sent yet, in order."""
        self._core = core
        self._state = core.state
        self._outstanding: deque[Call | None] = deque()
        """Calls that the broker has not answered, in order; None for one that was sent before it was called for."""
        self._correlation_ids = count(FIRST_CORRELATION_ID)
        self._heartbeats = HeartbeatFrames()
        self._prediction: Prediction | None = None
        """Where the request came from that was sent before its call; the broker has not answered it."""
        self._on_predicted_answer = on_predicted_answer

    def call(self, call: Call) -> None:
        """Send a call of the translation, behind those that are pending.

        :raises LookupError: another call than this was sent in advance.
        """
        prediction = self._prediction
        if prediction is None or self._outstanding[-1] is not None:
            self.pending.append(call)
            self.send_next()
        elif call.message is prediction.upstream_request:
            self._outstanding[-1] = call
        else:
            raise LookupError(
                f"{prediction.upstream_request!r} was sent, but the translation called for {call!r}"
            )

    def send_predicted(self, client_id: str | None, prediction: Prediction) -> None:
        """Send the ConsumerGroupHeartbeat that the translation is certain to call for, unless something goes first."""
        if self.pending or self._outstanding or not self._may_send:
            return
        self._prediction = prediction
        self._outstanding.append(None)
        message = prediction.upstream_request
        self._send(_CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, client_id, message, self._returned)

    def probe(self, client_id: str | None, on_response: Callable[[bytes], None]) -> None:
        """Send a Metadata request without topics.

        A broker answers it for every client that it has let in, whatever its rights; it closes other connections.
        """
        self._send(_METADATA, _EMPTY_METADATA_VERSION, client_id, MetadataRequest(topics=()), on_response)

    def ask_versions(self, client_id: str | None, on_response: Callable[[bytes], None]) -> None:
        """Send an ApiVersions request on behalf of a client that sent none."""
        self._send(_API_VERSIONS, LEARNING_VERSION, client_id, ApiVersionsRequest(), on_response)

    def authentication(
        self, api_key: int, version: int, message: Message, on_response: Callable[[bytes], None]
    ) -> None:
        """Send a request of the proxy's own authentication; nothing else is sent meanwhile."""
        self._send(api_key, version, None, message, on_response)

    def send_next(self) -> None:
        """Send the first pending call if it may go out now."""
        while self.pending and self._may_send:
            call = self.pending.popleft()
            self._outstanding.append(call)
            self._send(call.api_key, call.version, call.client_id, call.message, self._returned)

    def check_expiry(self) -> None:
        """Return SaslSessionExpired to the shell if a needed call can't be sent because the session's lifetime is over.

        A call is needed if a client's request waits for it, or if the client is gone and can't authenticate again. A
        broker would close the connection at the next request.
        """
        if not self.pending or self._outstanding or not self._core.sasl.expired:
            return
        if self._state.request is _TRANSLATING or self._state.client is _GONE:
            self._core.events.append(SaslSessionExpired())

    @property
    def _may_send(self) -> bool:
        state = self._state
        last = self._outstanding[-1] if self._outstanding else None
        return (
            (not self._outstanding or (last is not None and last.api_key in COMMITS))
            and state.request is not _RELAYING
            and state.upstream is _OPEN
            and self._core.sasl.may_inject(awaited=state.request is _TRANSLATING)
        )

    def _returned(self, frame: bytes) -> None:
        call = self._outstanding.popleft()
        if call is None:
            raise LookupError("a response to a request that the translation has not called for")
        if call.api_key == _CONSUMER_GROUP_HEARTBEAT:
            message = self._heartbeats.read(call.version, frame)
        else:
            offset = response_body_offset(call.api_key, call.version, frame)
            message = decode(APIS[call.api_key].response, call.version, frame, offset)
        prediction, self._prediction = self._prediction, None
        if prediction is not None and (answer := prediction.answer_to(message)) is not None:
            self._on_predicted_answer(answer)
        self._core.events.append(CallReturned(call.call_id, message))
        if self.pending:
            self.send_next()

    def _send(
        self,
        api_key: int,
        version: int,
        client_id: str | None,
        message: Message,
        on_response: Callable[[bytes], None],
    ) -> None:
        core = self._core
        correlation_id = next(self._correlation_ids)
        if api_key == _CONSUMER_GROUP_HEARTBEAT:
            frame = self._heartbeats.frame(version, correlation_id, client_id, message)
        else:
            frame = request_frame(api_key, version, correlation_id, client_id, message)
        listener = core.listener
        listener.request_metrics.sent(api_key, version, injected=True)
        core.to_upstream.append(frame)
        core.in_flight.inject(
            InFlightRequest(
                _INJECTED, api_key, version, correlation_id, listener.clock(), on_response=on_response
            )
        )
