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

from proxy.session.response_tap import Watched
from proxy.wire.framing import correlation_id_of
from proxy.wire.node_endpoints import EndpointRewriter

Edit = Callable[[bytes], bytes]
"""A response's frame from the broker -> the frame for the client."""


class Source(Enum):
    """Who asked, and who answers."""

    RELAYED = "relayed"
    """A client's request that the broker answers."""

    LOCAL = "local"
    """A client's request that is answered here."""

    INJECTED = "injected"
    """A request of the proxy itself."""


_INJECTED = Source.INJECTED
"""Bound once: Python 3.11 looks for a member of an enum for as long as a message takes to be decoded."""


class Exchange(msgspec.Struct, gc=False):
    """One request and its response.

    ``started`` is the time at which it was read or made. ``edit`` changes the response on its way to the
    client as a whole, ``endpoints`` as its pieces arrive; there is one of them at most. ``receive`` takes
    the response of an injected request. ``response`` is that of a local one, once it is known. ``bare`` is a
    token of SASL without headers, and so is its answer. ``watched`` is shown what the client is given.
    """

    source: Source
    api_key: int
    version: int
    correlation_id: int
    started: float
    edit: Edit | None = None
    endpoints: EndpointRewriter | None = None
    receive: Callable[[bytes], None] | None = None
    response: bytes | None = None
    bare: bool = False
    watched: Watched | None = None


class UnexpectedResponseError(Exception):
    """The broker answered something that was not asked; the connection can't be trusted any more."""


class Ledger:
    """The outstanding exchanges of one connection."""

    __slots__ = ("client", "inject", "receive", "upstream")

    def __init__(self) -> None:
        self.client: deque[Exchange] = deque()
        self.upstream: deque[Exchange] = deque()
        self.receive: Callable[[Exchange], None] = self.client.append
        """A request of the client was read that is not sent to the broker, at least not yet."""
        self.inject: Callable[[Exchange], None] = self.upstream.append
        """A request of the proxy, or one of the client that was received before, was sent to the broker."""

    @property
    def idle(self) -> bool:
        """Whether nobody waits for anything."""
        return not self.client and not self.upstream

    def relay(self, exchange: Exchange) -> None:
        """A request of the client was sent to the broker."""
        self.client.append(exchange)
        self.upstream.append(exchange)

    def expected(self, response: bytes) -> Exchange:
        """The exchange that this response belongs to.

        :raises UnexpectedResponseError: nothing was asked, or the correlation id is another one.
        :raises MalformedMessage: the response has no correlation id.
        """
        if self.upstream and self.upstream[0].bare:
            return self.upstream[0]
        correlation_id = correlation_id_of(response)
        if not self.upstream:
            raise UnexpectedResponseError(f"a response with correlation id {correlation_id} to no request")
        exchange = self.upstream[0]
        if exchange.correlation_id != correlation_id:
            raise UnexpectedResponseError(
                f"a response with correlation id {correlation_id} where {exchange.correlation_id} is next"
            )
        return exchange

    def answered(self, exchange: Exchange) -> None:
        """The broker's response to the first exchange is complete."""
        self.upstream.popleft()
        if exchange.source is not _INJECTED:
            self.client.popleft()
