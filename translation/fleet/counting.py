"""Decides which record of a member counts, for one partition of the member log.

Theory of operation
-------------------
All replicas read all records of a partition in one order, and for each member one of them *counts*. The rule makes a
record a compare-and-set: a record that counts replaced exactly the one that its writer saw. So of two replicas that
both want a member one gets it, and a member is expired only if nobody else has taken it meanwhile.

A writer puts down what it saw (:meth:`PartitionView.stamp`):

* if a record ``c`` counts: ``version = offset(c) + 1``;
* if none does: ``first``, and ``version`` = the next offset that it would have read.

A record ``R`` that is read next counts (:func:`counts`), where ``c`` counts so far, if and only if

* nothing counts so far, or
* ``R`` is not first and ``version(R) > version(c)``, or
* ``R`` is first and ``version(R) > offset(c)``: its writer had read past ``c``, and knows it no more.

Why this is a compare-and-set. Along the records that count versions rise, each being larger than the offset of the one
before. If ``R`` saw an older record than ``c``, then ``version(R)`` is at most ``version(c)``: that of the one right
after what ``R`` saw, and of two with one version the first in the log counts. Comparing the seen record itself would be
wrong: after a compaction what once lost may be the first survivor that fits.

Why compaction changes nothing. The record that counts is the last of its key (group, member, writer), because a writer
has one unresolved record of a member at a time and takes another name when the outcome of a write is unknown. What lost
before has no version above the offset of the one to which it lost, so whatever counts later wins against it too. Only
a reader that lags may be misled: where compaction has removed a record that counted, and not yet the one that had lost
to it, the loser counts until the successor is read. So compaction leaves :data:`COMPACTION_LAG_MS` alone: longer than a
record may take from such a view to the log.

What is forgotten, by the broker's clock (LogAppendTime): a dead member id after :data:`FORGET_DEAD_MS`, every other
record after :data:`FORGET_MS`, which is less than the topic's retention. So a reader that starts when a part of the log
has been deleted knows what the others know, and does not find what had lost to a deleted record. A member that is
served is written anew long before. This needs writers that keep two conditions:

* a record lands within :data:`LATE_MS` of the newest one that its writer had read, or never: so nothing that has not
  seen a record lands after that was forgotten. (Readers can't enforce it: a late record that they ignored would still
  be the last of its key, and compaction would remove the one that counts.)
* clocks of brokers differ by :data:`CLOCK_SKEW_MS` at most.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from translation.fleet.records import Kind, MemberKey, MemberRecord, Writer

LATE_MS = 10 * 60_000
"""Producers give up after a minute, and a reader that gets nothing for half a minute counts as away."""
CLOCK_SKEW_MS = 20 * 60_000
"""The clocks of brokers differ by no more."""
FORGET_DEAD_MS = LATE_MS + 2 * CLOCK_SKEW_MS + 10 * 60_000
"""An hour: no epoch -1 for the id is under way any more."""
FORGET_MS = 5 * 24 * 3_600_000
COMPACTION_LAG_MS = LATE_MS + 2 * CLOCK_SKEW_MS + 10 * 60_000
"""``min.compaction.lag.ms`` of the topic."""
RETENTION_MS = 7 * 24 * 3_600_000
"""``retention.ms`` of the topic: two days more than what is remembered, for a broker whose clock is ahead."""


class Stamp(NamedTuple):
    """What a writer saw of a member when it wrote: the fields of that name of its record."""

    version: int
    first: bool


class Stored(NamedTuple):
    """A record with its place in the log. ``appended_ms`` is its LogAppendTime."""

    offset: int
    appended_ms: int
    writer: Writer
    record: MemberRecord


class Stamped(Protocol):
    """What a record says that its writer saw: the fields of a :class:`Stamp`."""

    @property
    def version(self) -> int:
        """See :class:`Stamp`."""

    @property
    def first(self) -> bool:
        """See :class:`Stamp`."""


class Placed(Protocol):
    """A record of any kind, with its place in the log."""

    @property
    def offset(self) -> int:
        """Where it lies."""

    @property
    def record(self) -> Stamped:
        """The record."""


def counts(candidate: Placed, present: Placed | None) -> bool:
    """Whether ``candidate``, the next record of its key, takes the place of the one that counts so far."""
    if present is None:
        return True
    version = candidate.record.version
    return version > (present.offset if candidate.record.first else present.record.version)


class PartitionView:
    """What counts for each member of one partition, as far as it has been read."""

    __slots__ = ("_alive", "_dead", "_dead_beyond_alive", "newest_ms", "numbers", "position")

    def __init__(self) -> None:
        self.position = 0
        """The next offset to be read."""
        self.newest_ms = 0
        """The highest LogAppendTime that was read."""
        self.numbers: Counter[tuple[Kind, Writer]] = Counter()
        """How many members there are by kind and writer of the record that counts for each; no number is 0."""
        # In the order of their offsets, so that the oldest is the first.
        self._alive: OrderedDict[MemberKey, Stored] = OrderedDict()
        self._dead: OrderedDict[MemberKey, Stored] = OrderedDict()
        self._dead_beyond_alive: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._alive) + len(self._dead)

    def __iter__(self) -> Iterator[MemberKey]:
        yield from self._alive
        yield from self._dead

    def counted(self) -> list[tuple[MemberKey, Stored]]:
        """Every member with the record that counts for it, as they are now."""
        return [*self._alive.items(), *self._dead.items()]

    def get(self, key: MemberKey) -> Stored | None:
        """The record that counts for a member, or None."""
        return self._alive.get(key) or self._dead.get(key)

    def dead_beyond_alive(self, group_id: str) -> int:
        """By how many the dead member ids of a group are more than the others of it; negative if they are fewer."""
        return self._dead_beyond_alive[group_id]

    def stamp(self, key: MemberKey) -> Stamp:
        """What a record that is written now has to say it saw."""
        present = self.get(key)
        if present is None:
            return Stamp(self.position, first=True)
        return Stamp(present.offset + 1, first=False)

    def read(self, key: MemberKey, stored: Stored) -> bool:
        """Take the next record of a member. Return whether it counts."""
        present = self.get(key)
        self.read_to(stored.offset + 1, stored.appended_ms)
        if not counts(stored, present):
            return False
        if present is not None:
            self._drop(key, present)
        (self._dead if stored.record.kind.is_dead else self._alive)[key] = stored
        self._count(key, stored, 1)
        return True

    def _drop(self, key: MemberKey, stored: Stored) -> None:
        del (self._dead if stored.record.kind.is_dead else self._alive)[key]
        self._count(key, stored, -1)

    def _count(self, key: MemberKey, stored: Stored, change: int) -> None:
        kind = stored.record.kind
        self._dead_beyond_alive[key.group_id] += change if kind.is_dead else -change
        if not self._dead_beyond_alive[key.group_id]:
            del self._dead_beyond_alive[key.group_id]
        self.numbers[kind, stored.writer] += change
        if not self.numbers[kind, stored.writer]:
            del self.numbers[kind, stored.writer]

    def read_to(self, position: int, appended_ms: int = 0) -> None:
        """Everything before this offset has been read; ``appended_ms`` if something else than a member was."""
        self.position = max(self.position, position)
        self.newest_ms = max(self.newest_ms, appended_ms)

    def forget(self) -> list[MemberKey]:
        """Forget what is too old to matter, and return whose it was."""
        forgotten: list[MemberKey] = []
        for records, kept_ms in ((self._dead, FORGET_DEAD_MS), (self._alive, FORGET_MS)):
            while records:
                key, stored = next(iter(records.items()))
                if self.newest_ms - stored.appended_ms <= kept_ms:
                    break
                self._drop(key, stored)
                forgotten.append(key)
        return forgotten
