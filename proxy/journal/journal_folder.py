"""The folder with the journal's files: what becomes of files that killed processes left behind, and which are deleted
(``journal.keep_bytes``).

A file is ``_<replica>.<boot>.<number>.jsonl`` while it is written, and loses the ``_`` when it is finished. Its writer
holds a lock on it, which ends with the process.

In a folder that is shared, as by pods whose names never come back, another process finishes the files of one that is
gone. Not every network file system tells a lock to other machines, so a file must also have been unchanged for longer
than a living process leaves one open. This process measures that by its own clock, since those of several machines and
of a file server may differ. A process that stood still for so long finds its file renamed, and begins another one.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".jsonl"
_UNFINISHED = "_"
_NAME_PARTS = 3  # replica, boot, number
_GRACE_S = 60.0
"""How much longer than a living process leaves a file open a file has to be unchanged to be taken for abandoned."""


class Terms(NamedTuple):
    """How files are written and kept, by the keys ``file_...``, ``keep_bytes`` and ``shared`` of ``journal``."""

    max_bytes: int
    max_age_s: float
    keep_bytes: int = 0
    shared: bool = False


class _File(NamedTuple):
    path: Path
    status: os.stat_result

    @property
    def is_finished(self) -> bool:
        return not self.path.name.startswith(_UNFINISHED)


class JournalFolder:
    """The folder as one process sees it, which is start ``boot`` of ``replica``. All methods block.

    ``deleted`` is called for each file that is deleted.
    """

    def __init__(
        self,
        path: Path,
        terms: Terms,
        *,
        replica: str,
        boot: str,
        deleted: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._terms = terms
        self._replica = replica.replace("/", "-")
        self._boot = boot
        self._deleted = deleted
        self._clock = clock
        self._unchanged: dict[str, tuple[tuple[int, int], float]] = {}
        """Unfinished files of others: size and modification time, and since when they are seen so."""

    def new_file(self, number: int) -> Path:
        """Return the path of this process's file of that number."""
        return self.path / f"{_UNFINISHED}{self._replica}.{self._boot}.{number}{SUFFIX}"

    def finish(self, path: Path) -> None:
        """Give a complete file its name, or remove it if it is empty. Do nothing if another process was faster."""
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size:
                path.rename(path.with_name(path.name.removeprefix(_UNFINISHED)))
            else:
                path.unlink()

    def finish_own(self) -> None:
        """Finish what killed processes of this replica left; the last line of such a file may be incomplete."""
        for file in self._unfinished():
            if _is_of(file.path, self._replica) and not _is_being_written(file.path):
                self.finish(file.path)

    def finish_abandoned(self) -> None:
        """In a shared folder: finish the files of processes that are gone, whatever their replica was."""
        if not self._terms.shared:
            return
        now, seen = self._clock(), {}
        for path, status in self._unfinished():
            state = status.st_size, status.st_mtime_ns
            before, since = self._unchanged.get(path.name, (state, now))
            seen[path.name] = state, since if before == state else now
            if now - seen[path.name][1] >= self._terms.max_age_s + _GRACE_S and not _is_being_written(path):
                self.finish(path)
        self._unchanged = seen

    def make_room(self) -> None:
        """Delete the oldest finished files beyond ``keep_bytes``: those of this replica, or all in a shared folder.

        There every unfinished file counts with the size that it may get, so all writers together keep to the limit
        without asking each other: who begins a file makes the room for it, after it is there for others to count.
        """
        if not self._terms.keep_bytes:
            return
        shared, excess, finished = self._terms.shared, -self._terms.keep_bytes, []
        for file in self._files(f"*{SUFFIX}"):
            if file.is_finished and (shared or _is_of(file.path, self._replica)):
                finished.append(file)
                excess += file.status.st_size
            elif shared:
                excess += max(file.status.st_size, self._terms.max_bytes)
        finished = _oldest_first(finished)
        for file in finished if shared else finished[:-1]:  # the newest of this replica stays, however large
            if excess <= 0:
                return
            self._delete(file.path)
            excess -= file.status.st_size

    def delete_oldest(self) -> bool:
        """In a shared folder on a full disk: delete the oldest finished file. Return False if there is none."""
        if not (self._terms.shared and self._terms.keep_bytes):
            return False
        for file in _oldest_first(file for file in self._files(f"*{SUFFIX}") if file.is_finished):
            if self._delete(file.path):
                return True
        return False

    def _delete(self, path: Path) -> bool:
        try:
            path.unlink()
        except FileNotFoundError:  # a reader has moved it away, or another process was faster
            return False
        self._deleted()
        return True

    def _unfinished(self) -> Iterator[_File]:
        """Yield the unfinished files of all processes but this one."""
        for file in self._files(f"{_UNFINISHED}*{SUFFIX}"):
            parts = _parts(file.path)
            if len(parts) == _NAME_PARTS and parts[:2] != [self._replica, self._boot]:
                yield file

    def _files(self, pattern: str) -> list[_File]:
        """Return the files that still exist, since readers of the journal may move files away."""
        found = []
        for path in sorted(self.path.glob(pattern)):
            with contextlib.suppress(FileNotFoundError):
                found.append(_File(path, path.stat()))
        return found


def _parts(path: Path) -> list[str]:
    return path.name.removeprefix(_UNFINISHED).removesuffix(SUFFIX).rsplit(".", _NAME_PARTS - 1)


def _is_of(path: Path, replica: str) -> bool:
    parts = _parts(path)
    return len(parts) == _NAME_PARTS and parts[0] == replica


def _oldest_first(files: Iterable[_File]) -> list[_File]:
    return sorted(files, key=lambda file: (file.status.st_mtime_ns, file.path))


def _is_being_written(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks, or another process has just finished it
        return False
    return False
