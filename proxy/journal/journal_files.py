"""Writes the journal to files with one JSON object per line (``journal.path``, ``file_max_bytes``,
``file_max_age_s``). A file gets its final name when it is complete.

The file being written is locked until its process ends, so that other processes can tell it from a file that a killed
process left behind (:mod:`journal_folder`).
"""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import trio

from proxy.journal.journal import JournalError, JournalEvent
from proxy.journal.journal_folder import JournalFolder, Terms

_SCAN_EVERY_S = 30.0
"""How often a shared folder is looked at for what others left, and for its size."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class FileSink:
    """Writes files in ``folder``, in a thread so that a slow disk delays no client.

    A batch that was written only in part is truncated again, so a full disk leaves no incomplete line. ``deleted`` is
    called for each finished file that is deleted.
    """

    name = "files"

    def __init__(
        self,
        folder: Path,
        terms: Terms,
        *,
        replica: str,
        boot: str,
        deleted: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = JournalFolder(folder, terms, replica=replica, boot=boot, deleted=deleted, clock=clock)
        self._terms = terms
        self._clock = clock
        self._number = 0
        self._file: int | None = None
        self._path = folder
        self._size = 0
        self._opened_at = 0.0
        self._scanned_at: float | None = None

    async def write(self, events: list[JournalEvent]) -> None:
        """See :class:`proxy.journal.journal.Sink`."""
        await self._in_thread(lambda: self._write(events))

    async def idle(self) -> None:
        """Finish the file if it is old, and files that other processes left behind."""
        if self._is_old() or self._is_scan_due():
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
        if self._file is not None and (self._is_taken() or self._size + len(data) > self._terms.max_bytes):
            self._finish()
        while True:
            try:
                self._append(data)
                break
            except OSError as error:
                if error.errno not in _NO_ROOM or not self._folder.delete_oldest():
                    raise
        if self._size >= self._terms.max_bytes:
            self._finish()

    def _append(self, data: bytes) -> None:
        file = self._file if self._file is not None else self._open()
        written = 0
        try:
            while written < len(data):
                written += os.write(file, data[written:])
        except OSError:
            os.ftruncate(file, self._size)
            raise
        self._size += written

    def _maintain(self) -> None:
        if self._is_scan_due():
            if self._scanned_at is None:
                self._folder.path.mkdir(parents=True, exist_ok=True)
                self._folder.finish_own()
            self._folder.finish_abandoned()
            self._folder.make_room()
            self._scanned_at = self._clock()
        if self._is_old():
            self._finish()

    def _is_scan_due(self) -> bool:
        if self._scanned_at is None:
            return True
        return self._terms.shared and self._clock() - self._scanned_at >= _SCAN_EVERY_S

    def _is_old(self) -> bool:
        return self._file is not None and self._clock() - self._opened_at >= self._terms.max_age_s

    def _is_taken(self) -> bool:
        """Whether the file is no longer there: another process finished it, because this one stood still."""
        return not self._path.exists()

    def _open(self) -> int:
        self._number += 1
        self._path = self._folder.new_file(self._number)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._size = os.fstat(self._file).st_size
        self._opened_at = self._clock()
        self._folder.make_room()
        return self._file

    def _finish(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        os.close(file)
        self._folder.finish(self._path)
        self._folder.make_room()
