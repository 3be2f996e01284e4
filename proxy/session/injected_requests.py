"""The proxy's own requests on a client's upstream connection: what the translation asks of the broker.

One at a time is under way, since a broker processes one request of a connection at a time and later ones may depend on
its answer. When one may be sent at all the session knows.
"""

from collections import deque
from collections.abc import Callable
from itertools import count

from protocol_codecs import ApiKey, Message, decode
from protocol_codecs.messages.metadata import MetadataRequest
from protocol_codecs.registry import APIS
from proxy.session.heartbeat_cache import HeartbeatFrames
from proxy.session.in_flight import InFlightRequest, Origin
from proxy.session.speculation import Prediction, Speculation
from proxy.wire.framing import request_frame, response_body_offset
from translation.actions import Answer, Call, CallId
from translation.upstream.consumer_group_heartbeat import HEARTBEAT_VERSION

FIRST_CORRELATION_ID = 1 << 30
"""Correlation ids of these requests start here, so that they stand out in a capture."""

# Bound once: Python 3.11 looks for a member of an enum for as long as a small message takes to be decoded.
_CONSUMER_GROUP_HEARTBEAT = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)
_METADATA = int(ApiKey.METADATA)
_EMPTY_METADATA_VERSION = 1
"""The lowest in which an empty list of topics means none; every broker has it."""

_INJECTED = Origin.INJECTED


class InjectedRequests:
    """Those of one connection. ``clock`` gives seconds, for latencies.

    ``on_sendable`` is called when a response is in :attr:`replies` and another call waits; ``on_early_answer`` gets an
    answer that is certain before the translation has seen the reply.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        on_sendable: Callable[[], None],
        on_early_answer: Callable[[Answer], None],
    ) -> None:
        self.waiting: deque[Call] = deque()
        """Calls of the translation that are not sent yet, in order."""
        self.outstanding = False
        """Whether a call is under way."""
        self.replies: deque[tuple[CallId, Message]] = deque()
        """Responses to calls."""
        self._clock = clock
        self._on_sendable = on_sendable
        self._call: Call | None = None
        self._correlation_ids = count(FIRST_CORRELATION_ID)
        self._heartbeats = HeartbeatFrames()
        self._speculation = Speculation(on_early_answer)

    def next(self) -> tuple[bytes, InFlightRequest]:
        """The first call that waits, to be sent now."""
        self._call = call = self.waiting.popleft()
        self.outstanding = True
        return self.build(call.api_key, call.version, call.client_id, call.message, self._replied)

    def predicted(self, client_id: str | None, prediction: Prediction) -> tuple[bytes, InFlightRequest]:
        """The frame of a ConsumerGroupHeartbeat that the translation is certain to call for, to be sent now."""
        self._speculation.sent(prediction)
        self.outstanding = True
        message = prediction.upstream_request
        return self.build(_CONSUMER_GROUP_HEARTBEAT, HEARTBEAT_VERSION, client_id, message, self._replied)

    def probe(
        self, client_id: str | None, answered: Callable[[bytes], None]
    ) -> tuple[bytes, InFlightRequest]:
        """A Metadata request without topics, to be sent now.

        A broker answers it to every client that it lets in, whatever that may do, and closes the connection of others.
        """
        message = MetadataRequest(topics=())
        return self.build(_METADATA, _EMPTY_METADATA_VERSION, client_id, message, answered)

    def confirms(self, call: Call) -> bool:
        """Whether this call was sent before the translation made it.

        :raises LookupError: another one was sent.
        """
        if not self._speculation.confirms(call):
            return False
        self._call = call
        return True

    def _replied(self, frame: bytes) -> None:
        call = self._call
        if call is None:
            raise LookupError("an answer to what nobody has called for")
        if call.api_key == _CONSUMER_GROUP_HEARTBEAT:
            message = self._heartbeats.read(call.version, frame)
        else:
            offset = response_body_offset(call.api_key, call.version, frame)
            message = decode(APIS[call.api_key].response, call.version, frame, offset)
        self.outstanding = False
        self._speculation.replied(message)
        self.replies.append((call.call_id, message))
        if self.waiting:
            self._on_sendable()

    def build(
        self,
        api_key: int,
        version: int,
        client_id: str | None,
        message: Message,
        on_response: Callable[[bytes], None],
    ) -> tuple[bytes, InFlightRequest]:
        """A request's frame, and the exchange that gives ``on_response`` the response's."""
        correlation_id = next(self._correlation_ids)
        entry = InFlightRequest(
            _INJECTED, api_key, version, correlation_id, self._clock(), on_response=on_response
        )
        if api_key == _CONSUMER_GROUP_HEARTBEAT:
            return self._heartbeats.frame(version, correlation_id, client_id, message), entry
        return request_frame(api_key, version, correlation_id, client_id, message), entry
