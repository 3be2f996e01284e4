"""Files that are read again when they change, or at SIGHUP, without dropping a connection."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import trio

LOOK_S = 1.0
"""Seconds between looks. Polling also sees what Kubernetes does to a mounted ConfigMap (it swaps links)."""

_Signature = tuple[tuple[int, int, int] | None, ...]


class Watched(Protocol):
    """What is made from files."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files."""
        ...

    def reload(self, why: str) -> None:
        """Read them and apply what they say, or refuse it."""
        ...


class FileWatch:
    """Watches the files of all of them; to be made before they can change unseen.

    They are read once they have stayed the same between two looks. Of several files that belong together, one may be
    written before the other (a certificate and its key), and of a policy whose second half is not written yet, or
    nothing, the part that is there may well be a policy: one that moves every group back.
    """

    def __init__(self, watched: Sequence[Watched]) -> None:
        self._watched = tuple(watched)
        self._applied = [_signature(one.files) for one in self._watched]
        self._last_seen = list(self._applied)

    async def run(self) -> None:
        """Watch for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look)
            nursery.start_soon(self._listen)

    async def _look(self) -> None:
        while True:
            await trio.sleep(LOOK_S)
            for n, one in enumerate(self._watched):
                signature = _signature(one.files)
                settled = signature == self._last_seen[n]
                self._last_seen[n] = signature
                if signature != self._applied[n] and settled:
                    self._applied[n] = signature
                    one.reload("a file changed" if len(one.files) > 1 else "the file changed")

    async def _listen(self) -> None:
        with trio.open_signal_receiver(signal.SIGHUP) as signals:
            async for _ in signals:
                for n, one in enumerate(self._watched):
                    self._applied[n] = self._last_seen[n] = _signature(one.files)
                    one.reload("SIGHUP")


def _signature(files: Sequence[Path]) -> _Signature:
    return tuple(_state(file) for file in files)


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()  # follows links, as reading does
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
