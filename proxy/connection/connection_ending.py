"""Decides when one connection ends (one that is too old at its next moment of rest), and by which cause
(``epochgate_client_to_proxy_disconnects_total``).

:mod:`proxy.connection.client_connection` ends it.
"""

import structlog
import trio

from proxy.connection.disconnect_cause import BROKER_AT_FAULT, CLIENT_AT_FAULT, DisconnectCause
from proxy.connection.translator_driver import TranslatorDriver
from proxy.metrics.registry import Metrics
from proxy.session.session import ClientSession
from translation.actions import ConnectionId

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.connection.client_connection")


class ConnectionEnding:
    """The ending of one connection, which serves its client inside :attr:`serving`."""

    def __init__(self, connection_id: ConnectionId, session: ClientSession, driver: TranslatorDriver) -> None:
        self.cause: DisconnectCause | None = None
        """Why the connection ends; None as long as it serves its client."""
        self.serving = trio.CancelScope()
        """Cancelled when the connection ends."""
        self.is_pending = False
        """Whether :meth:`check` has to be called after each change of the session."""
        self.is_draining = False
        """Whether :meth:`close_when_idle` was called."""
        self._reason = ""
        self._id = connection_id
        self._session = session
        self._driver = driver
        self._pending_cause: DisconnectCause | None = None
        self._linger_over: trio.Event | None = None
        self._released = False

    def end(self, cause: DisconnectCause, reason: str = "") -> None:
        """End the connection; the first cause counts. A connection that outlives its client ends too."""
        if self.cause is None:
            self.cause, self._reason = cause, reason
        self.serving.cancel()
        if self._linger_over is not None:
            self._linger_over.set()

    # -- at the next good moment ---------------------------------------------------------------------------

    def close_when_idle(self, cause: DisconnectCause) -> None:
        """Have the session take no further request, and end once those in flight are answered."""
        self.is_pending = self.is_draining = True
        self._pending_cause = cause
        self._session.stop_accepting()
        self.check()

    def close_when_quiescent(self, cause: DisconnectCause) -> None:
        """End once nothing is under way and every member on the connection is Stable.

        Unlike after :meth:`close_when_idle` the session goes on taking requests, so a busy connection may stay.
        """
        self.is_pending = True
        if not self.is_draining:
            self._pending_cause = cause
        self.check()

    def check(self) -> None:
        """End the connection if the moment has come that it waits for."""
        if self._pending_cause is None:
            return
        session = self._session
        if self.is_draining:
            if session.idle:
                self.end(self._pending_cause, "nothing under way any more")
        elif session.quiescent and self._driver.is_quiescent(self._id):
            self.end(self._pending_cause, "it was to end as soon as nothing was under way")

    # -- after the client has gone -------------------------------------------------------------------------

    async def linger(self, upstream_ended: trio.Event) -> None:
        """Wait until the translation, the broker or a drain ends the upstream connection."""
        self._linger_over = trio.Event()
        self._driver.client_disconnected(self._id)
        self._session.forget_request()
        if not upstream_ended.is_set():
            await self._linger_over.wait()
        if self._released:
            self._driver.forget(self._id)

    def release(self) -> None:
        """The translation needs the upstream connection no longer."""
        self._released = True
        if self._linger_over is not None:
            self._linger_over.set()

    # -- for operators -------------------------------------------------------------------------------------

    def report(self, metrics: Metrics, client_host: str, port: str) -> DisconnectCause:
        """Count and log why the connection ended; returns the cause."""
        cause = self.cause or DisconnectCause.CLIENT_CLOSED
        metrics.client_disconnects.labels(cause).inc()
        log = _log.bind(connection=self._id, client=client_host, port=port, cause=str(cause))
        if cause in CLIENT_AT_FAULT or cause in BROKER_AT_FAULT:
            log.warning("connection closed", reason=self._reason)
        elif cause is DisconnectCause.SERVER_CLOSED and not self._session.idle:
            log.warning("connection closed", reason="the broker closed it with requests outstanding")
        elif cause is DisconnectCause.CLIENT_CLOSED and self._session.mid_request:
            metrics.client_errors.labels("truncated").inc()
            log.info("connection closed", reason="the client vanished in the middle of a request")
        else:
            log.debug("connection closed", reason=self._reason)
        return cause
