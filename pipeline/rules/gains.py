"""What a move changed for one group: its rebalances by kind, before the move, in it and after it settled; no
comparison below a number of rebalances.

This is the definition of `epochgate pipeline report` (:mod:`pipeline.report.rebalances`), which has the history in
tables, for events that come one by one. Members that join or end, and members that are not Stable for a while, belong
to one rebalance unless :data:`APART_S` pass in between. Its kind follows from who joined and who ended in it.

A rebalance is counted once it is over. Until then its parts are kept, at most :data:`_MOST_PARTS` of them; of those
that are counted, how long the newest :data:`_NEWEST` of each kind and phase stopped clients.
"""

from collections import deque
from collections.abc import Container
from typing import NamedTuple

from pipeline.rules.certificate import Compared, Side
from pipeline.rules.events import TRANSLATED
from pipeline.rules.lines import CALLS, ENDS, STATE_CHANGED, Line
from pipeline.rules.losses import Process

KINDS = ("join", "leave", "kill", "deploy", "other")
"""Members that join; leave; end by a timeout; leave and join, as when an application is deployed; none of these."""
BEFORE, MOVING, AFTER, NOT_MOVED = "before the move", "the move itself", "after the move", "not moved"
PHASES = (BEFORE, MOVING, AFTER, NOT_MOVED)
APART_S = 30.0
ENOUGH = 3
"""Rebalances on either side of a move, below which they are not compared."""
SAME = 0.1
"""Medians that differ by less than this share count as equal."""
JOINED, PAUSED = "joined", "paused"
CAUSES = {
    "joins": (JOINED,),
    "leaves": ("left", "fenced"),
    "kills": ("session_expired", "rebalance_expired"),
}
"""A static member that comes back under another id has its former one fenced."""
VERDICTS = ("shorter", "same", "longer", "too_few")
_STABLE = "Stable"
_US = 1_000_000
_MOST_PARTS = 10_000
_NEWEST = 100


class _Part(NamedTuple):
    """A part of a rebalance: a pause, or a member that joined or ended at one moment."""

    from_us: int
    until_us: int
    member: str
    what: str


class _Counts:
    """The rebalances of one kind in one phase."""

    __slots__ = ("count", "longest_us", "stood_us", "total_us")

    def __init__(self) -> None:
        self.count = 0
        self.longest_us = 0
        self.total_us = 0
        self.stood_us: deque[int] = deque(maxlen=_NEWEST)

    def add(self, other: "_Counts") -> None:
        self.count += other.count
        self.longest_us = max(self.longest_us, other.longest_us)
        self.total_us += other.total_us
        self.stood_us.extend(other.stood_us)

    def side(self) -> Side:
        in_order = sorted(self.stood_us)
        median_us = in_order[(len(in_order) - 1) // 2] if in_order else 0
        return Side(self.count, median_us, self.longest_us, self.total_us)


class Gains:
    """The rebalances of one group. ``ended`` are processes that write nothing any more; it may grow."""

    def __init__(self, ended: Container[Process], apart_s: float = APART_S) -> None:
        self.moved_us: int | None = None
        """When its first translated member was seen."""
        self.settled_us: int | None = None
        """When its last classic member was gone; None before that."""
        self._ended = ended
        self._apart_us = int(apart_s * _US)
        self._members: set[str] = set()
        self._classic: dict[str, Process] = {}
        self._paused: dict[str, tuple[int, Process]] = {}
        self._parts: list[_Part] = []
        self._gone: set[str] = set()
        """Members whose end is one of the parts."""
        self._reached_us = 0
        self._counts: dict[tuple[str, str], _Counts] = {}

    @property
    def size(self) -> int:
        """Return how many things are kept, roughly."""
        return len(self._members) + len(self._classic) + len(self._paused) + len(self._parts)

    def take(self, event: Line) -> None:
        """Take the next event of the group that names a member."""
        member, now_us, kind = event.member or "", event.time_us or 0, event.kind or ""
        self.count(now_us)
        if kind in ENDS:
            self._paused.pop(member, None)
            self._classic.pop(member, None)
            if member in self._members:
                self._members.remove(member)
                self._add(_Part(now_us, now_us, member, kind))
        else:
            if kind == STATE_CHANGED:
                self._take_state(event, member, now_us)
            if kind == STATE_CHANGED or kind in CALLS:
                self._note_protocol(event, member, now_us)
        if self.moved_us is not None and self.settled_us is None and self._classic_are_gone():
            self.settled_us = now_us

    def _take_state(self, event: Line, member: str, now_us: int) -> None:
        if member not in self._members:
            if (
                member in self._gone
            ):  # another process serves it: its end was that of one which does not any more
                self._gone.remove(member)
                self._parts = [one for one in self._parts if one.member != member or one.what not in ENDS]
            elif event.previous_state == "" and (
                event.state == "CompletingRebalance"
                or (event.protocol == "consumer" and event.state == _STABLE)
            ):
                self._add(_Part(now_us, now_us, member, JOINED))
            self._members.add(member)
        paused = self._paused.get(member)
        if event.state in (_STABLE, ""):
            if paused is not None:
                del self._paused[member]
                if event.state == _STABLE and paused[0] >= 0:
                    self._add(_Part(paused[0], now_us, member, PAUSED))
        elif paused is None:  # one that joins has nothing to stop
            self._paused[member] = (now_us if event.previous_state else -1), event.process

    def _note_protocol(self, event: Line, member: str, now_us: int) -> None:
        if event.protocol == "classic":
            self._classic[member] = event.process
            if self.settled_us is not None:
                self._unsettle()
        elif event.protocol == TRANSLATED:
            self._classic.pop(member, None)
            if self.moved_us is None:
                self.moved_us = now_us

    def _classic_are_gone(self) -> bool:
        return all(process in self._ended for process in self._classic.values())

    def _unsettle(self) -> None:
        """A classic member came back, so what was after the move is in it."""
        self.settled_us = None
        for kind in KINDS:
            after = self._counts.pop((kind, AFTER), None)
            if after is not None:
                self._counts.setdefault((kind, MOVING), _Counts()).add(after)

    def _add(self, part: _Part) -> None:
        self._parts.append(part)
        if part.what in ENDS:
            self._gone.add(part.member)
        self._reached_us = max(self._reached_us, part.until_us)

    def count(self, now_us: int) -> None:
        """Count the rebalances that are over by now."""
        if not self._parts or (
            len(self._parts) < _MOST_PARTS
            and (
                now_us <= self._reached_us + self._apart_us
                or any(at >= 0 and process not in self._ended for at, process in self._paused.values())
            )
        ):
            return
        together: list[_Part] = []
        reached_us = 0
        for part in sorted(self._parts):
            if together and part.from_us > reached_us + self._apart_us:
                self._count(together, reached_us)
                together = []
            together.append(part)
            reached_us = max(reached_us, part.until_us)
        self._count(together, reached_us)
        self._parts = []
        self._gone.clear()

    def _count(self, together: list[_Part], until_us: int) -> None:
        found = _Counts()
        pauses = [part.until_us - part.from_us for part in together if part.what == PAUSED]
        found.count, found.longest_us = 1, max(pauses, default=0)
        found.total_us = sum(pauses)
        found.stood_us.append(found.total_us)
        key = kind_of({part.what for part in together}), self._phase(together[0].from_us, until_us)
        self._counts.setdefault(key, _Counts()).add(found)

    def _phase(self, from_us: int, until_us: int) -> str:
        if self.moved_us is None or until_us < self.moved_us:
            return BEFORE
        return AFTER if self.settled_us is not None and from_us >= self.settled_us else MOVING

    def compared(self) -> tuple[Compared, ...]:
        """Return each kind that there was, and whether it stops clients for longer than before; empty before the move
        has settled.
        """
        if self.settled_us is None:
            return ()
        found = []
        for kind in KINDS:
            before, moving, after = (
                self._counts.get((kind, phase), _Counts()).side() for phase in (BEFORE, MOVING, AFTER)
            )
            if before.count + moving.count + after.count:
                found.append(Compared(kind, before, moving, after, verdict_of(before, after)))
        return tuple(found)


def kind_of(whats: Container[str]) -> str:
    """Return the kind of a rebalance with these parts."""
    joins, leaves, kills = (any(what in whats for what in causes) for causes in CAUSES.values())
    if kills:
        return "kill"
    if joins and leaves:
        return "deploy"
    return "join" if joins else "leave" if leaves else "other"


def verdict_of(before: Side, after: Side) -> str:
    """Return one of :data:`VERDICTS`: by the medians, if there are enough on both sides."""
    if before.count < ENOUGH or after.count < ENOUGH:
        return "too_few"
    if after.median_us > before.median_us * (1 + SAME):
        return "longer"
    return "shorter" if after.median_us < before.median_us * (1 - SAME) else "same"
