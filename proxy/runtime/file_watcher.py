"""Notices that certificates or the policy file have changed, or a SIGHUP, and has them reloaded.

Who reloads them: :class:`proxy.transport.tls_context.Certificates` and
:class:`proxy.reload.policy_reloader.PolicyReloader`. No connection is dropped. The configuration file itself is read
once, at the start.
"""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import structlog
import trio

from proxy.config.policy_source import MOST_FILES, is_policy_file
from proxy.metrics.registry import Metrics

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.reload")

POLL_INTERVAL_S = 1.0
"""Seconds between polls. Polling also sees how Kubernetes updates a mounted ConfigMap (it swaps symbolic links)."""

_State = tuple[object, ...] | None
_Signature = tuple[_State, ...]


class Reloadable(Protocol):
    """Something that is loaded from files and can be loaded again."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files to watch."""
        ...

    def reload(self, why: str) -> None:
        """Read the files and apply them, or keep the present state if they are invalid. ``why`` is for the log."""
        ...


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


class FileWatcher:
    """Watches the files of several reloadables. Construct it before their files can change.

    A change is applied once the files stayed the same for one interval. Files that belong together may be written one
    after the other (a certificate and its key), and a policy file that is only half written may still be valid YAML:
    a policy that would move every group back.
    """

    def __init__(self, reloadables: Sequence[Reloadable]) -> None:
        self._reloadables = tuple(reloadables)
        self._applied = [_signature(one.files) for one in self._reloadables]
        self._last_seen = list(self._applied)

    async def run(self) -> None:
        """Poll the files and listen for SIGHUP, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._poll)
            nursery.start_soon(self._listen)

    async def _poll(self) -> None:
        while True:
            await trio.sleep(POLL_INTERVAL_S)
            for n, one in enumerate(self._reloadables):
                signature = _signature(one.files)
                settled = signature == self._last_seen[n]
                self._last_seen[n] = signature
                if signature != self._applied[n] and settled:
                    self._applied[n] = signature
                    one.reload("a file changed" if len(one.files) > 1 else "the file changed")

    async def _listen(self) -> None:
        with trio.open_signal_receiver(signal.SIGHUP) as signals:
            async for _ in signals:
                for n, one in enumerate(self._reloadables):
                    self._applied[n] = self._last_seen[n] = _signature(one.files)
                    one.reload("SIGHUP")


def _signature(files: Sequence[Path]) -> _Signature:
    return tuple(_state(file) for file in files)


def _state(file: Path) -> _State:
    """What changes whenever a file does, or a file of the policy in a directory; None if it can't be looked at."""
    try:
        if file.is_dir():
            names = sorted(entry.name for entry in file.iterdir() if is_policy_file(entry.name))
            return tuple((name, _state(file / name)) for name in names[: MOST_FILES + 1])
        status = file.stat()  # follows links, as reading does
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
