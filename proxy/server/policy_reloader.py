"""Reloads the policy file, without dropping a connection.

:mod:`proxy.config.file_watcher` notices that the file has changed, or a SIGHUP. A file that can't be used is refused:
the previous policy stays in force, and log and metrics report it.
"""

from collections.abc import Callable
from pathlib import Path

import structlog

from proxy.config.file_watcher import POLL_INTERVAL_S, FileWatcher
from proxy.config.loader import ConfigError, load_policy
from proxy.metrics.registry import Metrics
from translation.policy.policy import Policy

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.policy")

__all__ = ["POLL_INTERVAL_S", "PolicyReloader"]


class PolicyReloader:
    """Watches one policy file. ``apply`` gets each new policy that is valid."""

    def __init__(self, file: Path, apply: Callable[[Policy], None], metrics: Metrics) -> None:
        self._file = file
        self._apply = apply
        self._metrics = metrics
        metrics.policy_version.set(1)

    @property
    def files(self) -> tuple[Path, ...]:
        """The policy file; see :class:`proxy.config.file_watcher.Reloadable`."""
        return (self._file,)

    async def run(self) -> None:
        """Watch until cancelled."""
        await FileWatcher((self,)).run()

    def reload(self, why: str) -> None:
        """Read the file and apply its policy, or refuse it. ``why`` goes to the log."""
        try:
            policy = load_policy(self._file)
        except ConfigError as error:
            self._metrics.policy_reloads.labels("refused").inc()
            self._metrics.policy_is_current.set(0)
            _log.error("policy refused, the one before stays", why=why, reason=str(error))
            return
        self._apply(policy)
        self._metrics.policy_reloads.labels("applied").inc()
        self._metrics.policy_is_current.set(1)
        self._metrics.policy_version.inc()
        _log.info("policy applied", why=why, rules=len(policy.rules), default=str(policy.default))
