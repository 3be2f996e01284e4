"""Counts and logs share sessions that the proxy itself ends while records are locked in them."""

import structlog

from proxy.connection.disconnect_cause import DisconnectCause
from proxy.metrics.registry import Metrics
from proxy.runtime.log_throttle import LogThrottle
from proxy.session.share_session import ShareSession

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.connection.share_session_cuts")

_LINES_PER_S = 1 / 3600
"""For each group: a restart of the proxy cuts all its sessions, and one line says it."""

_NOT_OURS = frozenset({DisconnectCause.CLIENT_CLOSED, DisconnectCause.SERVER_CLOSED})


class ShareSessionCuts:
    """The share sessions that one process has cut."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._throttle = LogThrottle(_LINES_PER_S)

    def connection_ended(self, session: ShareSession, cause: DisconnectCause) -> None:
        """Note that the connection of this session ends for this cause."""
        if cause in _NOT_OURS or not session.has_locks:
            return
        self._metrics.share_sessions_cut.labels(cause).inc()
        if (suppressed := self._throttle.suppressed(session.group_id)) is not None:
            _log.warning(
                "a share session was cut: its locked records are delivered once more",
                group=session.group_id,
                cause=str(cause),
                suppressed=suppressed,
            )
