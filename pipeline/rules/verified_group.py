"""One group of a journal, as the verifier goes through it: its ownership, and counts of what was found."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from pipeline.rules.classes import class_at_once
from pipeline.rules.commits import Commits
from pipeline.rules.events import NO_GENERATION, TRANSLATED
from pipeline.rules.findings import BadSnapshot, ClockProof, Finding, Gap, Overlap
from pipeline.rules.handovers import ShortestHandovers
from pipeline.rules.lines import (
    ADOPTED,
    ASSIGNED,
    CALLS,
    COMMITTED,
    ENDS,
    EXCLUSIVE,
    JOINED,
    REVOKED,
    STATE_CHANGED,
    Keyed,
    Line,
)
from pipeline.rules.losses import Process
from pipeline.rules.ownership import GroupOwnership
from pipeline.rules.pauses import Pauses

MOST_CANDIDATES = 1_000
"""Overlaps of one group that are kept for the end, when clocks and losses are known."""

_MEMBERSHIP = CALLS | ENDS
_NULL = Line().owned
_time_us = itemgetter(0)
_TELL_PARTITIONS = frozenset({JOINED, ASSIGNED, REVOKED})


class Evidence:
    """What all groups together say of the clocks: proofs, and the handovers between replicas."""

    def __init__(self, most_pairs: int | None = None) -> None:
        """``most_pairs``: pairs of replicas that are kept; None: all."""
        self.proofs: dict[tuple[str, str], int] = {}
        self.handovers = ShortestHandovers(most_pairs)
        self._most_pairs = most_pairs

    def copy(self) -> "Evidence":
        """Return a copy, to which more can be added."""
        made = Evidence(self._most_pairs)
        made.proofs, made.handovers = dict(self.proofs), self.handovers.copy()
        return made

    def add(self, found: Finding) -> None:
        """Take what a finding says of clocks."""
        if isinstance(found, Gap):
            if found.until_process is not None and found.until_us is not None:
                origin, target = found.from_process[0], found.until_process[0]
                if origin != target:
                    self.handovers.add(origin, target, found.until_us - found.from_us)
        elif isinstance(found, Overlap):
            if found.proven:
                first, second = found.first_process[0], found.second_process[0]
                self.handovers.add(first, second, found.from_us - found.until_us)
        elif isinstance(found, ClockProof):
            pair = found.ahead[0], found.behind[0]
            self.proofs[pair] = max(found.at_least_us, self.proofs.get(pair, 0))
            if len(self.proofs) > (self._most_pairs or len(self.proofs)):
                del self.proofs[next(iter(self.proofs))]


class Counts:
    """Overlaps and gaps of one group that end at ``from_us`` or later."""

    def __init__(self, skew_us: int, from_us: int) -> None:
        self.overlaps: Counter[str] = Counter()
        """By class, as far as it is known at once."""
        self.candidates: list[dict[str, Any]] = []
        """The others."""
        self.unkept = 0
        """Further ones, beyond :data:`MOST_CANDIDATES`."""
        self.gaps = 0
        self.longest_us = 0
        self.total_us = 0
        self.open_gaps = 0
        self._skew_us = skew_us
        self._from_us = from_us

    def copy(self) -> "Counts":
        """Return a copy, to which more can be added."""
        made = Counts(self._skew_us, self._from_us)
        made.overlaps, made.candidates, made.unkept = (
            Counter(self.overlaps),
            list(self.candidates),
            self.unkept,
        )
        made.gaps, made.longest_us, made.total_us = self.gaps, self.longest_us, self.total_us
        return made

    def add(self, found: Finding, now_us: int) -> None:
        """Take a finding of the group; ``now_us`` is the time of its last event."""
        if isinstance(found, Gap):
            until_us = max(now_us, self._from_us) if found.until_us is None else found.until_us
            if found.until_us is None or until_us >= self._from_us:
                length_us = until_us - found.from_us
                self.gaps += 1
                self.total_us += length_us
                if found.until_us is None:
                    self.open_gaps += 1
                if length_us > self.longest_us:
                    self.longest_us = length_us
        elif isinstance(found, Overlap) and found.until_us >= self._from_us:
            self._add_overlap(judged(found))

    def _add_overlap(self, row: dict[str, Any]) -> None:
        known = class_at_once(row, self._skew_us)
        if known is not None:
            self.overlaps[known] += 1
        elif len(self.candidates) < MOST_CANDIDATES:
            self.candidates.append(row)
        else:
            self.unkept += 1


class VerifiedGroup:
    """A group while its events come."""

    def __init__(self, ended: Mapping[Process, int], skew_us: int, from_us: int) -> None:
        """``ended`` are processes that write nothing any more, with the time of their last event; it may grow."""
        self.ownership = GroupOwnership(ended, skew_us, intervals=False)
        self.counts = Counts(skew_us, from_us)
        self.pauses = Pauses(from_us)
        self.commits = Commits(from_us)
        self.events = 0
        self.first_us = 0
        self.last_us = 0
        self.members: Counter[str] = Counter()
        self.is_exclusive = False
        self.translated_since_us: int | None = None
        self.unreadable = 0
        """Events whose ``owned`` or ``commits`` can't be read."""
        self.unknown: dict[str, int] = {}
        """Members whose partitions the journal does not tell, and since when."""
        self.unknown_until_us = 0
        self.window: Counts | None = None
        """The same counts from a later time on, if somebody asks for them (:mod:`pipeline.rules.live`)."""
        self._from_us = from_us
        self._seen: set[str] = set()

    @property
    def size(self) -> int:
        """Return how many things are kept of it, roughly."""
        return self.ownership.size + self.commits.size + self.pauses.now + len(self._seen)

    def take(self, events: Sequence[Keyed]) -> Sequence[Finding]:
        """Take the group's next events in order; return what they show, which is counted already."""
        self._note_times(events)
        pause, seen, unknown = self.pauses.take, self._seen, self.unknown
        of_members = []
        for keyed in events:
            event = keyed[4]
            member = event.member
            if not member:
                continue
            of_members.append(keyed)
            kind = event.kind
            tells = event.owned != _NULL
            if not tells:
                event.owned = None  # type: ignore[assignment]  # as the rules want it
            if kind in CALLS:
                if event.generation is None:
                    event.generation = NO_GENERATION
                if tells and not unknown and member in seen and self.translated_since_us is not None:
                    continue  # nothing new is known of the member
            elif kind == STATE_CHANGED or kind in ENDS:
                pause(event)
            elif kind == COMMITTED:
                self.unreadable += not self.commits.take(event)
            if (unknown or kind in _MEMBERSHIP) and event.protocol in EXCLUSIVE:
                self._note_member(event, keyed[0], tells=tells)
        found = self.ownership.take_all(of_members)  # type: ignore[arg-type]  # they have all that is asked for
        if found:
            self._count(found)
        return found

    def _note_times(self, events: Sequence[Keyed]) -> None:
        first_us, last_us = events[0][0], events[-1][0]
        self.first_us = self.first_us or first_us
        self.last_us = max(last_us, self.last_us)
        at = 0 if first_us >= self._from_us else bisect_left(events, self._from_us, key=_time_us)
        self.events += len(events) - at

    def _count(self, found: Sequence[Finding]) -> None:
        now_us = self.last_us
        for counts in (self.counts, self.window):
            if counts is not None:
                for one in found:
                    counts.add(one, now_us)
        self.unreadable += sum(type(one) is BadSnapshot for one in found)

    def _note_member(self, event: Line, time_us: int, *, tells: bool) -> None:
        """Track which members there are, and of which the journal does not tell what they hold."""
        member: str = event.member  # type: ignore[assignment]
        self.is_exclusive = True
        if event.protocol == TRANSLATED and self.translated_since_us is None:
            self.translated_since_us = time_us
        if event.kind in ENDS:
            self._seen.discard(member)
        elif event.kind in CALLS and member not in self._seen:
            self._seen.add(member)
            self.members[event.protocol or ""] += 1
            if event.kind == ADOPTED:
                self.unknown[member] = time_us
        if tells or event.kind in ENDS:
            if self.unknown.pop(member, None) is not None:
                self.unknown_until_us = time_us
        elif event.kind in _TELL_PARTITIONS:
            self.unknown.setdefault(member, time_us)

    def forget(self, ended: Mapping[Process, int], before_us: int) -> None:
        """Forget members of processes that write nothing any more, which are not heard of since ``before_us``."""
        self.ownership.forget(ended, before_us)
        self.pauses.forget(ended, before_us)
        gone = self._seen - self.ownership.members()
        self._seen -= gone
        for member in gone:
            if self.unknown.pop(member, None) is not None:
                self.unknown_until_us = self.last_us


def judged(found: Overlap) -> dict[str, Any]:
    """Return what an overlap is judged by, in the words of the table of overlaps."""
    first, second = found.first, found.second
    return {
        "topic": found.partition[0],
        "partition": found.partition[1],
        "first_member": first.member,
        "first_replica": found.first_process[0],
        "first_boot": found.first_process[1],
        "first_event": first.event,
        "second_member": second.member,
        "second_replica": found.second_process[0],
        "second_boot": found.second_process[1],
        "second_event": second.event,
        "from_us": found.from_us,
        "until_us": found.until_us,
        "until_event": found.end_event,
        "same_instance": first.instance is not None and first.instance == second.instance,
        "heard_us": found.heard_us,
        "served_by": [".".join(process) for process in found.served_by],
        "proven": found.proven,
    }
