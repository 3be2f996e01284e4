"""The proxy's own requests on a client's upstream connection: what the translation asks of the broker.

One at a time is under way, since a broker processes one request of a connection at a time and later ones may depend on
its answer. When one may be sent at all the conversation knows.
"""

from collections import deque
from collections.abc import Callable
from itertools import count

from protocol_codecs import ApiKey, Message, decode
from protocol_codecs.registry import APIS
from proxy.envelope import request_frame, response_body_offset
from proxy.ledger import Exchange, Source
from proxy.repeats import UpstreamHeartbeats
from translation.actions import Call, CallId

FIRST_CORRELATION_ID = 1 << 30
"""Correlation ids of these requests start here, so that they stand out in a capture."""

# Bound once: Python 3.11 looks for a member of an enum for as long as a small message takes to be decoded.
_CONSUMER_GROUP_HEARTBEAT = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)
_INJECTED = Source.INJECTED


class OwnRequests:
    """Those of one connection. ``clock`` gives seconds, for latencies."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.waiting: deque[Call] = deque()
        """Calls of the translation that are not sent yet, in order."""
        self.outstanding = False
        """Whether a call is under way."""
        self.replies: deque[tuple[CallId, Message]] = deque()
        """Responses to calls."""
        self._clock = clock
        self._correlation_ids = count(FIRST_CORRELATION_ID)
        self._heartbeats = UpstreamHeartbeats()

    def next(self, then: Callable[[], None]) -> tuple[bytes, Exchange]:
        """The first call that waits, to be sent now.

        ``then`` is called when its response is in ``replies`` and another one waits.
        """
        call = self.waiting.popleft()

        def replied(frame: bytes) -> None:
            if call.api_key == _CONSUMER_GROUP_HEARTBEAT:
                message = self._heartbeats.read(call.version, frame)
            else:
                offset = response_body_offset(call.api_key, call.version, frame)
                message = decode(APIS[call.api_key].response, call.version, frame, offset)
            self.outstanding = False
            self.replies.append((call.call_id, message))
            if self.waiting:
                then()

        self.outstanding = True
        if call.api_key != _CONSUMER_GROUP_HEARTBEAT:
            return self.made(call.api_key, call.version, call.client_id, call.message, replied)
        version, correlation_id = call.version, next(self._correlation_ids)
        exchange = Exchange(
            _INJECTED, _CONSUMER_GROUP_HEARTBEAT, version, correlation_id, self._clock(), receive=replied
        )
        return self._heartbeats.frame(version, correlation_id, call.client_id, call.message), exchange

    def made(
        self,
        api_key: int,
        version: int,
        client_id: str | None,
        message: Message,
        receive: Callable[[bytes], None],
    ) -> tuple[bytes, Exchange]:
        """A request's frame, and the exchange that gives ``receive`` the response's."""
        correlation_id = next(self._correlation_ids)
        exchange = Exchange(_INJECTED, api_key, version, correlation_id, self._clock(), receive=receive)
        return request_frame(api_key, version, correlation_id, client_id, message), exchange
