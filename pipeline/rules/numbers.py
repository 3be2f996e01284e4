"""Keeps track of one process's sequence numbers as its events arrive: which are missing, and which came before.

A process numbers its events from 1 on, so a number that never comes is an event that was lost. Events may arrive twice
(a batch that was written again) and out of order (a ``lost`` event takes the number of the newest event, and the time
of those it stands for). Memory is for the holes, which are few, and of which only :data:`MOST_HOLES` are kept.
"""

from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from pipeline.rules.losses import Loss, Process

MOST_HOLES = 10_000
"""Beyond that the two oldest become one, which then seems to last from the first to the second."""


class SavedNumbers(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The numbers of one process as plain values; ``holes`` are (first, last, from_us, to_us)."""

    events: int
    duplicates: int
    last: int
    first_us: int
    last_us: int
    top_us: int
    holes: list[tuple[int, int, int, int]]


class _Hole:
    """Missing numbers, and the times of the events before and after them."""

    __slots__ = ("first", "from_us", "last", "to_us")

    def __init__(self, first: int, last: int, from_us: int, to_us: int) -> None:
        self.first, self.last, self.from_us, self.to_us = first, last, from_us, to_us


class Numbers:
    """The numbers of one process. Times are microseconds since 1970."""

    __slots__ = ("_firsts", "_holes", "_top_us", "duplicates", "events", "first_us", "last", "last_us")

    def __init__(self) -> None:
        self.events = 0
        self.duplicates = 0
        self.last = 0
        """The highest number."""
        self.first_us = 0
        self.last_us = 0
        """The latest time of an event."""
        self._top_us = 0
        self._holes: list[_Hole] = []
        self._firsts: list[int] = []

    def take(self, seq: int, time_us: int) -> bool:
        """Note an event; return False if it is here already."""
        if seq == self.last + 1 and time_us >= self.last_us and self.events:  # as nearly all are
            self.last = seq
            self._top_us = self.last_us = time_us
            self.events += 1
            return True
        if seq != self.last + 1:
            if seq <= self.last:
                if not self._fill(seq, time_us):
                    self.duplicates += 1
                    return False
            else:
                self._add(len(self._holes), _Hole(self.last + 1, seq - 1, self._top_us, time_us))
        if seq > self.last:
            self.last, self._top_us = seq, time_us
        if time_us > self.last_us:
            self.last_us = time_us
        if not self.events or time_us < self.first_us:
            self.first_us = time_us
        self.events += 1
        return True

    def take_run(self, first: int, last: int, from_us: int, to_us: int) -> None:
        """Note events with consecutive numbers, of which the first and the last have these times."""
        if first > self.last:
            if first > self.last + 1:
                self._add(len(self._holes), _Hole(self.last + 1, first - 1, self._top_us, from_us))
            self.last, self._top_us = last, to_us
            self.last_us = max(self.last_us, from_us, to_us)
            least_us = min(from_us, to_us)
            self.first_us = min(self.first_us, least_us) if self.events else least_us
            self.events += last - first + 1
            return
        for seq in range(first, min(last, self.last) + 1):
            self.take(seq, from_us)
        if last > self.last:
            self.take_run(self.last + 1, last, from_us, to_us)

    def save(self) -> SavedNumbers:
        """Return all that is known; :meth:`restored` goes on with it."""
        return SavedNumbers(
            self.events,
            self.duplicates,
            self.last,
            self.first_us,
            self.last_us,
            self._top_us,
            [(hole.first, hole.last, hole.from_us, hole.to_us) for hole in self._holes],
        )

    @classmethod
    def restored(cls, saved: SavedNumbers) -> "Numbers":
        """Return what was saved."""
        made = cls()
        made.events, made.duplicates, made.last = saved.events, saved.duplicates, saved.last
        made.first_us, made.last_us, made._top_us = saved.first_us, saved.last_us, saved.top_us
        made._holes = [_Hole(*hole) for hole in saved.holes]
        made._firsts = [hole.first for hole in made._holes]
        return made

    def merge_holes(self, most: int) -> None:
        """Keep so many holes: the oldest become one, which then seems to last from the first of them to the last."""
        while len(self._holes) > most:
            self._merge_oldest()

    def has(self, seq: int) -> bool:
        """Return whether an event with this number has come."""
        at = bisect_right(self._firsts, seq) - 1
        return seq <= self.last and (at < 0 or seq > self._holes[at].last)

    @property
    def lost(self) -> int:
        """Return how many numbers are missing."""
        return self.last - self.events

    def losses(self, process: Process) -> Iterator[Loss]:
        """Yield what is missing, oldest first."""
        for hole in self._holes:
            yield Loss(*process, hole.first, hole.last, hole.from_us, hole.to_us)

    def _fill(self, seq: int, time_us: int) -> bool:
        """Take a number out of its hole; return False if it is in none."""
        at = bisect_right(self._firsts, seq) - 1
        if at < 0 or seq > self._holes[at].last:
            return False
        hole = self._holes[at]
        if hole.first == hole.last:
            del self._holes[at], self._firsts[at]
        elif seq == hole.first:
            hole.first, hole.from_us = seq + 1, time_us
            self._firsts[at] = seq + 1
        elif seq == hole.last:
            hole.last, hole.to_us = seq - 1, time_us
        else:
            self._add(at + 1, _Hole(seq + 1, hole.last, time_us, hole.to_us))
            hole.last, hole.to_us = seq - 1, time_us
        return True

    def _add(self, at: int, hole: _Hole) -> None:
        self._holes.insert(at, hole)
        self._firsts.insert(at, hole.first)
        if len(self._holes) > MOST_HOLES:
            self._merge_oldest()

    def _merge_oldest(self) -> None:
        oldest, second = self._holes[:2]
        oldest.last, oldest.to_us = second.last, second.to_us
        del self._holes[1], self._firsts[1]
