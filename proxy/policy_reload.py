"""The policy file, read again when it changes or at SIGHUP, without dropping a connection.

A file that can't be used is refused and the policy before it stays; log and metrics say so, because an operator
who has just edited it looks there.
"""

import signal
from collections.abc import Callable
from pathlib import Path

import structlog
import trio

from proxy.config_file import ConfigError, load_policy
from proxy.metrics import Metrics
from translation.policy import Policy

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.policy")

LOOK_S = 1.0
"""Seconds between looks at the file. Polling also sees what Kubernetes does to a mounted ConfigMap (it swaps links)."""


class PolicyReloader:
    """Watches one policy file. ``apply`` is given each policy that is new and good."""

    def __init__(self, file: Path, apply: Callable[[Policy], None], metrics: Metrics) -> None:
        self._file = file
        self._apply = apply
        self._metrics = metrics
        self._seen = self._signature()
        metrics.policy_version.set(1)

    async def run(self) -> None:
        """Watch for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look)
            nursery.start_soon(self._listen)

    async def _look(self) -> None:
        while True:
            await trio.sleep(LOOK_S)
            if (signature := self._signature()) != self._seen:
                self._seen = signature
                self.reload("the file changed")

    async def _listen(self) -> None:
        with trio.open_signal_receiver(signal.SIGHUP) as signals:
            async for _ in signals:
                self._seen = self._signature()
                self.reload("SIGHUP")

    def reload(self, why: str) -> None:
        """Read the file and apply it, or refuse it."""
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

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            status = self._file.stat()  # follows links, as reading does
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns
