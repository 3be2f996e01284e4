"""Finds overlaps while a journal is written, by several workers: each goes through a shard of the groups.

Theory of operation. Whoever reads a part of the journal calls :func:`split`: it sorts the part's events by shard, and
adds for every shard what each must know of all processes: which numbers came, and how far each was read. So a shard
(:class:`Shard`) knows for itself which processes have ended, and needs nothing of the others. It goes by the rules of
:mod:`pipeline.rules.ownership`, and tells each overlap that they do not excuse at once. :mod:`pipeline.rules.judge`
classifies these, by what all shards together know of clocks and of missing events.

Events wait until all places they come from (partitions of a topic, processes of files) have been read ``delay_us``
further, and are then gone through in order: they are *settled*. A place without events in a call has been read to its
end, so it holds nobody up, unless the caller says that there is more to read. A process of which nothing later has come
by then has ended; its files and its topic have an event every few seconds, so ``delay_us`` is longer than that. What
comes after its turn is left out and told; so is a process that had only been silent.

How the journal was cut into calls makes no difference: when an event's turn comes, all that was written before it, and
for ``delay_us`` after it, has been read. Nothing that an event may ask for is forgotten before its turn.

Everything is bounded: events that wait (the oldest take their turn unsettled when there are too many), groups, what is
kept of each, and what is told at once. Nothing here knows a clock or Spark.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import msgspec

from pipeline.rules.classes import class_at_once
from pipeline.rules.events import NO_GENERATION
from pipeline.rules.findings import ClockProof, Finding, Gap, Overlap
from pipeline.rules.lines import Line, owned_text, parse_line
from pipeline.rules.losses import Loss, Process, merged
from pipeline.rules.numbers import Numbers, SavedNumbers
from pipeline.rules.ownership import GroupOwnership
from pipeline.rules.saved import SavedGroup
from pipeline.rules.verified_group import judged

FORGET_US = 3_600_000_000
"""Groups that nobody is a member of are forgotten after so long, and members of processes that have ended."""

LONG_GONE_US = 7_200_000_000
"""Processes that have ended are forgotten after so long, but for what of them is missing."""

MOST_HOLES = 200
"""Gaps in the numbers of one process; of more the oldest become one."""

MOST_GONE = 1_000
"""Gaps in the numbers of processes that are forgotten; of more, those of one process become one."""

MOST_TOLD = 1_000
"""Overlaps, and events that came late, that a shard tells at once; the others are counted."""


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
        if event.group and event.member:
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
    settled_us: int = 0
    swept_us: int = 0
    late: int = 0
    left_out: int = 0
    """Events of groups that there was no room for."""
    too_large: list[str] = []
    processes: list[SavedProcess] = []
    gone: list[Loss] = []
    """What of processes that are forgotten is missing."""
    groups: dict[str, tuple[int, int, bool]] = {}
    """Of each group: its newest event, whether it has members, and whether an overlap is open."""
    waiting: list[Brief] = []


Key = tuple[str, str, int, str, str]
"""An overlap: group, topic, partition, and the events that gave the partition to the first and to the second."""


class OverlapRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An overlap that nothing excuses at once; clocks and missing events may."""

    group: str
    is_open: bool
    """Whether both hold the partition still, as of what was gone through."""
    first_since_us: int
    about: dict[str, Any]

    @property
    def key(self) -> Key:
        """Return what tells it from all others."""
        return key_of(self.group, self.about)


def key_of(group: str, about: Mapping[str, Any]) -> Key:
    """Return what tells an overlap from all others."""
    return group, about["topic"], about["partition"], about["first_event"], about["second_event"]


class Told(msgspec.Struct, frozen=True):
    """What a shard found in one call, and how it stands."""

    until_us: int
    """All events before that have been gone through."""
    settled_us: int
    """And all events before that had come by then, as far as anybody can tell."""
    read_us: int
    """Until then all places had been read."""
    newest_us: int
    overlaps: list[OverlapRow]
    """Those that have ended, each once, and all that are open, each time."""
    untold: int
    """Further overlaps, beyond :data:`MOST_TOLD`."""
    excused: dict[str, int]
    """The others that have ended, by class."""
    excused_now: list[tuple[Key, str]]
    """Those of them that may have been told while they were open."""
    handovers: list[tuple[str, str, int]]
    open_handovers: list[tuple[str, str, int]]
    """What the open overlaps say of clocks for now."""
    proofs: list[tuple[str, str, int]]
    """Evidence on clocks: from, to, microseconds; ahead, behind, microseconds."""
    losses: list[Loss]
    """What is missing, of all processes: each shard tells the same."""
    silences: list[Loss]
    """Processes that were taken to have ended in this call or before it, and wrote again: when they were silent."""
    late_now: list[tuple[str, int]]
    """Groups and times of the events that came after their turn in this call."""
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
_OF_GROUP = msgspec.msgpack.Decoder(SavedGroup)


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
        self._excused_now: list[tuple[Key, str]] = []
        self._handovers: list[tuple[str, str, int]] = []
        self._open_handovers: list[tuple[str, str, int]] = []
        self._proofs: dict[tuple[str, str], int] = {}
        self._silences: list[Loss] = []
        self._late_now: list[tuple[str, int]] = []
        self._written = 0

    def take(self, parts: Iterable[bytes], *, more: bool = False) -> Told:
        """Take what all parts that were read now have for this shard, and go through what is due.

        ``more``: there are parts that could have been read by now, so a place without events may have some.
        """
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
        saved = self._saved
        saved.waiting += self._on_time(arrived)
        for run in sorted(runs, key=lambda run: (run.replica, run.boot, run.first)):
            self._note(run)
        if not more:
            read_us = min((us for us in newest.values() if us), default=0)
            saved.settled_us = max(saved.settled_us, read_us - self._delay_us)
        saved.until_us = max(saved.until_us, saved.settled_us, self._pressed_us())
        self._find_ended()
        looked = self._go_through(self._due())
        for name in [name for name, about in saved.groups.items() if about[2] and name not in looked]:
            self._go_through_group(name, ())
        self._sweep()
        self._forget_gone()
        return self._told(max(newest.values(), default=0), unreadable)

    def save(self) -> bytes:
        """Return what to begin the next call with."""
        for numbers in self._numbers.values():
            numbers.merge_holes(MOST_HOLES)
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
                self._late_now.append((event.group, event.time_us))

    def _note(self, run: Run) -> None:
        process = run.replica, run.boot
        numbers = self._numbers.get(process)
        if numbers is None:
            numbers = self._numbers[process] = Numbers()
            self._read_us[process] = 0
        numbers.take_run(run.first, run.last, run.from_us, run.to_us)
        if run.to_us > self._read_us[process]:
            self._read_us[process] = run.to_us
            ended_us = self._ended.pop(process, None)
            if ended_us is not None:  # it was only silent
                self._silences.append(Loss(*process, run.first, run.first, ended_us, run.to_us))

    def _pressed_us(self) -> int:
        """Return until when events take their turn because too many wait."""
        waiting = self._saved.waiting
        too_many = len(waiting) - self._bounds.waiting
        if too_many <= 0:
            return 0
        waiting.sort(key=_time)
        return waiting[too_many - 1].time_us + 1

    def _find_ended(self) -> None:
        until_us = self._saved.until_us
        self._ended |= {process: us for process, us in self._read_us.items() if us < until_us}

    def _due(self) -> list[Brief]:
        """Take out the events whose turn it is, each once."""
        waiting, until_us = self._saved.waiting, self._saved.until_us
        due = [event for event in waiting if event.time_us < until_us]
        self._saved.waiting = [event for event in waiting if event.time_us >= until_us]
        due.sort(key=_in_order)
        return due

    # -- groups --------------------------------------------------------------------------------------------------

    def _go_through(self, due: list[Brief]) -> set[str]:
        looked = set()
        for name, events in groupby(due, key=_group):
            looked.add(name)
            self._go_through_group(name, events)
        return looked

    def _go_through_group(self, name: str, events: Iterable[Brief]) -> None:
        saved = self._saved
        if name in saved.too_large:
            return
        if name not in saved.groups and len(saved.groups) >= self._bounds.groups:
            saved.left_out += sum(1 for _ in events)
            return
        ended: Mapping[Process, int] = self._ended
        kept, newest_us, had_open = None, 0, False
        if name in saved.groups and (content := self._store.get(name)) is not None:
            kept = _OF_GROUP.decode(content)
            newest_us, _, had_open = saved.groups[name]
            if gone := self._forgotten(kept):
                ended = self._ended | gone
        group = GroupOwnership(ended, self._skew_us, intervals=False)
        if kept is not None:
            group.restore(kept)
        last = None
        for event in events:
            if last is not None and event.seq == last.seq and event.process == last.process:
                continue
            last = event
            newest_us = event.time_us
            for found in group.take(event):  # type: ignore[arg-type]  # it has all that is asked for
                self._found(name, found, may_be_told=had_open)
        group.forget(ended, saved.until_us - FORGET_US)
        has_open = self._look_at_open(name, group)
        content = _ENCODER.encode(group.save())
        if len(content) > self._bounds.of_group:
            saved.too_large.append(name)
            saved.groups.pop(name, None)
            self._store.remove(name)
            return
        self._written += len(content)
        self._store.put(name, content)
        saved.groups[name] = newest_us, len(group.members()), has_open

    def _forgotten(self, kept: SavedGroup) -> dict[Process, int]:
        """Return the processes that only this group knows still, and when it heard of them last: they have ended."""
        found: dict[Process, int] = {}
        for member in kept.members:
            process = member.replica, member.boot
            if process not in self._read_us:
                found[process] = max(member.heard_us, found.get(process, 0))
            for replica, boot, last_us, _ in member.silences:
                if (replica, boot) not in self._read_us:
                    found[replica, boot] = max(last_us, found.get((replica, boot), 0))
        for replica, boot, _, us in kept.last_seq:
            if (replica, boot) not in self._read_us:
                found[replica, boot] = max(us, found.get((replica, boot), 0))
        return found

    def _found(self, name: str, found: Finding, *, may_be_told: bool) -> None:
        if isinstance(found, Gap):
            target = found.until_process
            if target is not None and found.until_us is not None and target[0] != found.from_process[0]:
                self._handovers.append((found.from_process[0], target[0], found.until_us - found.from_us))
        elif isinstance(found, ClockProof):
            pair = found.ahead[0], found.behind[0]
            self._proofs[pair] = max(found.at_least_us, self._proofs.get(pair, 0))
        elif isinstance(found, Overlap):
            _add_handover(self._handovers, found)
            about = judged(found)
            known = class_at_once(about, self._skew_us)
            if known is None:
                self._tell(name, found, about, is_open=False)
                return
            self._excused[known] += 1
            if may_be_told:
                self._excused_now.append((key_of(name, about), known))

    def _look_at_open(self, name: str, group: GroupOwnership) -> bool:
        """Tell the open overlaps that are long enough; return whether there are any."""
        any_open = False
        for found in group.open_overlaps(self._saved.until_us):
            any_open = True
            _add_handover(self._open_handovers, found)
            about = judged(found)
            if class_at_once(about, self._skew_us) is None:
                self._tell(name, found, about, is_open=True)
        return any_open

    def _tell(self, group: str, found: Overlap, about: dict[str, Any], *, is_open: bool) -> None:
        if len(self._rows) < MOST_TOLD:
            self._rows.append(OverlapRow(group, is_open, found.first.since_us, about))
        else:
            self._untold += 1

    def _sweep(self) -> None:
        """Forget groups that have no member, now and then."""
        saved, until_us = self._saved, self._saved.until_us
        if until_us - saved.swept_us < FORGET_US // 12:
            return
        saved.swept_us = until_us
        for name in [name for name, about in saved.groups.items() if about[0] < until_us - FORGET_US]:
            if saved.groups[name][1]:
                self._go_through_group(name, ())
            if name in saved.groups and not saved.groups[name][1]:
                del saved.groups[name]
                self._store.remove(name)

    def _forget_gone(self) -> None:
        """Forget processes that ended long ago, now that all that came since has been gone through.

        A group that has members of theirs knows what it needs of them (:meth:`_forgotten`).
        """
        before_us = self._saved.until_us - LONG_GONE_US
        for process in [one for one, read_us in self._read_us.items() if read_us < before_us]:
            self._saved.gone += self._numbers[process].losses(process)
            for known in (self._read_us, self._numbers, self._ended):
                known.pop(process, None)
        if len(self._saved.gone) > MOST_GONE:
            self._saved.gone = merged(self._saved.gone)[-MOST_GONE:]

    def _told(self, newest_us: int, unreadable: int) -> Told:
        saved = self._saved
        return Told(
            until_us=saved.until_us,
            settled_us=saved.settled_us,
            read_us=saved.settled_us + self._delay_us,
            newest_us=newest_us,
            overlaps=self._rows,
            untold=self._untold,
            excused=dict(self._excused),
            excused_now=self._excused_now[-MOST_TOLD:],
            handovers=self._handovers,
            open_handovers=self._open_handovers,
            proofs=[(*pair, us) for pair, us in self._proofs.items()],
            losses=[
                *(loss for process, numbers in self._numbers.items() for loss in numbers.losses(process)),
                *saved.gone,
            ],
            silences=self._silences,
            late_now=self._late_now[-MOST_TOLD:],
            groups=len(saved.groups),
            waiting=len(saved.waiting),
            late=saved.late,
            lost=sum(numbers.lost for numbers in self._numbers.values()),
            unreadable=unreadable,
            left_out=saved.left_out,
            too_large=len(saved.too_large),
            state_bytes=self._written,
        )


def _add_handover(handovers: list[tuple[str, str, int]], found: Overlap) -> None:
    """Note an overlap as a handover that took less than nothing, if the journal would show its end."""
    origin, target = found.first_process[0], found.second_process[0]
    if found.proven and origin != target:
        handovers.append((origin, target, found.from_us - found.until_us))
