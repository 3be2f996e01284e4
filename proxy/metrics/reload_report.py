"""What became of a file with secrets that was read again: metrics and log lines."""

import structlog

from proxy.metrics.registry import Metrics

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.reload")


class ReloadReport:
    """Counts and logs what became of a file that was read again. ``where`` is its key, ``what`` it has, for people."""

    def __init__(self, metrics: Metrics, where: str, what: str) -> None:
        self._metrics, self._where, self._what = metrics, where, what

    def begun(self) -> None:
        """It was read with the configuration that names it."""
        self._metrics.tls_is_current.labels(self._where).set(1)

    def refused(self, why: str, reason: str) -> None:
        """It can't be used, so what it had before stays in force."""
        self._metrics.tls_reloads.labels(self._where, "refused").inc()
        self._metrics.tls_is_current.labels(self._where).set(0)
        _log.error(f"{self._what} refused, those before stay", why=why, reason=reason)

    def applied(self, why: str, **facts: object) -> None:
        """What it has is in force."""
        self._metrics.tls_reloads.labels(self._where, "applied").inc()
        self._metrics.tls_is_current.labels(self._where).set(1)
        _log.info(f"{self._what} applied", why=why, **facts)
