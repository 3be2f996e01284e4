"""Tracks the requests in flight on a connection: matches responses to them by order and correlation id; a response
that does not fit ends the connection.

It knows what the broker has to answer, and what the client waits for. A Kafka broker answers the requests of one
connection in order, so two queues are enough:

- *upstream*: requests that the broker has not answered yet, whether relayed or injected. The next response belongs to
  the first of them, and its correlation id must match.
- *client*: requests of the client without a response yet, whoever answers them. The proxy may have answered one of them
  before the broker has answered those ahead of it; that response waits here.

Behind a request at the translation nothing is relayed before it is answered or relayed itself (as in a broker). So a
broker's response for the client always belongs to the first in the client's queue and can be passed on as it arrives.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum

import msgspec

from proxy.session.response_tap import ResponseTap
from proxy.wire.endpoint_rewriter import EndpointRewriter
from proxy.wire.framing import correlation_id_of

Rewrite = Callable[[bytes], bytes]
"""Turns the frame of a broker's response into the frame for the client."""


class Origin(Enum):
    """Who sent a request, and who answers it."""

    RELAYED = "relayed"
    """A client's request that the broker answers."""

    LOCAL = "local"
    """A client's request that is answered here."""

    INJECTED = "injected"
    """A request of the proxy itself."""


_INJECTED = Origin.INJECTED
"""Bound once: Python 3.11 looks for a member of an enum for as long as a message takes to be decoded."""


class InFlightRequest(msgspec.Struct):
    """One request and its response.

    ``started`` is when it was read or made, in seconds. ``rewrite`` changes the whole response on its way to the
    client, ``endpoint_rewriter`` changes it piece by piece as it arrives; at most one of them is set. ``on_passed`` is
    called when its last piece has passed. ``on_response`` gets the response of an injected request. ``response`` is
    that of a local one, once it is known. ``headerless``: the request is a SASL token without a header, and so is its
    response. ``tap`` gets what the client gets.

    The garbage collector tracks this class: ``on_response`` leads back to the connection, so a connection that ends
    with a response outstanding is a cycle.
    """

    origin: Origin
    api_key: int
    version: int
    correlation_id: int
    started: float
    rewrite: Rewrite | None = None
    endpoint_rewriter: EndpointRewriter | None = None
    on_passed: Callable[[], None] | None = None
    on_response: Callable[[bytes], None] | None = None
    response: bytes | None = None
    headerless: bool = False
    tap: ResponseTap | None = None


class UnexpectedResponseError(Exception):
    """The broker sent a response that matches no request; the connection has to be closed."""


class InFlightRequests:
    """The requests in flight on one connection."""

    __slots__ = ("client", "inject", "receive", "upstream")

    def __init__(self) -> None:
        self.client: deque[InFlightRequest] = deque()
        self.upstream: deque[InFlightRequest] = deque()
        self.receive: Callable[[InFlightRequest], None] = self.client.append
        """Add a request of the client that was not sent to the broker, at least not yet."""
        self.inject: Callable[[InFlightRequest], None] = self.upstream.append
        """Add a request that was sent to the broker: one of the proxy, or one that :attr:`receive` added before."""

    @property
    def idle(self) -> bool:
        """Whether no response is outstanding."""
        return not self.client and not self.upstream

    def relay(self, entry: InFlightRequest) -> None:
        """Add a request of the client that was sent to the broker at once."""
        self.client.append(entry)
        self.upstream.append(entry)

    def expected(self, response: bytes) -> InFlightRequest:
        """Return the request that this response belongs to.

        :raises UnexpectedResponseError: no request is in flight, or the correlation id is another one.
        :raises MalformedMessage: the response has no correlation id.
        """
        if self.upstream and self.upstream[0].headerless:
            return self.upstream[0]
        correlation_id = correlation_id_of(response)
        if not self.upstream:
            raise UnexpectedResponseError(f"a response with correlation id {correlation_id} to no request")
        entry = self.upstream[0]
        if entry.correlation_id != correlation_id:
            raise UnexpectedResponseError(
                f"a response with correlation id {correlation_id} where {entry.correlation_id} is next"
            )
        return entry

    def answered(self, entry: InFlightRequest) -> None:
        """Remove a request: the broker's response to it is complete."""
        self.upstream.popleft()
        if entry.origin is not _INJECTED:
            self.client.popleft()
