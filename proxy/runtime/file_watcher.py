"""Notices that the configuration, the policy, certificates or secrets have changed, or a SIGHUP, and has them used
without a restart.

Who reloads them: :class:`proxy.reload.config_reloader.ConfigReloader`,
:class:`proxy.reload.policy_reloader.PolicyReloader`, :class:`proxy.transport.tls_context.Certificates` and the holders
of other secrets. No connection is dropped.
"""

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import trio

from proxy.config.policy_source import MOST_FILES, is_policy_file

POLL_INTERVAL_S = 1.0
"""Seconds between polls. Polling also sees how Kubernetes updates a mounted ConfigMap (it swaps symbolic links)."""

_State = tuple[object, ...] | None
Signature = tuple[_State, ...]


class Reloadable(Protocol):
    """Something that is loaded from files and can be loaded again."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files to watch."""
        ...

    def reload(self, why: str) -> None:
        """Read the files and apply them, or keep the present state if they are invalid. ``why`` is for the log."""
        ...


class FileWatcher:
    """Watches the files of several reloadables. Construct it before their files can change, or say in ``as_read`` what
    they were when they were read.

    A change is applied once the files stayed the same for one interval. Files that belong together may be written one
    after the other (a certificate and its key), and a policy file that is only half written may still be valid YAML:
    a policy that would move every group back.

    ``reloadables`` are those of the moment: a changed configuration brings others. Those are reloaded once, since their
    files may have changed between their construction and the next poll.
    """

    def __init__(
        self,
        reloadables: Callable[[], Sequence[Reloadable]],
        as_read: Mapping[Reloadable, Signature] = MappingProxyType({}),
    ) -> None:
        self._reloadables = reloadables
        self._watched = {one: _Watched(as_read.get(one) or signature(one.files)) for one in reloadables()}

    async def run(self) -> None:
        """Poll the files and listen for SIGHUP, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._poll)
            nursery.start_soon(self._listen)

    def _take_new(self) -> None:
        before, self._watched = self._watched, {}
        for one in self._reloadables():
            self._watched[one] = before.get(one) or _Watched(())

    async def _poll(self) -> None:
        while True:
            await trio.sleep(POLL_INTERVAL_S)
            self._take_new()
            for one, watched in list(self._watched.items()):
                now = signature(one.files)
                settled = now == watched.last_seen
                watched.last_seen = now
                if now != watched.applied and settled:
                    watched.applied = now
                    one.reload("a file changed" if len(one.files) > 1 else "the file changed")

    async def _listen(self) -> None:
        with trio.open_signal_receiver(signal.SIGHUP) as signals:
            async for _ in signals:
                self._take_new()
                for one, watched in list(self._watched.items()):
                    watched.applied = watched.last_seen = signature(one.files)
                    one.reload("SIGHUP")


class _Watched:
    """The signature of a reloadable's files as they were applied, and as they were seen last."""

    def __init__(self, now: Signature) -> None:
        self.applied = self.last_seen = now


def signature(files: Sequence[Path]) -> Signature:
    """Return what changes whenever one of these files does."""
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
