"""Splits lines that are not apart by process, as those of a topic, into one file for each process and source.

What a source has of one process is in order, while the processes are not in order among themselves: one that could not
write for minutes comes late. Apart, they can be put in order without holding more than a part of each in memory.
"""

from collections.abc import Iterable
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.rules.lines import Line, parse_line
from pipeline.verify.files import FileStream, label

_AT_ONCE = 8 * 1024 * 1024
"""Bytes that are held before they are written."""
_LINES_AT_ONCE = 1_000
_UNREADABLE = "unreadable"


class Spool:
    """Files in a temporary folder, which the caller removes. Raises PipelineError if it can't be written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers: dict[tuple[str, str], int] = {}
        self._waiting: dict[tuple[str, str], list[bytes]] = {}
        self._newest: dict[str, tuple[str, str]] = {}
        self._bytes = 0
        self.last_us = 0
        """The time of the newest event."""

    def add(self, source: str, lines: Iterable[bytes]) -> None:
        """Take lines of a source: a partition, or a file."""
        for line in lines:
            event = parse_line(line)
            if isinstance(event, Line):
                self.last_us = max(self.last_us, event.time_us or 0)
                key = self._newest[source] = label(event), source
            else:  # stays behind the line that it came after, which bounds its time
                key = self._newest.get(source, (_UNREADABLE, source))
            self._waiting.setdefault(key, []).append(line.rstrip(b"\r\n").replace(b"\n", b" ") + b"\n")
            self._bytes += len(line)
        if self._bytes >= _AT_ONCE:
            self._write()

    def add_file(self, path: Path) -> None:
        """Take the lines of a file."""
        stream = FileStream("", [path])
        while lines := stream.read(_LINES_AT_ONCE):
            self.add(str(path), lines)

    def streams(self) -> list[FileStream]:
        """Return what has come."""
        self._write()
        return [FileStream(name, [self._path(number)]) for (name, _), number in self._numbers.items()]

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.jsonl"

    def _write(self) -> None:
        try:
            for key, lines in self._waiting.items():
                with self._path(self._numbers.setdefault(key, len(self._numbers))).open("ab") as file:
                    file.writelines(lines)
        except OSError as error:
            raise PipelineError(f"{self._folder}: {error.strerror or error}") from error
        self._waiting.clear()
        self._bytes = 0
