"""Writes the journal to files with one JSON object per line. A file gets its final name when it is complete.

The file being written is locked until its process ends. So another process with the same replica name (during a
replacement on one host) can tell it from a file that a killed process left behind.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import trio

from proxy.observability.journal import JournalError, JournalEvent

_SUFFIX = ".jsonl"
_NAME_PARTS = 3  # replica, boot, number


class FileSink:
    """Writes files in ``folder``, in a thread so that a slow disk delays no client.

    A batch that was written only in part is truncated again, so a full disk leaves no incomplete line. At most
    ``keep_bytes`` bytes of this replica's finished files are kept (0: all); ``deleted`` is called for each deleted one.
    """

    name = "files"

    def __init__(
        self,
        folder: Path,
        *,
        replica: str,
        boot: str,
        max_bytes: int,
        max_age_s: float,
        keep_bytes: int = 0,
        deleted: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._replica = replica.replace("/", "-")
        self._boot = boot
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._keep_bytes = keep_bytes
        self._deleted = deleted
        self._clock = clock
        self._number = 0
        self._file: int | None = None
        self._path = folder
        self._size = 0
        self._opened_at = 0.0
        self._cleaned = False

    async def write(self, events: list[JournalEvent]) -> None:
        """See :class:`proxy.observability.journal.Sink`."""
        await self._in_thread(lambda: self._write(events))

    async def idle(self) -> None:
        """Finish the file if it is old, and files that an earlier process left behind."""
        if not self._cleaned or self._is_old():
            await self._in_thread(self._maintain)

    async def close(self) -> None:
        """Finish the file."""
        await self._in_thread(self._finish)

    async def _in_thread(self, work: Callable[[], None]) -> None:
        try:
            await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        except OSError as error:
            raise JournalError(f"{self._path}: {error.strerror or error}", keep=False) from error

    # -- in the thread ---------------------------------------------------------------------------------------

    def _write(self, events: list[JournalEvent]) -> None:
        self._maintain()
        data = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
        file = self._file if self._file is not None else self._open()
        written = 0
        try:
            while written < len(data):
                written += os.write(file, data[written:])
        except OSError:
            os.ftruncate(file, self._size)
            raise
        self._size += written
        if self._size >= self._max_bytes:
            self._finish()

    def _maintain(self) -> None:
        if not self._cleaned:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._finish_leftovers()
            self._cleaned = True
        if self._is_old():
            self._finish()

    def _is_old(self) -> bool:
        return self._file is not None and self._clock() - self._opened_at >= self._max_age_s

    def _open(self) -> int:
        self._number += 1
        self._path = self._folder / f"_{self._replica}.{self._boot}.{self._number}{_SUFFIX}"
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._size = os.fstat(self._file).st_size
        self._opened_at = self._clock()
        return self._file

    def _finish(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        os.close(file)
        if self._size:
            self._path.rename(self._folder / self._path.name.removeprefix("_"))
        else:
            self._path.unlink()
        self._enforce_retention()

    def _enforce_retention(self) -> None:
        """Delete this replica's oldest finished files beyond ``keep_bytes``. Other replicas delete their own."""
        if not self._keep_bytes:
            return
        finished = [path for path in self._folder.glob(f"*{_SUFFIX}") if self._is_own(path.name)]
        stats = sorted((status.st_mtime_ns, status.st_size, path) for path, status in _present(finished))
        excess_bytes = sum(size for _, size, _ in stats) - self._keep_bytes
        for _, size, path in stats[:-1]:  # the newest stays, however large
            if excess_bytes <= 0:
                return
            path.unlink(missing_ok=True)
            self._deleted()
            excess_bytes -= size

    def _is_own(self, name: str) -> bool:
        parts = name[: -len(_SUFFIX)].rsplit(".", 2)
        return len(parts) == _NAME_PARTS and parts[0] == self._replica

    def _finish_leftovers(self) -> None:
        """Rename files left by killed processes of this replica; their last line may be incomplete."""
        for path in sorted(self._folder.glob(f"_*{_SUFFIX}")):
            parts = path.name[1 : -len(_SUFFIX)].rsplit(".", 2)
            own = len(parts) == _NAME_PARTS and parts[0] == self._replica and parts[1] != self._boot
            with contextlib.suppress(FileNotFoundError):  # another process has just finished it
                if own and not _is_being_written(path):
                    path.rename(self._folder / path.name.removeprefix("_"))


def _is_being_written(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks
            return False
    return False


def _present(paths: list[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files that still exist, since readers of the journal may move files away."""
    for path in paths:
        try:
            yield path, path.stat()
        except FileNotFoundError:
            continue
