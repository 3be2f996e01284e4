"""The files of a journal as streams, one for each process that wrote them."""

import contextlib
import re
import time
from collections.abc import Generator, Iterable
from io import SEEK_END, BytesIO, FileIO
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import PipelineError
from pipeline.rules.lines import Line, parse_line
from pipeline.rules.unfinished import EDGE, GONE_AFTER_S, Unfinished, looked_at

_NAME = re.compile(r"(?P<label>.+\.[^.]+)\.(?P<number>[0-9]+)\.jsonl")
"""``<replica>.<boot>.<number>.jsonl``"""
_UNFINISHED = "_"
_TAIL = 256 * 1024
_LOOK_AT = 64
_PIECE = 64 * 1024
_AT_ONCE = 16 * 1024 * 1024
"""Bytes of lines that are read at once, and a line more: a file may have long lines alone."""
_LONGEST = 16 * 1024 * 1024
"""A longer line, such as zeros that a file system left after a crash, is read in pieces of this many bytes."""


class JournalFiles(NamedTuple):
    """What a folder has."""

    of_processes: dict[str, list[Path]]
    """The finished files of each process, in order."""
    others: list[Path]
    """Finished files that are named otherwise, or have events of others than their name says."""
    unfinished: list[Unfinished]
    """Files that are not finished, and not read."""


class FileStream:
    """The lines of a process's files."""

    def __init__(self, label: str, files: Iterable[Path]) -> None:
        self.label = label
        self._files = tuple(files)
        self._pieces: Generator[list[bytes]] | None = None
        self._lines: list[bytes] = []
        self._at = 0

    def read(self, most: int) -> list[bytes]:
        """See :class:`pipeline.rules.ordering.Stream`. Raises PipelineError."""
        if self._pieces is None:
            self._pieces = _pieces(self._files)
        size = 0
        while (
            size < _AT_ONCE
            and len(self._lines) - self._at < most
            and (more := next(self._pieces, None)) is not None
        ):
            self._lines = self._lines[self._at :] + more
            self._at = 0
            size += sum(map(len, more))
        some = self._lines[self._at : self._at + most]
        self._at += len(some)
        return some

    def rewind(self) -> None:
        """See :class:`pipeline.rules.ordering.Stream`."""
        if self._pieces is not None:
            self._pieces.close()
        self._pieces, self._lines, self._at = None, [], 0


def _pieces(paths: Iterable[Path]) -> Generator[list[bytes]]:
    """Yield the lines of files with their ends, some at a time.

    The last line of an unfinished file counts once it is whole.
    """
    for path in paths:
        try:
            with _opened(path) as file:
                begun: list[bytes] = []  # of the line whose end is not read yet
                length = 0
                while data := file.read(_PIECE):
                    lines = BytesIO(data).readlines()  # finds ends of lines faster than bytes.split
                    rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
                    if lines:
                        lines[0] = b"".join([*begun, lines[0]])
                        begun, length = [], 0
                    begun.append(rest)
                    length += len(rest)
                    if length > _LONGEST:
                        lines.append(b"".join(begun))
                        begun, length = [], 0
                    yield lines
                if length and not _is_unfinished(path):
                    yield [b"".join(begun)]
        except OSError as error:
            raise PipelineError(f"{path}: {error.strerror or error}") from error


def _opened(path: Path) -> FileIO:
    """Open a file, under its final name if it has been finished since it was found."""
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        if not _is_unfinished(path):
            raise
        return path.with_name(path.name.removeprefix(_UNFINISHED)).open("rb", buffering=0)


def _is_unfinished(path: Path) -> bool:
    return path.name.startswith(_UNFINISHED)


def find(folder: Path, *, live: bool = False, gone_after_s: float = GONE_AFTER_S) -> JournalFiles:
    """Find the files of a journal in a folder and its sub-folders; if ``live``, those not finished are read as well.

    One that is not, and unchanged for ``gone_after_s`` seconds, is of a process that is gone.

    Raises PipelineError if there are none.
    """
    if not folder.is_dir():
        raise PipelineError(f"{folder} is not a folder")
    numbered: dict[str, list[tuple[int, Path]]] = {}
    others: list[Path] = []
    unfinished: list[Unfinished] = []
    for path in sorted(folder.rglob("*.jsonl")):
        if _is_unfinished(path) and not live:
            with contextlib.suppress(FileNotFoundError):  # it is finished by now, and not read
                unfinished.append(_unfinished(path, gone_after_s))
        elif (name := _NAME.fullmatch(path.name.removeprefix(_UNFINISHED))) is not None:
            numbered.setdefault(name["label"], []).append((int(name["number"]), path))
        elif not path.name.startswith("."):
            others.append(path)
    of_processes = {}
    for label, files in numbered.items():
        paths = [path for _, path in sorted(files)]
        if _label_of(paths[0]) in (label, None):
            of_processes[label] = paths
        else:
            others += paths
    if not (of_processes or others or unfinished):
        raise PipelineError(f"{folder} has no files of a journal (*.jsonl)")
    return JournalFiles(of_processes, others, unfinished)


def _unfinished(path: Path, gone_after_s: float) -> Unfinished:
    with path.open("rb") as file:
        beginning = file.read(EDGE)
        size = file.seek(0, SEEK_END)
        file.seek(max(size - EDGE, 0))
        edges = beginning, file.read(EDGE)
    changed_ms = int(path.stat().st_mtime * 1000)
    is_gone = time.time() * 1000 - changed_ms > gone_after_s * 1000
    return looked_at(path.name, size, changed_ms, edges, is_gone=is_gone)


def last_us(files: JournalFiles) -> int:
    """Return the time of the newest event in the ends of the processes' last files; 0 if there is none."""
    return max((_last_us(paths[-1]) for paths in files.of_processes.values()), default=0)


def label(event: Line) -> str:
    """Return how the files of an event's process begin."""
    return f"{(event.replica or '').replace('/', '-')}.{event.boot}"


def _label_of(path: Path) -> str | None:
    """Return the label of the process whose event is the first in a file; None if there is none."""
    stream = FileStream("", [path])
    try:
        events = (parse_line(line) for line in stream.read(_LOOK_AT))
        return next((label(event) for event in events if isinstance(event, Line)), None)
    finally:
        stream.rewind()


def _last_us(path: Path) -> int:
    try:
        with _opened(path) as file:
            file.seek(max(file.seek(0, SEEK_END) - _TAIL, 0))
            events = (parse_line(line) for line in file.read().splitlines())
            return max((event.time_us or 0 for event in events if isinstance(event, Line)), default=0)
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror or error}") from error
