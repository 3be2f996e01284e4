"""Files of a journal that were not finished: a process writes them still, or is gone and nobody has finished them.

They are not read, since a line of theirs may be half written. What they have is known from their first and their last
event, though, and so is what of it is missing elsewhere. A file is taken for one of a process that is gone when it was
not changed for longer than a living process leaves one open, as the proxies do themselves (docs/reference/journal.md).
"""

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import NamedTuple

from pipeline.rules.lines import Line, parse_line
from pipeline.rules.losses import Loss, Process

GONE_AFTER_S = 120.0
"""`journal.file_max_age_s` and a minute more, as long as nobody sets the former."""
EDGE = 1024 * 1024
"""Bytes at each end of a file in which its first and its last event are looked for."""


class Unfinished(NamedTuple):
    """A file, and its first and last event; None for what could not be found out."""

    file: str
    size: int
    changed_ms: int
    is_gone: bool
    """Whether its process is taken to be gone."""
    process: Process | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    first_us: int | None = None
    last_us: int | None = None


def looked_at(
    file: str, size: int, changed_ms: int, edges: tuple[bytes, bytes], *, is_gone: bool
) -> Unfinished:
    """Return what a file says by the bytes at its beginning and at its end, which may be the same ones.

    What follows the last line end is not taken for an event: it was cut off, or is being written.
    """
    beginning, end = edges
    found = [
        next((event for event in map(parse_line, lines) if isinstance(event, Line)), None)
        for lines in (_whole(beginning), reversed(_whole(end)))
    ]
    first, last = found
    known = Unfinished(PurePath(file).name, size, changed_ms, is_gone)
    if first is None or last is None:
        return known
    return known._replace(
        process=(first.replica or "", first.boot or ""),
        first_seq=first.seq,
        last_seq=last.seq,
        first_us=first.time_us,
        last_us=last.time_us,
    )


def _whole(part: bytes) -> list[bytes]:
    return part.split(b"\n")[:-1]


def unread(
    files: Iterable[Unfinished], last_read: Mapping[Process, tuple[int, int]]
) -> list[tuple[Unfinished, Loss]]:
    """Return, for each file with events beyond those that were read, these as a loss.

    ``last_read`` has the highest number of each process that was read, and its time. A file that was finished and read
    meanwhile has nothing more.
    """
    found = []
    for file in files:
        if file.process is None or file.last_seq is None:
            continue
        seq, time_us = last_read.get(file.process, (0, file.first_us or 0))
        if file.last_seq > seq:
            loss = Loss(*file.process, seq + 1, file.last_seq, time_us, max(file.last_us or 0, time_us))
            found.append((file, loss))
    return found


def by_file(
    files: Iterable[Unfinished], beyond: Iterable[tuple[Unfinished, Loss]], *, gone: bool
) -> dict[str, int | None]:
    """Return how many events only these files have, by name, of processes that are gone or of others; None: unknown."""
    counted = {file.file: loss.events for file, loss in beyond}
    return {
        one.file: counted.get(one.file, None if one.process is None else 0)
        for one in files
        if one.is_gone is gone
    }
