"""Judges ownership while a journal is written, by several workers: each goes through a shard of the groups.

Theory of operation. Whoever reads a part of the journal calls :func:`split`: it sorts the part's events by shard, and
adds for every shard what each must know of all processes: which numbers came, and how far each was read. So a shard
(:class:`Shard`) knows for itself which processes have ended and which events are missing, and needs nothing of the
others but the evidence on clocks, which :mod:`pipeline.rules.judge` puts together.

Events wait until all places they come from (partitions of a topic, processes of files) have been read ``delay_us``
further, and are then gone through in order. A place without events in a call has been read to its end, so it holds
nobody up. A process of which nothing later has come by then has ended; its files and its topic have an event every few
seconds, so ``delay_us`` is longer than that. What comes after its turn is left out and counted.

An overlap is told once: as soon as it can't be anything else any more, whether it has ended or not. Everything is
bounded: events that wait, groups, what is kept of each, and what is told at once. Nothing here knows a clock or Spark.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import msgspec

from pipeline.rules.classes import LOST, VIOLATION, OverlapClassifier, class_at_once
from pipeline.rules.lines import EXCLUSIVE, Line, owned_text, parse_line
from pipeline.rules.losses import Loss, Process
from pipeline.rules.numbers import Numbers, SavedNumbers
from pipeline.rules.ownership import NO_GENERATION, ClockProof, Finding, Gap, GroupOwnership, Overlap
from pipeline.rules.saved import SavedGroup
from pipeline.rules.verified_group import judged

FORGET_US = 3_600_000_000
"""Groups that nobody is a member of are forgotten after so long, and members of processes that have ended."""

LONG_GONE_US = 7_200_000_000
"""What is missing, and processes that have ended, are forgotten after so long."""

MOST_LATE = 1_000
"""Events that came after their turn of which a shard knows the times."""

MOST_TOLD = 1_000
"""Overlaps that a shard tells at once; the others are counted."""


class Bounds(NamedTuple):
    """How much a shard keeps: events that wait for their turn, groups, and bytes of one group."""

    waiting: int = 100_000
    groups: int = 20_000
    of_group: int = 1_000_000


class Brief(msgspec.Struct, array_like=True, gc=False):
    """What the rules need of an event."""

    group: str
    time_us: int
    replica: str
    boot: str
    seq: int
    kind: str
    member: str
    instance: str | None
    protocol: str | None
    generation: int
    owned: str | None

    @property
    def process(self) -> Process:
        """Return the process that wrote it."""
        return self.replica, self.boot

    @property
    def name(self) -> str:
        """Return the event's identity as text."""
        return f"{self.replica}.{self.boot}.{self.seq}"


class Run(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Consecutive numbers of a process, with the times of the first and of the last."""

    replica: str
    boot: str
    first: int
    last: int
    from_us: int
    to_us: int


class Part(msgspec.Struct, array_like=True, frozen=True):
    """What a part of the journal has for one shard."""

    place: str
    """Where it comes from: events of one place come nearly in order."""
    newest_us: int
    unreadable: int
    runs: list[Run]
    """Of all events of the part."""
    events: list[Brief]
    """Those of the shard's groups."""


_PART = msgspec.msgpack.Encoder()
_READ_PART = msgspec.msgpack.Decoder(Part)


def shard_of(group: str, shards: int) -> int:
    """Return the shard of a group."""
    return zlib.crc32(group.encode("utf-8", "surrogatepass")) % shards


def split(place: str, lines: Iterable[bytes | None], shards: int) -> list[bytes]:
    """Return what a part of the journal has for each shard, encoded."""
    events: list[list[Brief]] = [[] for _ in range(shards)]
    runs: list[Run] = []
    begun: dict[Process, tuple[int, int, int, int]] = {}
    newest_us = unreadable = 0
    for line in lines:
        event = parse_line(line)
        if not isinstance(event, Line):
            unreadable += 1
            continue
        seq, time_us = event.seq or 0, event.time_us or 0
        newest_us = max(newest_us, time_us)
        run = begun.get(event.process)
        if run is not None and seq == run[1] + 1 and time_us >= run[3]:
            begun[event.process] = (run[0], seq, run[2], time_us)
        else:
            if run is not None:
                runs.append(Run(*event.process, *run))
            begun[event.process] = (seq, seq, time_us, time_us)
        if event.group and event.member and event.protocol in EXCLUSIVE:
            events[shard_of(event.group, shards)].append(_brief(event))
    runs += [Run(*process, *run) for process, run in begun.items()]
    return [_PART.encode(Part(place, newest_us, unreadable, runs, of_shard)) for of_shard in events]


def _brief(event: Line) -> Brief:
    about: Any = event  # parse_line has looked that nothing is missing
    return Brief(
        about.group, about.time_us, about.replica, about.boot, about.seq, about.kind, about.member, about.instance,
        about.protocol, NO_GENERATION if about.generation is None else about.generation, owned_text(event),
    )  # fmt: skip


class SavedProcess(msgspec.Struct, array_like=True, gc=False):
    """A process as a shard knows it."""

    replica: str
    boot: str
    newest_us: int
    ended: bool
    numbers: SavedNumbers


class SavedShard(msgspec.Struct, array_like=True):
    """What a shard keeps beside its groups."""

    until_us: int = 0
    swept_us: int = 0
    late: int = 0
    late_events: list[tuple[str, str, int, int]] = []
    """The newest of them: process, number, time."""
    left_out: int = 0
    """Events of groups that there was no room for."""
    too_large: list[str] = []
    processes: list[SavedProcess] = []
    groups: dict[str, tuple[int, int, bool]] = {}
    """Of each group: its newest event, whether it has members, and whether an overlap is open."""
    waiting: list[Brief] = []


class _SavedOfGroup(msgspec.Struct, array_like=True):
    ownership: SavedGroup
    told: list[tuple[str, int, int, int]]
    """Open overlaps that have been told: topic, partition, numbers of the two holds."""


class OverlapRow(msgspec.Struct, frozen=True, gc=False):
    """An overlap that nothing of its shard excuses; ``is_lost`` if events are missing that may."""

    group: str
    is_lost: bool
    is_open: bool
    about: dict[str, Any]


class Told(msgspec.Struct, frozen=True):
    """What a shard found in one call, and how it stands."""

    until_us: int
    """All events before that have been gone through."""
    newest_us: int
    overlaps: list[OverlapRow]
    untold: int
    """Further overlaps, beyond :data:`MOST_TOLD`."""
    excused: dict[str, int]
    """The others, by class."""
    handovers: list[tuple[str, str, int]]
    proofs: list[tuple[str, str, int]]
    """Evidence on clocks: from, to, microseconds; ahead, behind, microseconds."""
    groups: int
    waiting: int
    late: int
    """Events that came after their turn, of all the time."""
    lost: int
    """Events that are missing by now."""
    unreadable: int
    left_out: int
    """Events of groups that there was no room for, of all the time."""
    too_large: int
    """Groups that are larger than what is kept of one."""
    state_bytes: int


class Groups(Protocol):
    """Where groups are kept, as bytes."""

    def get(self, group: str) -> bytes | None:
        """Return what was put, None if nothing was."""
        ...

    def put(self, group: str, content: bytes) -> None:
        """Keep the content, in place of what was there."""
        ...

    def remove(self, group: str) -> None:
        """Keep nothing."""
        ...


_time = attrgetter("time_us", "replica", "boot", "seq")
_in_order = attrgetter("group", "time_us", "replica", "boot", "seq")
_group = attrgetter("group")
_ENCODER = msgspec.msgpack.Encoder()
_SHARD = msgspec.msgpack.Decoder(SavedShard)
_OF_GROUP = msgspec.msgpack.Decoder(_SavedOfGroup)


class Shard:
    """A shard of the groups. Make one for each call, with what :meth:`save` gave; None at the beginning."""

    def __init__(
        self,
        saved: bytes | None,
        groups: Groups,
        *,
        skew_us: int,
        delay_us: int,
        bounds: Bounds | None = None,
    ) -> None:
        self._saved = _SHARD.decode(saved) if saved else SavedShard()
        self._store = groups
        self._skew_us = skew_us
        self._delay_us = delay_us
        self._bounds = bounds or Bounds()
        self._numbers = {
            (one.replica, one.boot): Numbers.restored(one.numbers) for one in self._saved.processes
        }
        self._read_us = {(one.replica, one.boot): one.newest_us for one in self._saved.processes}
        self._ended = {(one.replica, one.boot): one.newest_us for one in self._saved.processes if one.ended}
        self._rows: list[OverlapRow] = []
        self._untold = 0
        self._excused: Counter[str] = Counter()
        self._handovers: list[tuple[str, str, int]] = []
        self._proofs: dict[tuple[str, str], int] = {}
        self._written = 0

    def take(self, parts: Iterable[bytes]) -> Told:
        """Take what all parts that were read now have for this shard, and go through what is due."""
        unreadable = 0
        newest: dict[str, int] = {}
        arrived: list[Brief] = []
        runs: list[Run] = []
        for content in parts:
            part = _READ_PART.decode(content)
            unreadable += part.unreadable
            newest[part.place] = max(part.newest_us, newest.get(part.place, 0))
            arrived += part.events
            runs += part.runs
        self._saved.waiting += self._on_time(arrived)
        for run in sorted(runs, key=lambda run: (run.replica, run.boot, run.first)):
            self._note(run)
        read_us = min((us for us in newest.values() if us), default=0)
        until_us = max(self._saved.until_us, read_us - self._delay_us)
        self._find_ended(until_us)
        self._saved.until_us = until_us
        classifier = self._classifier(until_us + self._delay_us)
        looked = self._go_through(self._due(until_us), classifier)
        for name in [name for name, about in self._saved.groups.items() if about[2] and name not in looked]:
            self._go_through_group(name, (), classifier)
        self._sweep(until_us)
        return self._told(max(newest.values(), default=0), unreadable)

    def save(self) -> bytes:
        """Return what to begin the next call with."""
        self._saved.processes = [
            SavedProcess(*process, newest_us, process in self._ended, self._numbers[process].save())
            for process, newest_us in self._read_us.items()
        ]
        return _ENCODER.encode(self._saved)

    # -- what arrives --------------------------------------------------------------------------------------------

    def _on_time(self, events: Iterable[Brief]) -> Iterator[Brief]:
        for event in events:
            if event.time_us >= self._saved.until_us:
                yield event
                continue
            numbers = self._numbers.get(event.process)
            if numbers is None or not numbers.has(event.seq):
                self._saved.late += 1
                self._saved.late_events.append((*event.process, event.seq, event.time_us))
        del self._saved.late_events[:-MOST_LATE]

    def _note(self, run: Run) -> None:
        process = run.replica, run.boot
        numbers = self._numbers.get(process)
        if numbers is None:
            numbers = self._numbers[process] = Numbers()
            self._read_us[process] = 0
        numbers.take_run(run.first, run.last, run.from_us, run.to_us)
        if run.to_us >= self._read_us[process]:
            self._read_us[process] = run.to_us
            self._ended.pop(process, None)  # it was only silent

    def _find_ended(self, until_us: int) -> None:
        for process, read_us in list(self._read_us.items()):
            if read_us < until_us:
                self._ended[process] = read_us
            if read_us < until_us - LONG_GONE_US:
                for known in (self._read_us, self._numbers, self._ended):
                    known.pop(process, None)

    def _due(self, until_us: int) -> list[Brief]:
        """Take out the events whose turn it is, each once; also the oldest if too many wait."""
        waiting = self._saved.waiting
        too_many = len(waiting) - self._bounds.waiting
        if too_many > 0:
            waiting.sort(key=_time)
            until_us = self._saved.until_us = max(until_us, waiting[too_many - 1].time_us + 1)
        due = [event for event in waiting if event.time_us < until_us]
        self._saved.waiting = [event for event in waiting if event.time_us >= until_us]
        due.sort(key=_in_order)
        return due

    def _classifier(self, read_us: int) -> OverlapClassifier:
        """Return what judges by what is missing; what may still come from a place that lags does not count."""
        losses = [
            loss
            for process, numbers in self._numbers.items()
            for loss in numbers.losses(process)
            if loss.to_us <= read_us
        ]
        late = self._saved.late_events
        losses += [Loss(replica, boot, seq, seq, us, us) for replica, boot, seq, us in late]
        return OverlapClassifier(self._skew_us, {}, losses)

    # -- groups --------------------------------------------------------------------------------------------------

    def _go_through(self, due: list[Brief], classifier: OverlapClassifier) -> set[str]:
        looked = set()
        for name, events in groupby(due, key=_group):
            looked.add(name)
            self._go_through_group(name, events, classifier)
        return looked

    def _go_through_group(self, name: str, events: Iterable[Brief], classifier: OverlapClassifier) -> None:
        saved = self._saved
        if name in saved.too_large:
            return
        if name not in saved.groups and len(saved.groups) >= self._bounds.groups:
            saved.left_out += sum(1 for _ in events)
            return
        group = GroupOwnership(self._ended, self._skew_us, intervals=False)
        told: list[tuple[str, int, int, int]] = []
        newest_us = 0
        if name in saved.groups and (content := self._store.get(name)) is not None:
            kept = _OF_GROUP.decode(content)
            group.restore(kept.ownership)
            told, newest_us = kept.told, saved.groups[name][0]
        last = None
        for event in events:
            if last is not None and event.seq == last.seq and event.process == last.process:
                continue
            last = event
            newest_us = event.time_us
            for found in group.take(event):  # type: ignore[arg-type]  # it has all that is asked for
                self._found(name, found, told, classifier)
        group.forget(self._ended, saved.until_us - FORGET_US)
        still = self._look_at_open(name, group, told, classifier)
        content = _ENCODER.encode(_SavedOfGroup(group.save(), still[0]))
        if len(content) > self._bounds.of_group:
            saved.too_large.append(name)
            saved.groups.pop(name, None)
            self._store.remove(name)
            return
        self._written += len(content)
        self._store.put(name, content)
        saved.groups[name] = newest_us, len(group.members()), still[1]

    def _found(
        self, name: str, found: Finding, told: list[tuple[str, int, int, int]], classifier: OverlapClassifier
    ) -> None:
        if isinstance(found, Gap):
            target = found.until_process
            if target is not None and found.until_us is not None and target[0] != found.from_process[0]:
                self._handovers.append((found.from_process[0], target[0], found.until_us - found.from_us))
        elif isinstance(found, ClockProof):
            pair = found.ahead[0], found.behind[0]
            self._proofs[pair] = max(found.at_least_us, self._proofs.get(pair, 0))
        elif isinstance(found, Overlap):
            if found.proven and found.first_process[0] != found.second_process[0]:
                sides = found.first_process[0], found.second_process[0]
                self._handovers.append((*sides, found.from_us - found.until_us))
            if _id(found) not in told:
                self._tell(name, found, classifier, is_open=False)

    def _look_at_open(
        self,
        name: str,
        group: GroupOwnership,
        told: list[tuple[str, int, int, int]],
        classifier: OverlapClassifier,
    ) -> tuple[list[tuple[str, int, int, int]], bool]:
        """Tell the open overlaps that are long enough; return those that have been told, and whether there are any."""
        still, any_open = [], False
        for found in group.open_overlaps(self._saved.until_us):
            any_open = True
            is_told = _id(found) in told
            if not is_told and class_at_once(judged(found), self._skew_us) is None:
                is_told = self._tell(name, found, classifier, is_open=True)
            if is_told:
                still.append(_id(found))
        return still, any_open

    def _tell(self, name: str, found: Overlap, classifier: OverlapClassifier, *, is_open: bool) -> bool:
        """Note an overlap; an open one that events which are missing may excuse is not told yet."""
        about = judged(found)
        known = classifier.class_of(about)
        if known not in (VIOLATION, LOST):
            self._excused[known] += 1
        elif is_open and known == LOST:
            return False
        elif len(self._rows) < MOST_TOLD:
            self._rows.append(OverlapRow(name, known == LOST, is_open, about))
        else:
            self._untold += 1
        return True

    def _sweep(self, until_us: int) -> None:
        """Forget groups that have no member, now and then."""
        saved = self._saved
        if until_us - saved.swept_us < FORGET_US // 12:
            return
        saved.swept_us = until_us
        for numbers in self._numbers.values():
            numbers.forget_holes(until_us - LONG_GONE_US)
        for name in [name for name, about in saved.groups.items() if about[0] < until_us - FORGET_US]:
            if saved.groups[name][1]:
                self._go_through_group(name, (), self._classifier(until_us))
            if name in saved.groups and not saved.groups[name][1]:
                del saved.groups[name]
                self._store.remove(name)

    def _told(self, newest_us: int, unreadable: int) -> Told:
        saved = self._saved
        return Told(
            until_us=saved.until_us,
            newest_us=newest_us,
            overlaps=self._rows,
            untold=self._untold,
            excused=dict(self._excused),
            handovers=self._handovers,
            proofs=[(*pair, us) for pair, us in self._proofs.items()],
            groups=len(saved.groups),
            waiting=len(saved.waiting),
            late=saved.late,
            lost=sum(numbers.lost for numbers in self._numbers.values()),
            unreadable=unreadable,
            left_out=saved.left_out,
            too_large=len(saved.too_large),
            state_bytes=self._written,
        )


def _id(found: Overlap) -> tuple[str, int, int, int]:
    return (*found.partition, found.first.number, found.second.number)
