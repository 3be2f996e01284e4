"""One client connection and its upstream connection: the shell that knows sockets, time and tasks.

What the bytes mean is in :class:`proxy.conversation.Conversation`. Two tasks live here, one that reads from
the client and one that reads from the broker; writing happens in whichever of them, or of the translation,
has something to write (``proxy.outbox``). All endings come together in :meth:`ClientConnection.run`:

- the client is gone, or sent what ends it: the upstream connection gets what was read before, and stays as
  long as the translation needs it for the client's members;
- anything else (the broker is gone or sent nonsense, the translation closes, drain): the client gets what was
  answered, then both sides are closed.
"""

import math
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol

import msgspec
import structlog
import trio
from prometheus_client import Summary

from protocol_codecs import Message
from proxy.conversation import ClientError, Conversation, Terms, UpstreamError
from proxy.outbox import Outbox
from proxy.translation_hub import TranslationHub
from proxy.upstream import Dialed, UnreachableError
from translation.actions import Call, ConnectionId, RequestId

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.connection")

_READ_AHEAD = 64 * 1024
"""Bytes read from a client beyond the request that is worked on: enough to notice that it is gone."""

_FLUSH_S = 5.0
"""Seconds that a peer has to take what is still to be written when its connection ends."""


class Cause(StrEnum):
    """What ended a client's connection; the label of ``client_to_proxy_disconnects_total``."""

    CLIENT_CLOSED = "client_closed"
    CLIENT_ERROR = "client_error"
    FIRST_REQUEST_TIMEOUT = "idle_timeout"
    SERVER_UNREACHABLE = "server_unreachable"
    SERVER_CLOSED = "server_closed"
    SERVER_ERROR = "server_error"
    MISROUTED = "misrouted"
    TRANSLATION = "translation"
    DRAIN = "drain"
    INTERNAL_ERROR = "internal_error"


_CLIENT_AT_FAULT = frozenset({Cause.CLIENT_ERROR, Cause.FIRST_REQUEST_TIMEOUT})
_BROKER_AT_FAULT = frozenset(
    {Cause.SERVER_UNREACHABLE, Cause.SERVER_ERROR, Cause.INTERNAL_ERROR, Cause.TRANSLATION}
)


class Dials(Protocol):
    """Opens upstream connections, as :class:`proxy.upstream.Dialer`."""

    async def dial(self, node_id: int | None) -> Dialed:
        """Connect to a node, or to any bootstrap broker."""
        ...


class Services(msgspec.Struct, frozen=True):
    """What the connections of one listener need of the process."""

    terms: Terms
    dialer: Dials
    hub: TranslationHub


class ClientConnection:
    """Serves one client. ``node_id`` is that of the port, None for the bootstrap port."""

    def __init__(
        self,
        connection_id: ConnectionId,
        client: trio.abc.Stream,
        client_host: str,
        node_id: int | None,
        services: Services,
    ) -> None:
        self.id = connection_id
        self.node_id = node_id
        self.dialed: Dialed | None = None
        self._client = client
        self._client_host = client_host
        self._terms = services.terms
        self._dialer = services.dialer
        self._hub = services.hub
        self._metrics = services.terms.meter.metrics
        self._conversation = Conversation(connection_id, client_host, services.terms)
        self._cause: Cause | None = None
        self._reason = ""
        self._serving = trio.CancelScope()
        self._upstream_done = trio.Event()
        self._linger_over: trio.Event | None = None
        self._released = False
        self._room: trio.Event | None = None
        self._end_when_idle: Cause | None = None
        self._nursery: trio.Nursery
        self._to_client: Outbox
        self._to_upstream: Outbox | None = None

    # -- what others may do --------------------------------------------------------------------------------

    def end(self, cause: Cause, reason: str = "") -> None:
        """End the connection; the first cause counts."""
        if self._cause is None:
            self._cause, self._reason = cause, reason
        self._serving.cancel()
        if self._linger_over is not None:
            self._linger_over.set()

    def end_when_idle(self, cause: Cause) -> None:
        """Take no further request, and end once those under way are answered."""
        self._end_when_idle = cause
        self._conversation.stop_taking()
        self._end_if_idle()

    def answer(self, request_id: RequestId, message: Message) -> None:
        """See :class:`proxy.translation_hub.TranslatedConnection`."""
        self._conversation.answer(request_id, message)
        self._advance()

    def forward(self, request_id: RequestId) -> None:
        """See :class:`proxy.translation_hub.TranslatedConnection`."""
        self._conversation.forward(request_id)
        self._advance()

    def call(self, call: Call) -> None:
        """See :class:`proxy.translation_hub.TranslatedConnection`."""
        self._conversation.call(call)
        self._write()

    def close(self, reason: str) -> None:
        """See :class:`proxy.translation_hub.TranslatedConnection`."""
        self.end(Cause.TRANSLATION, reason)

    def release(self) -> None:
        """See :class:`proxy.translation_hub.TranslatedConnection`."""
        self._released = True
        if self._linger_over is not None:
            self._linger_over.set()

    def fail(self) -> None:
        """See :class:`proxy.translation_hub.TranslatedConnection`."""
        self.end(Cause.INTERNAL_ERROR, "the translation failed")

    # -- serving -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the client until its connection has ended on both sides."""
        self._metrics.client_connections.labels(self._port).inc()
        try:
            async with trio.open_nursery() as self._nursery:
                self._to_client = Outbox(self._client, self._nursery)
                with (
                    self._metrics.client_connections_active.labels(self._port).track_inprogress(),
                    self._serving,
                ):
                    await self._guarded(self._read_client)
                await self._guarded(self._finish)
                self._nursery.cancel_scope.cancel()
        finally:
            self._hub.upstream_lost(self.id)
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
            self.end(Cause.INTERNAL_ERROR)

    async def _read_client(self) -> None:
        timeout_s = self._terms.limits.first_request_timeout_s
        with trio.move_on_after(timeout_s) as first_request:
            try:
                while (data := await self._next_from_client()) and self._cause is None:
                    self._conversation.receive_from_client(data)
                    self._advance()
                    if self._conversation.wants_upstream:
                        first_request.deadline = math.inf
                        await self._open_upstream()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            self.end(Cause.CLIENT_CLOSED)
        if first_request.cancelled_caught:
            self.end(Cause.FIRST_REQUEST_TIMEOUT, f"no request within {timeout_s:g} s")

    async def _next_from_client(self) -> bytes:
        """Read from the client, once there is room for what it says."""
        while True:
            if self._to_upstream is not None and self._to_upstream.full:
                await _pause(self._to_upstream, self._metrics.client_reads_paused)
            elif self._conversation.held_back >= _READ_AHEAD:
                self._room = trio.Event()
                await self._room.wait()
            else:
                return bytes(await self._client.receive_some())

    async def _open_upstream(self) -> None:
        try:
            self.dialed = await self._dialer.dial(self.node_id)
        except UnreachableError as error:
            self.end(Cause.SERVER_UNREACHABLE, str(error))
            return
        self._metrics.upstream_connections_active.labels(self._port).inc()
        self._to_upstream = Outbox(self.dialed.stream, self._nursery)
        self._conversation.opened()
        self._nursery.start_soon(self._guarded, self._read_upstream)
        self._advance()

    async def _read_upstream(self) -> None:
        assert self.dialed is not None  # noqa: S101  this task starts once it is
        stream = self.dialed.stream
        try:
            while data := await stream.receive_some():
                self._conversation.receive_from_upstream(bytes(data))
                self._advance()
                if self._to_client.full:
                    await _pause(self._to_client, self._metrics.upstream_reads_paused)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except UpstreamError as error:
            self._metrics.upstream_errors.labels(error.kind).inc()
            self.end(Cause.SERVER_ERROR, str(error))
        finally:
            self._upstream_done.set()
        self.end(Cause.SERVER_CLOSED)

    def _advance(self) -> None:
        """Look at what was read, hand over what is for the translation, write what came of it."""
        conversation = self._conversation
        try:
            conversation.process()
        except ClientError as error:
            self._metrics.client_errors.labels(error.kind).inc()
            self.end(Cause.CLIENT_ERROR, str(error))
        self._write()
        while conversation.replies:
            self._hub.reply(*conversation.replies.popleft())
        if conversation.request is not None:
            request, conversation.request = conversation.request, None
            self._hub.request(self, conversation.connection, request)
        if self._room is not None:
            self._room.set()
        if self._end_when_idle is not None:
            self._end_if_idle()

    def _write(self) -> None:
        conversation = self._conversation
        if conversation.to_client:
            self._to_client.write(conversation.to_client)
            conversation.to_client.clear()
        if conversation.to_upstream and self._to_upstream is not None:
            self._to_upstream.write(conversation.to_upstream)
            conversation.to_upstream.clear()

    def _end_if_idle(self) -> None:
        if self._end_when_idle is not None and self._conversation.idle:
            self.end(self._end_when_idle, "nothing under way any more")

    # -- the end -------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        cause = self._cause or Cause.CLIENT_CLOSED
        self._metrics.client_disconnects.labels(cause).inc()
        self._log_end(cause)
        if cause is Cause.CLIENT_CLOSED or cause in _CLIENT_AT_FAULT:
            await self._outlive_client()
        else:
            with trio.move_on_after(_FLUSH_S):
                await self._to_client.flushed()
                await _part(self._client)

    async def _outlive_client(self) -> None:
        """Give the broker what was read before the end, and the translation its time for the members."""
        with trio.move_on_after(_FLUSH_S):
            await self._to_client.flushed()
        can_inject = self._conversation.can_inject
        self._conversation.client_closed()
        await trio.aclose_forcefully(self._client)
        if self.dialed is None or self._to_upstream is None:
            return
        ending = self._upstream_done.is_set() or self._end_when_idle is not None
        if can_inject and self._hub.knows(self.id) and not ending:
            await self._linger()
        with trio.move_on_after(_FLUSH_S):
            await self._to_upstream.flushed()
            await _part(self.dialed.stream, self._upstream_done)

    async def _linger(self) -> None:
        """Keep the upstream connection until the translation, the broker or a drain ends it."""
        self._linger_over = trio.Event()
        with self._metrics.lingering.track_inprogress():
            self._hub.client_gone(self.id)
            if not self._upstream_done.is_set():
                await self._linger_over.wait()
        if self._released:
            self._hub.forget(self.id)

    def _log_end(self, cause: Cause) -> None:
        say = _log.bind(connection=self.id, client=self._client_host, port=self._port, cause=str(cause))
        if cause in _CLIENT_AT_FAULT or cause in _BROKER_AT_FAULT:
            say.warning("connection closed", reason=self._reason)
        elif cause is Cause.SERVER_CLOSED and not self._conversation.idle:
            say.warning("connection closed", reason="the broker closed it with requests outstanding")
        elif cause is Cause.CLIENT_CLOSED and self._conversation.in_request:
            say.info("connection closed", reason="the client vanished in the middle of a request")
        else:
            say.debug("connection closed", reason=self._reason)


async def _pause(outbox: Outbox, paused: Summary) -> None:
    """Wait until the peer has taken what waits for it."""
    started = trio.current_time()
    await outbox.drained()
    paused.observe(trio.current_time() - started)


async def _part(stream: trio.abc.Stream, gone: trio.Event | None = None) -> None:
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
