"""Puts the events of many processes in one order, by (time_us, replica, boot, seq), without holding all of them.

Each :class:`Stream` brings the lines of one process in order, or nearly: if its first lines are not, no line is further
than :data:`HELD_BACK` lines from its place. So of what has been read of a stream, all but that many events are settled.
What lies before the first unsettled event of all streams is handed on, a part of each stream: whatever comes later lies
behind all of it. Then the stream that held the others up is read further. A stream is opened only when its first event
is near, so a journal of many starts takes no more memory. Whoever needs the events of a group in order merges the parts
of these alone (:func:`by_group`), which costs less than one order of all.

A process whose streams have ended has written nothing later. The rules ask for that (:mod:`pipeline.rules.ownership`).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from pipeline.rules.lines import Key, Keyed, Line, key_of, parse_line
from pipeline.rules.losses import Process
from pipeline.rules.names import counted_as
from pipeline.rules.numbers import Numbers

HELD_BACK = 256
"""How far from its place a line may be, in lines of its stream, if its first lines are out of order."""

HELD_BACK_IN_ORDER = 16
"""The same if they are in order, as a proxy writes them. Fewer events that wait are much less memory to go through."""

AFTER_LAST_US = 60_000_000
"""A line at the end of a stream that can't be read is taken to be no more than this after the last one that can."""

FAR_US = 2**63 - 1
"""The time until which a stream that has no event may have lines that can't be read."""

_AHEAD = 16_384
"""Lines that all open streams together read ahead, roughly."""

_AT_ONCE = 1_024, 64
"""Lines that a stream reads at once, at most and at least."""

_MIXED = "an event of another process than the others in its file"

_NOWHERE: Key = (-(2**63), "", "", 0)


class Stream(Protocol):
    """The lines of one process, or a part of them."""

    label: str
    """The same for all streams of one process, and for no other."""

    def read(self, most: int) -> list[bytes]:
        """Return the next lines, at most so many, with their ends or without; none at the end."""
        ...

    def rewind(self) -> None:
        """Give back what is open; the next ``read`` starts at the beginning."""
        ...


class Batch(NamedTuple):
    """The next events, in parts that are in order, and the processes that wrote nothing after these."""

    parts: list[list[Keyed]]
    ended: list[Process]


def by_group(parts: Iterable[Iterable[Keyed]]) -> dict[str, list[Keyed]]:
    """Return the events of each group in order. No two have the same place, so events are never compared."""
    groups: dict[str, list[Keyed]] = {}
    of_group = groups.setdefault
    for part in parts:
        for keyed in part:
            of_group(keyed[4].group, []).append(keyed)  # type: ignore[arg-type]  # parse_line has looked
    for events in groups.values():
        events.sort()
    return groups


class Ordering:
    """The journal of all processes, in order. Iterate :meth:`batches` once; the rest says what was read so far."""

    def __init__(self, streams: Iterable[Stream]) -> None:
        self.numbers: dict[Process, Numbers] = {}
        self.quarantined: Counter[str] = Counter()
        """How many lines are no events, by reason; reasons beyond a bound together (:mod:`pipeline.rules.names`)."""
        self.unreadable_until_us: dict[str, int] = {}
        """Until when there are such lines at the latest, by label."""
        self.late = 0
        """Events that were further from their place than that. They are left out."""
        self.late_us = 0
        """The latest time of one."""
        self.bad_numbers = 0
        self._process_of: dict[str, Process] = {}
        self._open_streams: Counter[str] = Counter()
        self._waiting: list[_Reading] = []
        for stream in streams:
            self._waiting.append(_Reading(stream, self))
            self._open_streams[stream.label] += 1
        self._waiting.sort(key=lambda one: one.first, reverse=True)

    def batches(self) -> Iterator[Batch]:
        """Yield all events, each once."""
        active: list[_Reading] = []
        floor = _NOWHERE
        while active or self._waiting:
            ended: list[Process] = []
            most, least = _AT_ONCE
            at_once = max(min(_AHEAD // max(len(active), 1), most), least)
            for reading in active:
                reading.read_on(at_once)
            bound = min((one.bound for one in active if one.bound is not None), default=None)
            if self._waiting and (bound is None or self._waiting[-1].first < bound):
                active.append(self._waiting.pop())
                continue
            for reading in [one for one in active if one.ended and not one.is_told]:
                ended += self._one_ended(reading)
            parts = [self._without_late(reading.until(bound), floor) for reading in active]
            parts = [part for part in parts if part]
            floor = max((part[-1][:4] for part in parts), default=floor)
            active = [reading for reading in active if reading.events or not reading.ended]
            yield Batch(parts, ended)

    def _one_ended(self, reading: "_Reading") -> list[Process]:
        reading.is_told = True
        label = reading.stream.label
        self._open_streams[label] -= 1
        if self._open_streams[label] or label not in self._process_of:
            return []
        return [self._process_of.pop(label)]

    def _without_late(self, part: list[Keyed], floor: Key) -> list[Keyed]:
        if not part or part[0] > floor:
            return part
        at = bisect_left(part, floor)
        self.late += at
        self.late_us = max(self.late_us, part[at - 1][0])
        return part[at:]

    def process_of(self, label: str, event: Line) -> Process:
        """Return the process whose events have this label: that of the first one."""
        process = self._process_of.setdefault(label, event.process)
        self.numbers.setdefault(process, Numbers())
        return process


class _Reading:
    """A stream that is being read, and its events that are not handed on yet."""

    __slots__ = (
        "_boot", "_held_back", "_is_unreadable", "_last_us", "_numbers", "_ordering", "_replica", "ended", "events",
        "first", "is_told", "stream",
    )  # fmt: skip

    def __init__(self, stream: Stream, ordering: Ordering) -> None:
        self.stream = stream
        self.events: list[Keyed] = []
        self.ended = False
        self.is_told = False
        self._ordering = ordering
        self._is_unreadable = False
        self._last_us = 0
        self._replica = self._boot = ""
        self._numbers = Numbers()
        begin = [key_of(one) for one in map(parse_line, stream.read(HELD_BACK)) if isinstance(one, Line)]
        self.first = min(begin, default=_NOWHERE)
        self._held_back = HELD_BACK_IN_ORDER if begin == sorted(begin) else HELD_BACK
        stream.rewind()

    @property
    def bound(self) -> Key | None:
        """Return the place of the first event that is not settled; None if all are."""
        return None if self.ended else self.events[-self._held_back][:4]

    def read_on(self, at_once: int) -> None:
        """Read until an event more is settled, or to the end; so many lines at once."""
        while not self.ended and len(self.events) <= self._held_back:
            self._read(at_once)

    def _read(self, at_once: int) -> None:
        lines = self.stream.read(at_once)
        keep, numbers = self.events.append, self._numbers
        for line in lines:
            event = parse_line(line)
            if not isinstance(event, Line):
                quarantined = self._ordering.quarantined
                quarantined[counted_as(event, quarantined)] += 1
                self._is_unreadable = True
                continue
            if event.boot != self._boot or event.replica != self._replica:
                self._replica, self._boot = process = self._ordering.process_of(self.stream.label, event)
                numbers = self._numbers = self._ordering.numbers[process]
                if event.process != process:
                    self._ordering.quarantined[_MIXED] += 1
                    self._is_unreadable = True
                    continue
            time_us: int = event.time_us  # type: ignore[assignment]  # parse_line has looked
            seq: int = event.seq  # type: ignore[assignment]  # likewise
            # The same objects each time: they are looked up faster.
            event.replica, event.boot = self._replica, self._boot
            if numbers.take(seq, time_us):
                keep((time_us, self._replica, self._boot, seq, event))
                self._last_us = time_us
                if self._is_unreadable:
                    self._unreadable_until(time_us)
        if not lines:
            self.ended = True
            if self._is_unreadable:
                self._unreadable_until(self._last_us + AFTER_LAST_US if self._boot else FAR_US)
        self.events.sort()

    def _unreadable_until(self, time_us: int) -> None:
        known = self._ordering.unreadable_until_us
        known[self.stream.label] = max(time_us, known.get(self.stream.label, 0))
        self._is_unreadable = False

    def until(self, bound: Key | None) -> list[Keyed]:
        """Take out the events before this place; all if it is None."""
        if bound is None:
            taken, self.events = self.events, []
            return taken
        at = bisect_left(self.events, bound)
        taken = self.events[:at]
        del self.events[:at]
        return taken
