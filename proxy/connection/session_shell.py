"""The shell around one :class:`proxy.session.session.ClientSession`: moves its bytes, carries out its events, and
pauses reading from a side while the other one is slow.

The two relay directions of the connection hand in what they read. The session processes it and returns bytes and
events: the shell writes the bytes to client and broker, and hands the events to the translator's driver, which answers
through the same shell. All of this is synchronous and happens as soon as bytes are read, inside the epoll callback, so
it is on the path of every request.
"""

import trio

from protocol_codecs import Message
from proxy.connection.connection_ending import ConnectionEnding
from proxy.connection.disconnect_cause import DisconnectCause
from proxy.connection.translator_driver import TranslatorDriver
from proxy.metrics.counters import HotCounter
from proxy.metrics.registry import Metrics
from proxy.session.errors import ClientError
from proxy.session.events import (
    CallReturned,
    GroupCallPassed,
    SaslSessionExpired,
    UpstreamNeeded,
)
from proxy.session.prediction import Prediction
from proxy.session.session import ClientSession
from proxy.transport.relay_direction import RelayDirection
from proxy.transport.write_buffer import HIGH_WATER, WriteBuffer
from translation.actions import Call, Request, RequestId

_MAX_BACKLOG_BYTES = 64 * 1024
"""Bytes read from a client beyond the request that is worked on: enough to notice that it is gone."""


class SessionShell:
    """Moves the bytes of one session, and carries out what the driver of the translation wants of it.

    ``to_client`` is set before the first byte is read, the broker's side by :meth:`attach_upstream`.
    """

    def __init__(
        self, session: ClientSession, driver: TranslatorDriver, ending: ConnectionEnding, metrics: Metrics
    ) -> None:
        self.to_client: WriteBuffer
        self.upstream_needed = False
        """Whether the session waits for an upstream connection; whoever opens it resets this."""
        self.reads = 0
        """Reads from either side."""
        self._session = session
        self._driver = driver
        self._ending = ending
        self._metrics = metrics
        self._to_upstream: WriteBuffer | None = None
        self._from_upstream: RelayDirection | None = None
        self._upstream_reads: HotCounter
        self._may_resume: trio.Event | None = None  # of the client's reader, which waits for room

    # -- what is read --------------------------------------------------------------------------------------

    def take_from_client(self, data: bytes) -> bool:
        """Process what was read from the client; returns whether it may be read from again at once."""
        if self._ending.cause is not None:
            return False
        self.reads += 1
        self._session.receive_from_client(data)
        self.advance()
        return not (self.upstream_needed or self.must_pause)

    def spliced_to_upstream(self, n: int) -> None:
        """The kernel moved ``n`` bytes of the client's request to the broker."""
        self.reads += 1
        self._session.spliced_upstream(n)
        self.advance()

    def take_from_upstream(self, data: bytes) -> bool:
        """Process what was read from the broker; returns whether it may be read from again at once.

        :raises UpstreamError: it ends the connection.
        """
        self.reads += 1
        self._upstream_reads.value += 1
        self._session.responses.receive(data)
        self.advance()
        return self.to_client.size <= HIGH_WATER

    def spliced_to_client(self, n: int) -> None:
        """The kernel moved ``n`` bytes of the broker's response to the client."""
        self.reads += 1
        self._session.responses.spliced(n)
        self.advance()

    @property
    def must_pause(self) -> bool:
        """Whether there is no room for more of what the client sends."""
        to_upstream = self._to_upstream
        full = to_upstream is not None and to_upstream.size > HIGH_WATER
        return full or self._session.backlog_bytes >= _MAX_BACKLOG_BYTES

    async def wait_for_room(self) -> None:
        """Wait until the client may be read from again."""
        while self.must_pause:
            if self._to_upstream is not None and self._to_upstream.size > HIGH_WATER:
                await self._to_upstream.drained(self._metrics.client_reads_paused)
            else:
                self._may_resume = trio.Event()
                await self._may_resume.wait()

    async def begin_what_was_read(self) -> None:
        """Wait until requests have begun that wait only for the proxy's own authentication."""
        while self._session.awaits_authentication:
            self._may_resume = trio.Event()
            await self._may_resume.wait()

    def attach_upstream(
        self,
        buffer: WriteBuffer,
        direction: RelayDirection,
        reads: HotCounter,
        lifetime_s: float | None = None,
        *,
        stand_in: bool = False,
    ) -> None:
        """The upstream connection is open: ``buffer`` writes to it, ``direction`` reads it, ``reads`` counts that.

        ``lifetime_s``, ``stand_in``: see :meth:`proxy.session.session.ClientSession.upstream_opened`.
        """
        self._to_upstream, self._from_upstream, self._upstream_reads = buffer, direction, reads
        self._session.upstream_opened(lifetime_s, stand_in=stand_in)

    # -- what the session returns --------------------------------------------------------------------------

    def advance(self) -> None:
        """Have the session process what it was given, then write its bytes and carry out its events."""
        session, ending = self._session, self._ending
        try:
            session.process()
        except ClientError as error:
            self._metrics.client_errors.labels(error.kind).inc()
            ending.end(DisconnectCause.CLIENT_ERROR, str(error))
        if session.to_client or session.to_upstream:
            self._write()
        if session.events:
            self._handle_events()
        if self._may_resume is not None:
            self._may_resume.set()
        if ending.is_pending:
            ending.check()

    def _handle_events(self) -> None:
        events, driver = self._session.events, self._driver
        while events:
            event = events.popleft()
            match event:
                case Request():
                    driver.request(self, event)
                case CallReturned(call_id, message):
                    driver.reply(call_id, message)
                case GroupCallPassed(request, response):
                    driver.call_relayed(self, request, response)
                case UpstreamNeeded():
                    self.upstream_needed = True
                case SaslSessionExpired():
                    self._ending.end(DisconnectCause.SESSION_EXPIRED, "the SASL session's lifetime is over")

    def _write(self) -> None:
        session = self._session
        if session.to_client:
            splices_next = self._from_upstream is not None and self._from_upstream.splices_next
            self.to_client.write(session.to_client, more=splices_next)
            session.to_client.clear()
        if session.to_upstream and self._to_upstream is not None:
            self._to_upstream.write(session.to_upstream)
            session.to_upstream.clear()

    # -- what the driver wants -----------------------------------------------------------------------------

    def answer(self, request_id: RequestId, message: Message) -> None:
        """Answer a request of the client."""
        self._session.answer(request_id, message)
        self.advance()

    def forward(self, request_id: RequestId) -> None:
        """Relay a request of the client, so that the broker answers it."""
        self._session.forward(request_id)
        self.advance()

    def send_predicted(self, client_id: str | None, prediction: Prediction) -> None:
        """Send the request that the translation is certain to call for; :meth:`call` follows."""
        self._session.send_predicted(client_id, prediction)
        self._write()

    def call(self, call: Call) -> None:
        """Send a request to the broker on the upstream connection of this client."""
        if self._session.call(call):
            self.advance()
            return
        if self._session.to_upstream:
            self._write()
        if self._session.events:
            self._handle_events()

    def close(self, reason: str) -> None:
        """Close both sides, once the client has got the answers before."""
        self._ending.end(DisconnectCause.TRANSLATION, reason)

    def release(self) -> None:
        """Close the upstream connection that outlived the client."""
        self._ending.release()

    def fail(self) -> None:
        """Close both sides after an internal error."""
        self._ending.end(DisconnectCause.INTERNAL_ERROR, "the translation failed")
