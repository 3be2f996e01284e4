"""One client connection and its upstream connection: the shell that knows sockets, time and tasks.

What the bytes mean is in :class:`proxy.session.session.ClientSession`. Two tasks live here, one that waits for the
client and one that waits for the broker. What is read is worked on as soon as it is there, and they are woken only
when there is something to wait for (``proxy.transport.relay_direction``, ``proxy.transport.epoll``). Writing happens
where there is something to write (``proxy.transport.write_buffer``). All endings come together in
:meth:`ClientConnection.run`:

- the client is gone, or sent what ends it: the upstream connection gets what was read before, and stays as
  long as the translation needs it for the client's members;
- anything else (the broker is gone or sent nonsense, the translation closes, drain): the client gets what was
  answered, then both sides are closed.
"""

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import msgspec
import structlog
import trio
from prometheus_client import Summary

from protocol_codecs import Message
from proxy.cluster.dialer import Dialed, UnreachableError
from proxy.metrics.counters import HotCounter
from proxy.server.disconnect_cause import BROKER_AT_FAULT, CLIENT_AT_FAULT, DisconnectCause
from proxy.server.translator_driver import TranslatorDriver
from proxy.session.events import (
    CallReturned,
    GroupCallPassed,
    GroupCallReceived,
    SaslSessionExpired,
    UpstreamNeeded,
)
from proxy.session.listener_context import ClientError, ListenerContext, UpstreamError
from proxy.session.session import ClientSession
from proxy.transport.relay_direction import RelayDirection
from proxy.transport.splice import PipePool, can_splice
from proxy.transport.tcp_stream import TcpStream
from proxy.transport.tls_stream import TlsError, TlsStream
from proxy.transport.write_buffer import HIGH_WATER, WriteBuffer
from translation.actions import Call, Connection, ConnectionId, Request, RequestId, never

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.server.client_connection")

_MAX_BACKLOG_BYTES = 64 * 1024
"""Bytes read from a client beyond the request that is worked on: enough to notice that it is gone."""

_BROKER_CHECK_TIMEOUT_S = 0.5
"""Seconds to see whether a broker that closed a connection is still there, before its client is told."""

_FLUSH_TIMEOUT_S = 5.0
"""Seconds that a peer has to take what is still to be written when its connection ends."""


class Dials(Protocol):
    """Opens upstream connections, as :class:`proxy.cluster.dialer.Dialer`."""

    async def dial(self, node_id: int | None) -> Dialed:
        """Connect to a node, or to any bootstrap broker."""
        ...


class Watches(Protocol):
    """Knows which nodes can be reached, as :class:`proxy.cluster.broker_health.BrokerHealth`."""

    def connect_failed(self, node_id: int | None, error: UnreachableError) -> None:
        """A connection to the node could not be opened."""
        ...

    def read_counter(self, node_id: int | None) -> HotCounter:
        """Counts what is read from a node."""
        ...

    async def probe(self, node_id: int | None) -> None:
        """The node closed a connection: see whether it is still there."""
        ...


class ConnectionDeps(msgspec.Struct, frozen=True):
    """What the connections of one listener need of the process."""

    context: ListenerContext
    dialer: Dials
    broker_health: Watches
    driver: TranslatorDriver
    pipes: PipePool


class ConnectionProgress(msgspec.Struct, frozen=True, gc=False):
    """What a connection has done so far, as numbers that grow, and what it waits for."""

    reads: int
    """Reads from either side."""
    writes: int
    """Pieces that the client took which it had not taken at once."""
    requests: int
    """Requests that have begun."""
    client_owes_rest: bool
    """Whether the client has begun a request and the rest is waited for."""
    request_size: int
    """How large that request is, as far as is known, in bytes."""
    client_owes_reading: bool
    """Whether something waits that the client does not read."""
    quiescent: bool
    """Whether nothing is under way."""


class ClientConnection:
    """Serves one client. ``node_id`` is that of the port, None for the bootstrap port."""

    def __init__(
        self,
        connection_id: ConnectionId,
        client: trio.abc.Stream,
        client_host: str,
        node_id: int | None,
        deps: ConnectionDeps,
    ) -> None:
        self.id = connection_id
        self.node_id = node_id
        self.dialed: Dialed | None = None
        self._client = client
        self._client_host = client_host
        self._context = deps.context
        self._dialer = deps.dialer
        self._broker_health = deps.broker_health
        self._driver = deps.driver
        self._pipes = deps.pipes
        self._metrics = deps.context.request_metrics.metrics
        self._session = ClientSession(
            connection_id,
            client_host,
            deps.context,
            client.peer_closed if isinstance(client, TcpStream | TlsStream) else never,
            lambda: self._nursery.start_soon(self._guarded, self._resume),
        )
        self._cause: DisconnectCause | None = None
        self._reason = ""
        self._serving = trio.CancelScope()
        self._upstream_done = trio.Event()
        self._linger_over: trio.Event | None = None
        self._released = False
        self._resume_reading: trio.Event | None = None
        self._close_when_idle: DisconnectCause | None = None
        self._close_when_quiescent: DisconnectCause | None = None
        self._upstream_needed = False
        self._reads = 0
        self._read_counter: HotCounter
        self._from_client = RelayDirection(
            client,
            self._take_from_client,
            self._session.passthrough_bytes,
            lambda: 0,
            self._spliced_upstream,
            self._metrics.client_reads_paused,
        )
        self._from_upstream: RelayDirection | None = None
        self._running = False
        self._nursery: trio.Nursery
        self._to_client: WriteBuffer
        self._to_upstream: WriteBuffer | None = None

    # -- what others may do --------------------------------------------------------------------------------

    def end(self, cause: DisconnectCause, reason: str = "") -> None:
        """End the connection; the first cause counts."""
        if self._cause is None:
            self._cause, self._reason = cause, reason
        self._serving.cancel()
        if self._linger_over is not None:
            self._linger_over.set()

    def close_when_idle(self, cause: DisconnectCause) -> None:
        """Take no further request, and end once those under way are answered."""
        self._close_when_idle = cause
        self._session.stop_accepting()
        self._close_if_idle()

    def close_when_quiescent(self, cause: DisconnectCause) -> None:
        """End at the next moment in which nothing is under way and every member on it is settled.

        Unlike :meth:`close_when_idle` this goes on taking requests: a connection that is never at rest stays.
        """
        self._close_when_quiescent = cause
        self._close_if_quiescent()

    @property
    def is_serving(self) -> bool:
        """Whether it has begun, and nothing has ended it."""
        return self._running and self._cause is None

    def progress(self) -> ConnectionProgress:
        """How far it is."""
        session = self._session
        up = self._from_client.progress
        down = None if self._from_upstream is None else self._from_upstream.progress
        spliced_down = 0 if down is None else down.taken
        broker_is_slow = (up is not None and up.waiting) or (
            self._to_upstream is not None and self._to_upstream.size > HIGH_WATER
        )
        return ConnectionProgress(
            reads=self._reads + spliced_down + (0 if up is None else up.taken),
            writes=self._to_client.written + spliced_down,
            requests=session.requests_started,
            client_owes_rest=session.request_incomplete and not broker_is_slow,
            request_size=session.request_size,
            client_owes_reading=self._to_client.size > 0 or (down is not None and down.waiting),
            quiescent=session.quiescent,
        )

    def answer(self, request_id: RequestId, message: Message) -> None:
        """See :class:`proxy.server.translation_protocols.TranslatedConnection`."""
        self._session.answer(request_id, message)
        self._advance()

    def forward(self, request_id: RequestId) -> None:
        """See :class:`proxy.server.translation_protocols.TranslatedConnection`."""
        self._session.forward(request_id)
        self._advance()

    def call(self, call: Call) -> None:
        """See :class:`proxy.server.translation_protocols.TranslatedConnection`."""
        self._session.call(call)
        self._write()
        if self._session.events:
            self._handle_events()

    def close(self, reason: str) -> None:
        """See :class:`proxy.server.translation_protocols.TranslatedConnection`."""
        self.end(DisconnectCause.TRANSLATION, reason)

    def release(self) -> None:
        """See :class:`proxy.server.translation_protocols.TranslatedConnection`."""
        self._released = True
        if self._linger_over is not None:
            self._linger_over.set()

    def fail(self) -> None:
        """See :class:`proxy.server.translation_protocols.TranslatedConnection`."""
        self.end(DisconnectCause.INTERNAL_ERROR, "the translation failed")

    # -- serving -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the client until its connection has ended on both sides."""
        self._metrics.client_connections.labels(self._port).inc()
        try:
            async with trio.open_nursery() as self._nursery:
                self._to_client = WriteBuffer(self._client, self._nursery)
                self._running = True
                with (
                    self._metrics.client_connections_active.labels(self._port).track_inprogress(),
                    self._serving,
                ):
                    await self._guarded(self._read_client)
                await self._guarded(self._finish)
                self._nursery.cancel_scope.cancel()
        finally:
            self._driver.upstream_lost(self.id)
            self._session.forget_request()
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._client)
                if self.dialed is not None:
                    self._metrics.upstream_connections_active.labels(self._port).dec()
                    await trio.aclose_forcefully(self.dialed.stream)

    @property
    def _port(self) -> str:
        return "bootstrap" if self.node_id is None else str(self.node_id)

    async def _guarded(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run a part of this connection; whatever it raises ends this connection and no other."""
        try:
            await task()
        except Exception as error:  # noqa: BLE001  a bug ends one connection, never the process
            self._metrics.internal_errors.labels("connection").inc()
            _log.error("a connection failed", connection=self.id, client=self._client_host, exc_info=error)
            self.end(DisconnectCause.INTERNAL_ERROR)

    async def _read_client(self) -> None:
        timeout_s = self._context.limits.first_request_timeout_s
        with trio.move_on_after(timeout_s) as first_request:
            try:
                if isinstance(self._client, TlsStream):
                    await self._client.handshake()
                while not self._from_client.ended and self._cause is None:
                    if self._from_client.progress is None and self._must_pause:
                        await self._wait_until_readable()
                    await self._from_client.run()
                    if self._upstream_needed:
                        self._upstream_needed = False
                        first_request.deadline = math.inf
                        await self._open_upstream()
            except TlsError as error:
                self._metrics.client_errors.labels(error.kind).inc()
                self.end(DisconnectCause.CLIENT_ERROR, str(error))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            self.end(DisconnectCause.CLIENT_CLOSED)
        if first_request.cancelled_caught:
            self.end(DisconnectCause.FIRST_REQUEST_TIMEOUT, f"no request within {timeout_s:g} s")

    def _take_from_client(self, data: bytes) -> bool:
        """Work on what was read; whether more can be read without waiting for something else."""
        if self._cause is not None:
            return False
        self._reads += 1
        self._session.receive_from_client(data)
        self._advance()
        return not (self._upstream_needed or self._must_pause)

    def _spliced_upstream(self, n: int) -> None:
        self._reads += 1
        self._session.spliced_upstream(n)
        self._advance()

    @property
    def _must_pause(self) -> bool:
        """Whether there is no room for what the client says."""
        to_upstream = self._to_upstream
        full = to_upstream is not None and to_upstream.size > HIGH_WATER
        return full or self._session.backlog_bytes >= _MAX_BACKLOG_BYTES

    async def _wait_until_readable(self) -> None:
        while self._must_pause:
            if self._to_upstream is not None and self._to_upstream.size > HIGH_WATER:
                await _pause(self._to_upstream, self._metrics.client_reads_paused)
            else:
                self._resume_reading = trio.Event()
                await self._resume_reading.wait()

    async def _open_upstream(self) -> None:
        try:
            self.dialed = await self._dialer.dial(self.node_id)
        except UnreachableError as error:
            self._broker_health.connect_failed(self.node_id, error)
            self.end(DisconnectCause.SERVER_UNREACHABLE, str(error))
            return
        self._metrics.upstream_connections_active.labels(self._port).inc()
        self._to_upstream = WriteBuffer(self.dialed.stream, self._nursery)
        self._read_counter = self._broker_health.read_counter(self.node_id)
        responses = self._session.responses
        self._from_upstream = direction = RelayDirection(
            self.dialed.stream,
            self._take_from_upstream,
            responses.passthrough_bytes,
            responses.trailing_bytes,
            self._spliced_to_client,
            self._metrics.upstream_reads_paused,
        )
        if can_splice(self._client, self.dialed.stream):
            self._from_client.splice_to(self._to_upstream, self._pipes)
            direction.splice_to(self._to_client, self._pipes)
        self._session.upstream_opened()
        self._nursery.start_soon(self._guarded, partial(self._read_upstream, direction))
        self._advance()

    async def _read_upstream(self, direction: RelayDirection) -> None:
        try:
            while not direction.ended:
                if direction.progress is None and self._to_client.size > HIGH_WATER:
                    await _pause(self._to_client, self._metrics.upstream_reads_paused)
                await direction.run()
        except TlsError as error:
            self._metrics.upstream_errors.labels(error.kind).inc()
            self.end(DisconnectCause.SERVER_ERROR, str(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except UpstreamError as error:
            self._metrics.upstream_errors.labels(error.kind).inc()
            self.end(DisconnectCause.SERVER_ERROR, str(error))
        finally:
            self._upstream_done.set()
        if self._cause is None:  # the client will come again at once: the port should know by then
            with trio.move_on_after(_BROKER_CHECK_TIMEOUT_S):
                await self._broker_health.probe(self.node_id)
        self.end(DisconnectCause.SERVER_CLOSED)

    def _take_from_upstream(self, data: bytes) -> bool:
        """The same for the broker's side."""
        self._reads += 1
        self._read_counter.value += 1
        self._session.responses.receive(data)
        self._advance()
        return self._to_client.size <= HIGH_WATER

    def _spliced_to_client(self, n: int) -> None:
        self._reads += 1
        self._session.responses.spliced(n)
        self._advance()

    def _advance(self) -> None:
        """Look at what was read, hand over what is for the translation, write what came of it."""
        session = self._session
        try:
            session.process()
        except ClientError as error:
            self._metrics.client_errors.labels(error.kind).inc()
            self.end(DisconnectCause.CLIENT_ERROR, str(error))
        if session.to_client or session.to_upstream:
            self._write()
        if session.events:
            self._handle_events()
        if self._resume_reading is not None:
            self._resume_reading.set()
        if self._close_when_idle is not None:
            self._close_if_idle()
        elif self._close_when_quiescent is not None:
            self._close_if_quiescent()

    async def _resume(self) -> None:
        """What another connection gave back lets this one go on: in a task, so that no mistake here is the other's."""
        self._advance()

    def _handle_events(self) -> None:
        events, driver = self._session.events, self._driver
        while events:
            event = events.popleft()
            match event:
                case GroupCallReceived(connection, request):
                    self._send_predicted(connection, request)
                    driver.request(self, connection, request)
                case CallReturned(call_id, message):
                    driver.reply(call_id, message)
                case GroupCallPassed(connection, request, response):
                    driver.passed(self, connection, request, response)
                case UpstreamNeeded():
                    self._upstream_needed = True
                case SaslSessionExpired():
                    self.end(DisconnectCause.SESSION_EXPIRED, "the SASL session's lifetime is over")

    def _send_predicted(self, connection: Connection, request: Request) -> None:
        """Send what is certain to come of a request before the driver handles it, since somebody waits for it."""
        prediction = self._driver.predict(connection, request)
        if prediction is not None:
            self._session.send_predicted(prediction)
            self._write()

    def _write(self) -> None:
        session = self._session
        if session.to_client:
            splices_next = self._from_upstream is not None and self._from_upstream.splices_next
            self._to_client.write(session.to_client, more=splices_next)
            session.to_client.clear()
        if session.to_upstream and self._to_upstream is not None:
            self._to_upstream.write(session.to_upstream)
            session.to_upstream.clear()

    def _close_if_idle(self) -> None:
        if self._close_when_idle is not None and self._session.idle:
            self.end(self._close_when_idle, "nothing under way any more")

    def _close_if_quiescent(self) -> None:
        if (
            self._close_when_quiescent is not None
            and self._session.quiescent
            and self._driver.settled(self.id)
        ):
            self.end(self._close_when_quiescent, "its time has come, and it is at rest")

    # -- the end -------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        cause = self._cause or DisconnectCause.CLIENT_CLOSED
        self._metrics.client_disconnects.labels(cause).inc()
        self._log_end(cause)
        if cause is DisconnectCause.CLIENT_CLOSED or cause in CLIENT_AT_FAULT:
            await self._outlive_client()
        else:
            with trio.move_on_after(_FLUSH_TIMEOUT_S):
                await self._to_client.flushed()
                await _half_close(self._client)

    async def _outlive_client(self) -> None:
        """Give the broker what was read before the end, and the translation its time for the members."""
        with trio.move_on_after(_FLUSH_TIMEOUT_S):
            await self._to_client.flushed()
        may_outlive_client = self._session.may_outlive_client
        self._session.client_closed()
        await trio.aclose_forcefully(self._client)
        if self.dialed is None or self._to_upstream is None:
            return
        ending = self._upstream_done.is_set() or self._close_when_idle is not None
        if may_outlive_client and self._driver.knows(self.id) and not ending:
            await self._linger()
        with trio.move_on_after(_FLUSH_TIMEOUT_S):
            await self._to_upstream.flushed()
            await _half_close(self.dialed.stream, self._upstream_done)

    async def _linger(self) -> None:
        """Keep the upstream connection until the translation, the broker or a drain ends it."""
        self._linger_over = trio.Event()
        with self._metrics.lingering.track_inprogress():
            self._driver.client_gone(self.id)
            self._session.forget_request()
            if not self._upstream_done.is_set():
                await self._linger_over.wait()
        if self._released:
            self._driver.forget(self.id)

    def _log_end(self, cause: DisconnectCause) -> None:
        say = _log.bind(connection=self.id, client=self._client_host, port=self._port, cause=str(cause))
        if cause in CLIENT_AT_FAULT or cause in BROKER_AT_FAULT:
            say.warning("connection closed", reason=self._reason)
        elif cause is DisconnectCause.SERVER_CLOSED and not self._session.idle:
            say.warning("connection closed", reason="the broker closed it with requests outstanding")
        elif cause is DisconnectCause.CLIENT_CLOSED and self._session.mid_request:
            self._metrics.client_errors.labels("truncated").inc()
            say.info("connection closed", reason="the client vanished in the middle of a request")
        else:
            say.debug("connection closed", reason=self._reason)


async def _pause(buffer: WriteBuffer, paused: Summary) -> None:
    """Wait until the peer has taken what waits for it."""
    started = trio.current_time()
    await buffer.drained()
    paused.observe(trio.current_time() - started)


async def _half_close(stream: trio.abc.Stream, gone: trio.Event | None = None) -> None:
    """Say that nothing more comes and wait for the peer to close.

    Closing at once, with bytes of the peer unread, would reset the connection and could destroy what was
    written last.
    """
    if not isinstance(stream, trio.abc.HalfCloseableStream):
        return
    try:
        await stream.send_eof()
        if gone is not None:
            await gone.wait()
        else:
            while await stream.receive_some():
                pass
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
