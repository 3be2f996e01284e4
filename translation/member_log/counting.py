"""Decides which record of a member counts, for one partition of the member log, when a record is forgotten, and how
many are kept (``fleet.max_members``, ``fleet.max_group_members``).

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

What is too much. Whoever may write the topic can make up members, so a reader keeps so many records of a group and in
all (:class:`Room`), and forgets the oldest beyond that, as if they were too old. That is no compare-and-set any more:
another reader may know what this one has forgotten. What it costs is a rejoin: a member that is served is written again
by its replica when that has forgotten its record, and a dead id may be served again.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from heapq import merge
from typing import NamedTuple, Protocol

from translation.member_log.records import Kind, MemberKey, MemberRecord, Writer

LATE_MS = 10 * 60_000
"""Producers give up after a minute, and a reader that gets nothing for half a minute counts as away."""
CLOCK_SKEW_MS = 20 * 60_000
"""The clocks of brokers differ by no more."""
FORGET_DEAD_MS = LATE_MS + 2 * CLOCK_SKEW_MS + 10 * 60_000
"""An hour: no epoch -1 for the id is under way any more."""
FORGET_MS = 5 * 24 * 3_600_000
COMPACTION_LAG_MS = LATE_MS + 2 * CLOCK_SKEW_MS + 10 * 60_000
"""``min.compaction.lag.ms`` of the topic."""
_BYTES_OF_RECORD = 1_000
"""About what a record takes in memory beside its texts."""
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


class Room:
    """How much of the log one process keeps. Its partitions share it; what a lost one had is given back."""

    __slots__ = (
        "bytes", "bytes_of_group", "forgotten", "max_bytes", "members", "members_of_group", "most_members",
    )  # fmt: skip

    def __init__(self, most_members: int, members_of_group: int, max_bytes: int) -> None:
        self.most_members, self.members_of_group, self.max_bytes = most_members, members_of_group, max_bytes
        self.bytes_of_group = max_bytes // 2
        self.members = 0
        """Members whose records are kept."""
        self.bytes = 0
        """About how much memory they take."""
        self.forgotten = 0
        """Records that were forgotten for want of room, so far."""

    @property
    def is_exceeded(self) -> bool:
        """Whether more is kept than there is room for in all."""
        return self.members > self.most_members or self.bytes > self.max_bytes

    def share(self, view: "PartitionView") -> int:
        """How much a partition has of what is too much."""
        return len(view) if self.members > self.most_members else view.bytes


NO_BOUND = 2**63


def _bytes_of(key: MemberKey, stored: Stored) -> int:
    record = stored.record
    texts = len(key.group_id) + len(key.member_id) + len(record.server) + len(record.instance_id or "")
    return _BYTES_OF_RECORD + texts + len(record.snapshot)


class PartitionView:
    """What counts for each member of one partition, as far as it has been read."""

    __slots__ = (
        "_alive",
        "_bytes_of_group",
        "_dead",
        "_dead_beyond_alive",
        "_of_group",
        "bytes",
        "newest_ms",
        "numbers",
        "position",
        "room",
    )

    def __init__(self, room: Room | None = None) -> None:
        self.room = room or Room(NO_BOUND, NO_BOUND, NO_BOUND)
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
        self._of_group: Counter[str] = Counter()
        self._bytes_of_group: Counter[str] = Counter()
        self.bytes = 0
        """About how much memory its records take."""

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
        size = change * _bytes_of(key, stored)
        self._of_group[key.group_id] += change
        self._bytes_of_group[key.group_id] += size
        if not self._of_group[key.group_id]:
            del self._of_group[key.group_id], self._bytes_of_group[key.group_id]
        self.room.members += change
        self.room.bytes += size
        self.bytes += size
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

    def forget_beyond(self, group_id: str) -> list[MemberKey]:
        """Forget the oldest of a group with more members, or bytes, than it has room for. Return whose it was.

        A share of them at once, so that a flood does not cost a search for each of its records.
        """
        members, size = self._of_group[group_id], self._bytes_of_group[group_id]
        most, most_bytes = self.room.members_of_group, self.room.bytes_of_group
        if members <= most and size <= most_bytes:
            return []
        most, most_bytes = most - most // 100, most_bytes - most_bytes // 100
        oldest: list[tuple[MemberKey, Stored]] = []
        for one in merge(self._alive.items(), self._dead.items(), key=lambda one: one[1].offset):
            if members <= most and size <= most_bytes:
                break
            if one[0].group_id == group_id:
                oldest.append(one)
                members -= 1
                size -= _bytes_of(*one)
        return [self._give_up(*one) for one in oldest]

    def forget_oldest(self) -> list[MemberKey]:
        """Forget the oldest record, for want of room in all. Return whose it was."""
        oldest = [next(iter(records.items())) for records in (self._alive, self._dead) if records]
        return [self._give_up(*min(oldest, key=lambda one: one[1].offset))] if oldest else []

    def give_back(self) -> None:
        """Give back the room of everything: the partition is read again, into another view."""
        self.room.members -= len(self)
        self.room.bytes -= self.bytes

    def _give_up(self, key: MemberKey, stored: Stored) -> MemberKey:
        self._drop(key, stored)
        self.room.forgotten += 1
        return key
