"""One client connection with its upstream connection: its tasks, ``first_request_timeout_s``, the end of both, and
for how long the upstream one outlives the client.

What the bytes mean is in the session (:class:`proxy.session.session.ClientSession`); the shell around it moves them and
carries out what the session returns (:mod:`proxy.connection.session_shell`). Two tasks live here, one that waits for
the client and one that waits for the broker. They are woken only when there is something to wait for: bytes are
processed as soon as they are read (:mod:`proxy.transport.relay_direction`, :mod:`proxy.transport.epoll`), and written
where they come about (:mod:`proxy.transport.write_buffer`).

All endings come together in :meth:`ClientConnection.run`:

- If the client has gone, or sent what ends its connection, the broker gets what was read before. The upstream
  connection lingers as long as the translation needs it for the client's members.
- At any other end (the broker has gone or sent nonsense, the translation closes, the proxy drains) the client gets what
  was answered, then both sides are closed.
"""

import math
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial

import structlog
import trio

from proxy.connection.connection_deps import ConnectionDeps, Identify, Speaker
from proxy.connection.connection_ending import ConnectionEnding
from proxy.connection.connection_progress import ConnectionProgress
from proxy.connection.disconnect_cause import CLIENT_AT_FAULT, DisconnectCause
from proxy.connection.session_shell import SessionShell
from proxy.connection.upstream_connection import UpstreamConnection
from proxy.session.errors import ClientError, UpstreamError
from proxy.session.session import ClientSession
from proxy.transport.dialer import Dialed, UnreachableError
from proxy.transport.graceful_close import FLUSH_TIMEOUT_S, close_gracefully
from proxy.transport.relay_direction import RelayDirection
from proxy.transport.splice import can_splice
from proxy.transport.tls_errors import TlsError
from proxy.transport.write_buffer import HIGH_WATER, WriteBuffer
from translation.actions import ConnectionId, never

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.connection.client_connection")

_BROKER_CHECK_TIMEOUT_S = 0.5
"""Seconds to see whether a broker that closed a connection is still there, before its client is told."""


class ClientConnection:
    """Serves one client. ``node_id`` is that of the port, None for the bootstrap port.

    Where all nodes have one port it is known after the TLS handshake, and None before.
    """

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
        self._client = client
        self._handshake = getattr(client, "handshake", None)
        self._client_host = client_host
        self._deps = deps
        self._driver = deps.driver
        self._metrics = deps.listener.request_metrics.metrics
        self._session = ClientSession(
            connection_id,
            client_host,
            deps.listener,
            getattr(client, "peer_closed", never),
            lambda: self._nursery.start_soon(self._guarded, self._resume),
        )
        self._ending = ConnectionEnding(connection_id, self._session, deps.driver)
        self._shell = SessionShell(self._session, deps.driver, self._ending, self._metrics)
        self._from_client = RelayDirection(
            client,
            self._shell.take_from_client,
            self._session.passthrough_bytes,
            lambda: 0,
            self._shell.spliced_to_upstream,
            self._metrics.client_reads_paused,
        )
        self._upstream: UpstreamConnection | None = None
        self._speaker: Speaker | None = None
        self._counted = ExitStack()
        self._running = False
        self._is_over = False
        self._nursery: trio.Nursery

    # -- what others may do --------------------------------------------------------------------------------

    def end(self, cause: DisconnectCause, reason: str = "") -> None:
        """End the connection; the first cause counts."""
        self._ending.end(cause, reason)

    def close_when_idle(self, cause: DisconnectCause) -> None:
        """Take no further request, and end once those in flight are answered."""
        if not self._is_over:
            self._ending.close_when_idle(cause)

    def close_when_quiescent(self, cause: DisconnectCause) -> None:
        """End once nothing is under way, no record is locked in a share session and every member on the connection is
        Stable; a busy connection may stay."""
        if not self._is_over:
            self._ending.close_when_quiescent(cause)

    @property
    def is_serving(self) -> bool:
        """Whether it has begun, and nothing has ended it."""
        return self._running and self._ending.cause is None

    @property
    def has_share_session(self) -> bool:
        """Whether the broker may have locked records for the client, or be about to."""
        return not self._is_over and self._session.share_session.is_open

    @property
    def dialed(self) -> Dialed | None:
        """Where its upstream connection leads; None before there is one."""
        return None if self._upstream is None else self._upstream.dialed

    def progress(self) -> ConnectionProgress:
        """Return what the connection has done so far, and what it waits for."""
        session, shell, upstream = self._session, self._shell, self._upstream
        up = self._from_client.progress
        down = None if upstream is None else upstream.direction.progress
        spliced_down = 0 if down is None else down.taken
        broker_is_slow = (up is not None and up.waiting) or (
            upstream is not None and upstream.buffer.size > HIGH_WATER
        )
        return ConnectionProgress(
            reads=shell.reads
            - session.authentication_answers
            + spliced_down
            + (0 if up is None else up.taken),
            writes=shell.to_client.written + spliced_down,
            requests=session.requests_started,
            client_owes_rest=session.request_incomplete and not broker_is_slow,
            request_size=session.request_size,
            client_owes_reading=shell.to_client.size > 0 or (down is not None and down.waiting),
            quiescent=session.quiescent,
        )

    # -- serving -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the client until its connection has ended on both sides."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._shell.to_client = WriteBuffer(self._client, self._nursery)
                self._running = True
                with self._counted, self._ending.serving:
                    if not self._deps.by_name:
                        self._count()
                    await self._guarded(self._read_client)
                await self._guarded(self._finish)
                self._nursery.cancel_scope.cancel()
        finally:
            self._driver.upstream_lost(self.id)
            self._session.forget_request()
            self._session.share_session.connection_ended()
            if self._speaker is not None:
                self._speaker.close()
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._client)
                if self._upstream is not None:
                    await self._upstream.close()
            self._break_cycles()

    def _break_cycles(self) -> None:
        """Let reference counting free the parts, which hold each other's methods.

        The collector frees old garbage rarely (:func:`proxy.server.process.tune_gc`), and thousands of connections that
        have ended would wait for it.
        """
        self._is_over = True
        for part in (self._session, self._shell, self._from_client):
            vars(part).clear()

    def _count(self) -> None:
        """Count the connection as one of its node, until its client is not served any more."""
        self._metrics.client_connections.labels(self._port).inc()
        self._counted.enter_context(
            self._metrics.client_connections_active.labels(self._port).track_inprogress()
        )

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

    async def _resume(self) -> None:
        """Go on when another connection gave memory back: in a task, so that an error here is not raised there."""
        self._shell.advance()

    async def _read_client(self) -> None:
        """Read until the client closes or the connection ends; open the upstream connection when it is needed."""
        timeout_s = self._deps.listener.limits.first_request_timeout_s
        shell = self._shell
        with trio.move_on_after(timeout_s) as first_request:
            try:
                if self._handshake is not None:
                    await self._handshake()
                if self._deps.by_name:
                    self.node_id = getattr(self._client, "node_id", None)
                    self._count()
                if self._deps.identify is not None:
                    self._identify(self._deps.identify)
                while not self._from_client.ended and self._ending.cause is None:
                    if self._from_client.progress is None and shell.must_pause:
                        await shell.wait_for_room()
                    await self._from_client.run()
                    if shell.upstream_needed:
                        shell.upstream_needed = False
                        first_request.deadline = math.inf
                        await self._open_upstream()
            except (TlsError, ClientError) as error:
                self._metrics.client_errors.labels(error.kind).inc()
                self.end(DisconnectCause.CLIENT_ERROR, str(error))
            except UpstreamError as error:
                self._metrics.upstream_errors.labels(error.kind).inc()
                self.end(DisconnectCause.SERVER_ERROR, str(error))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            self.end(DisconnectCause.CLIENT_CLOSED)
        if first_request.cancelled_caught:
            self.end(DisconnectCause.FIRST_REQUEST_TIMEOUT, f"no request within {timeout_s:g} s")

    def _identify(self, identify: Identify) -> None:
        self._speaker = identify(self._client)
        if self._speaker is not None:
            self._session.authenticated()

    async def _open_upstream(self) -> None:
        deps, shell = self._deps, self._shell
        try:
            dialed = await self._dial()
        except UnreachableError as error:
            deps.broker_health.connect_failed(self.node_id, error)
            self.end(DisconnectCause.SERVER_UNREACHABLE, str(error))
            return
        if dialed is None:
            self.end(DisconnectCause.CLIENT_CLOSED)
            return
        self._upstream = upstream = UpstreamConnection(
            dialed, self._port, shell, self._session.responses, self._metrics, self._nursery
        )
        if can_splice(self._client, dialed.stream):
            self._from_client.splice_to(upstream.buffer, deps.pipes)
            upstream.direction.splice_to(shell.to_client, deps.pipes)
        shell.attach_upstream(
            upstream.buffer,
            upstream.direction,
            deps.broker_health.read_counter(self.node_id),
            dialed.lifetime_s,
            stand_in=dialed.assumed,
        )
        self._nursery.start_soon(self._guarded, partial(self._read_upstream, upstream))
        if self._speaker is not None and dialed.lifetime_s is not None:
            from proxy.connection.kept_authentication import (  # noqa: PLC0415 - only for tokens
                keep_authenticated,
            )

            keep = partial(
                keep_authenticated, self._session, shell, self._speaker, dialed.lifetime_s, self.end
            )
            self._nursery.start_soon(self._guarded, keep)
        shell.advance()

    async def _dial(self) -> Dialed | None:
        """Connect to the broker; None if the client has gone before that was over, where the proxy speaks for it."""
        dialed = await self._dial_once()
        # The manager closes misrouted connections when a node is learned, but this one was not open yet.
        while dialed is not None and dialed.assumed and self._deps.dialer.is_misrouted(self.node_id, dialed):
            await trio.aclose_forcefully(dialed.stream)
            dialed = await self._dial_once()
        return dialed

    async def _dial_once(self) -> Dialed | None:
        if self._speaker is None:
            return await self._deps.dialer.dial(self.node_id)
        from proxy.connection.dial_for_client import dial_for_client  # noqa: PLC0415 - only for tokens

        peer_closed = getattr(self._client, "peer_closed", never)
        return await dial_for_client(
            self._speaker, self.node_id, peer_closed, self._session.awaits_only_versions
        )

    async def _read_upstream(self, upstream: UpstreamConnection) -> None:
        cause, reason = await upstream.read()
        if cause is DisconnectCause.SERVER_CLOSED and self._ending.cause is None:
            # The client will reconnect at once: by then the port should be closed if the broker is gone.
            with trio.move_on_after(_BROKER_CHECK_TIMEOUT_S):
                await self._deps.broker_health.probe(self.node_id)
        self.end(cause, reason)

    # -- the end -------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Give both sides what is still theirs; see the module."""
        cause = self._ending.report(self._metrics, self._client_host, self._port)
        self._deps.share_session_cuts.connection_ended(self._session.share_session, cause)
        if cause is DisconnectCause.CLIENT_CLOSED or cause in CLIENT_AT_FAULT:
            await self._outlive_client()
        else:
            await close_gracefully(self._shell.to_client, self._client)

    async def _outlive_client(self) -> None:
        """Give the broker what was read before the end, and the translation its time for the members."""
        with trio.move_on_after(FLUSH_TIMEOUT_S):
            await self._shell.to_client.flushed()
            # A client that wants no answers (acks=0) closes as soon as it has sent its records.
            await self._shell.begin_what_was_read()
        may_outlive_client = self._session.may_outlive_client
        self._session.client_closed()
        await trio.aclose_forcefully(self._client)
        upstream = self._upstream
        if upstream is None:
            return
        closing = upstream.ended.is_set() or self._ending.is_draining
        if may_outlive_client and self._driver.knows(self.id) and not closing:
            with self._metrics.lingering.track_inprogress():
                await self._ending.linger(upstream.ended)
        await close_gracefully(upstream.buffer, upstream.dialed.stream, upstream.ended)
