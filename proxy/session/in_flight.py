"""Which responses are outstanding on a connection, towards the client and from the broker.

Two rules make a Kafka connection: responses come in the order of their requests, and the broker answers one
connection's requests one after another. So two queues are all there is:

- *upstream*: what was sent to the broker and not answered yet, relayed requests and calls of the proxy alike.
  The next response belongs to the first of them; its correlation id must say so too.
- *client*: the requests of the client that were not answered yet, whoever answers them. One that the proxy
  answers itself may be ready before those ahead of it; then its response waits here.

A request that waits for the translation is always the last of the client's queue, because no later request is
looked at before it is answered (as in a broker). Hence a broker's response, if it is for the client, is
always for the first in the client's queue, and it can be passed on as it arrives.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum

import msgspec

from proxy.session.response_tap import ResponseTap
from proxy.wire.framing import correlation_id_of
from proxy.wire.node_endpoints import EndpointRewriter

Rewrite = Callable[[bytes], bytes]
"""A response's frame from the broker -> the frame for the client."""


class Origin(Enum):
    """Who asked, and who answers."""

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

    The garbage collector has to see it: what takes the response belongs to the connection, and so does this, so a
    connection that ends with a response outstanding is a cycle.

    ``started`` is the time at which it was read or made. ``rewrite`` changes the response on its way to the
    client as a whole, ``endpoint_rewriter`` as its pieces arrive; there is one of them at most. ``on_response`` takes
    the response of an injected request. ``response`` is that of a local one, once it is known. ``headerless`` is a
    token of SASL without headers, and so is its answer. ``tap`` is shown what the client is given.
    """

    origin: Origin
    api_key: int
    version: int
    correlation_id: int
    started: float
    rewrite: Rewrite | None = None
    endpoint_rewriter: EndpointRewriter | None = None
    on_response: Callable[[bytes], None] | None = None
    response: bytes | None = None
    headerless: bool = False
    tap: ResponseTap | None = None


class UnexpectedResponseError(Exception):
    """The broker answered something that was not asked; the connection can't be trusted any more."""


class InFlightRequests:
    """The outstanding exchanges of one connection."""

    __slots__ = ("client", "inject", "receive", "upstream")

    def __init__(self) -> None:
        self.client: deque[InFlightRequest] = deque()
        self.upstream: deque[InFlightRequest] = deque()
        self.receive: Callable[[InFlightRequest], None] = self.client.append
        """A request of the client was read that is not sent to the broker, at least not yet."""
        self.inject: Callable[[InFlightRequest], None] = self.upstream.append
        """A request of the proxy, or one of the client that was received before, was sent to the broker."""

    @property
    def idle(self) -> bool:
        """Whether nobody waits for anything."""
        return not self.client and not self.upstream

    def relay(self, entry: InFlightRequest) -> None:
        """A request of the client was sent to the broker."""
        self.client.append(entry)
        self.upstream.append(entry)

    def expected(self, response: bytes) -> InFlightRequest:
        """The exchange that this response belongs to.

        :raises UnexpectedResponseError: nothing was asked, or the correlation id is another one.
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
        """The broker's response to the first exchange is complete."""
        self.upstream.popleft()
        if entry.origin is not _INJECTED:
            self.client.popleft()
