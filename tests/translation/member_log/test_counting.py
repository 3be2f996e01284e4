"""Every replica finds the same record to count, and each that counts replaced exactly the one that its writer saw.

The oracle (:mod:`tests.translation.member_log.model`) sees the whole log and what each writer really had read. Writers
are late, their writes fail and land all the same, they restart; the log is compacted and its prefix deleted at any
moment; readers begin at any moment; clocks of brokers differ.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.translation.member_log.model import KINDS, Entry, Log, Seen
from translation.member_log import counting
from translation.member_log.counting import (
    CLOCK_SKEW_MS,
    FORGET_DEAD_MS,
    FORGET_MS,
    RETENTION_MS,
    PartitionView,
    Stored,
)
from translation.member_log.records import PROBE, Kind, MemberKey, MemberRecord, Writer

MEMBERS = [MemberKey("g", "a"), MemberKey("g", "b")]


class Disagreement(AssertionError):
    """A reader finds another record to count than the oracle."""


class Habits:
    """What replicas do; a mutation changes one of them."""

    view: Callable[[], PartitionView] = PartitionView
    waits_for_its_record = True
    renames_the_writer = True
    """After a failed write, and at a restart."""
    lands_late = False
    compaction_lag_ms = counting.COMPACTION_LAG_MS


class Replica:
    """Reads the log and writes what comes to its mind."""

    def __init__(self, world: "World", writer: Writer) -> None:
        self.world = world
        self.begin(writer)

    def begin(self, writer: Writer) -> None:
        self.writer = writer
        self.view = self.world.habits.view()
        self.view.read_to(self.world.log.start)
        self.replayed_at = self.world.log.end
        self.unresolved: dict[tuple[MemberKey, Writer], MemberRecord] = {}

    @property
    def is_ready(self) -> bool:
        return self.view.position >= self.replayed_at

    def write(self, key: MemberKey, kind: Kind) -> None:
        habits = self.world.habits
        if not self.is_ready:
            return
        if habits.waits_for_its_record and (key, self.writer) in self.unresolved:
            return
        present = self.view.get(key)
        stamp = self.view.stamp(key)
        record = MemberRecord(kind, *stamp)
        self.unresolved[key, self.writer] = record
        seen = Seen(present and present.offset, self.view.position, self.view.newest_ms)
        self.world.on_their_way.setdefault(self.writer, []).append((key, record, seen))

    def probe(self) -> None:
        self.world.on_their_way.setdefault(self.writer, []).append((PROBE, None, Seen(None, 0, 0)))

    def read(self) -> None:
        log = self.world.log
        if self.view.position < log.start:  # out of range: from the beginning, as a process that starts
            self.begin(self.world.new_writer(8))
        entry = log.next_from(self.view.position)
        if entry is None:
            self.view.read_to(log.end)
            return
        if entry.record is None:
            self.view.read_to(entry.offset + 1, entry.appended_ms)
        else:
            self.view.read(entry.key, entry.stored)
            if self.unresolved.get((entry.key, entry.writer)) == entry.record:
                del self.unresolved[entry.key, entry.writer]
        self.view.forget()
        if self.is_ready and self.view.position >= log.cleaned_to:
            self._check()

    def _check(self) -> None:
        """Both members, so that what was forgotten is seen too."""
        expected = self.world.log.oracle.history[self.view.position - 1]
        for key in MEMBERS:
            found, right = self.view.get(key), expected.get(key)
            if found is None:
                if right is not None and not self._may_forget(right):
                    raise Disagreement(f"{right} is not known")
            elif right is None or found.offset != right.offset:
                raise Disagreement(f"{found} counts instead of {right}")
        beyond = sum(1 if self.view.get(key).record.kind.is_dead else -1 for key in self.view)
        assert self.view.dead_beyond_alive("g") == beyond

    def _may_forget(self, entry: Entry) -> bool:
        assert entry.record is not None
        kept_ms = FORGET_DEAD_MS if entry.record.kind.is_dead else FORGET_MS
        return self.view.newest_ms - entry.appended_ms > kept_ms


class World:
    """One log, two to four replicas, and a source of randomness that decides everything."""

    def __init__(self, seed: int, habits: type[Habits] = Habits) -> None:
        self.random = random.Random(seed)  # noqa: S311  a seed determines all
        self.habits = habits
        self.log = Log()
        self.on_their_way: dict[Writer, list[tuple[MemberKey, MemberRecord | None, Seen]]] = {}
        self.lost = 0
        self.names = 0
        self.replicas = [
            Replica(self, self.new_writer(number)) for number in range(self.random.randint(2, 4))
        ]
        for replica in self.replicas:
            replica.probe()

    def new_writer(self, replica: int) -> Writer:
        self.names += self.habits.renames_the_writer
        return Writer(b"%d.%d" % (replica, self.names))

    def run(self, steps: int) -> None:
        actions: list[tuple[Callable[[], Any], int]] = [
            (self.write, 30), (self.probe, 6), (self.land, 30), (self.read, 60), (self.fail, 3), (self.restart, 2),
            (self.compact, 3), (self.delete, 2), (self.pass_time, 6), (self.let_something_age, 2),
            (self.move_leader, 1),
        ]  # fmt: skip
        does, weights = zip(*actions, strict=True)
        for action in self.random.choices(does, weights, k=steps):
            action()
        # a fresh reader of what is left, and all the others, find the same
        self.replicas.append(Replica(self, self.new_writer(9)))
        for replica in self.replicas:
            while replica.view.position < self.log.end:
                replica.read()
            counted = (stored for _, stored in replica.view.counted())
            assert replica.view.numbers == Counter((one.record.kind, one.writer) for one in counted)
            assert all(replica.view.numbers.values())

    def write(self) -> None:
        kind = self.random.choices(KINDS, [6, 2, 1, 1])[0]
        self.random.choice(self.replicas).write(self.random.choice(MEMBERS), kind)

    def probe(self) -> None:
        self.random.choice(self.replicas).probe()

    def land(self) -> None:
        """The next record of some writer lands; those of one writer keep their order."""
        waiting = [writer for writer, records in self.on_their_way.items() if records]
        if waiting:
            writer = self.random.choice(waiting)
            key, record, seen = self.on_their_way[writer].pop(0)
            if record is None or self.habits.lands_late or not self.log.is_late(seen):
                self.log.append(key, writer, record, seen)
            else:
                self.lose(writer)

    def lose(self, writer: Writer) -> None:
        """A producer gives up, and its replica takes another one."""
        for number, replica in enumerate(self.replicas):
            if replica.writer == writer:
                replica.writer = self.new_writer(number)
                replica.unresolved.clear()

    def read(self) -> None:
        replica = self.random.choice(self.replicas)
        for _ in range(self.random.choice([1, 1, 2, 5, 20])):
            replica.read()

    def fail(self) -> None:
        """The outcome of what a replica has written is unknown: it lands later, or never."""
        replica = self.random.choice(self.replicas)
        if self.random.random() < 0.3:
            self.on_their_way.pop(replica.writer, None)
        self.lose(replica.writer)

    def restart(self) -> None:
        number = self.random.randrange(len(self.replicas))
        self.replicas[number] = Replica(self, self.new_writer(number))
        self.replicas[number].probe()

    def compact(self) -> None:
        self.log.compact(self.random.randint(self.log.start, self.log.end), self.habits.compaction_lag_ms)

    def delete(self) -> None:
        self.append_probe()
        self.log.delete_prefix(self.random.randint(self.log.start, self.log.end))

    def pass_time(self) -> None:
        self.log.now_ms += self.random.choice([1, 1_000, 60_000, 300_000, 700_000, 1_800_000])

    def let_something_age(self) -> None:
        """Time passes until some record is as old as matters, or nearly so; then perhaps it is deleted."""
        if self.log.entries:
            entry = self.random.choice(list(self.log.entries.values()))
            age = self.random.choice([FORGET_DEAD_MS, FORGET_MS, RETENTION_MS - CLOCK_SKEW_MS])
            self.log.now_ms = max(self.log.now_ms, entry.appended_ms + age + self.random.choice([-1, 1]))
            self.append_probe()
            if self.random.random() < 0.5:
                self.log.delete_prefix(entry.offset + 1)

    def append_probe(self) -> None:
        """Of a process that writes nothing else."""
        self.log.append(PROBE, Writer(b"idle"), None, Seen(None, 0, 0))

    def move_leader(self) -> None:
        self.log.skew_ms = self.random.randint(-CLOCK_SKEW_MS // 2, CLOCK_SKEW_MS // 2)


@pytest.mark.parametrize("block", range(4))
def test_all_readers_agree_and_each_record_replaced_what_its_writer_saw(block: int) -> None:
    counted = 0
    for seed in range(block * 250, block * 250 + 250):
        world = World(seed)
        world.run(300)
        counted += sum(
            history.get(key) != (world.log.oracle.history[offset - 1].get(key) if offset else None)
            for offset, history in enumerate(world.log.oracle.history)
            for key in MEMBERS
        )
    assert counted > 2000  # else nothing was tried


# -- mutations: each breaks one rule, and is noticed -------------------------------------------------------------


as_written = counting.counts


class Changed(PartitionView):
    """A view with another rule."""

    def counts(self, candidate: Stored, present: Stored | None) -> bool:
        raise NotImplementedError

    def read(self, key: MemberKey, stored: Stored) -> bool:
        original, counting.counts = counting.counts, self.counts
        try:
            return super().read(key, stored)
        finally:
            counting.counts = original


class FirstBeatsTheUnseen(Changed):
    def counts(self, candidate: Stored, present: Stored | None) -> bool:
        return as_written(candidate._replace(record=replace(candidate.record, first=False)), present)


class TheLastOfAVersionCounts(Changed):
    def counts(self, candidate: Stored, present: Stored | None) -> bool:
        return as_written(candidate, present) or (
            present is not None
            and not candidate.record.first
            and candidate.record.version == present.record.version
        )


class WhateverIsReadCounts(Changed):
    def counts(self, candidate: Stored, present: Stored | None) -> bool:
        return True


class OneVersionMoreThanWhatCounts(PartitionView):
    def stamp(self, key: MemberKey) -> counting.Stamp:
        present = self.get(key)
        stamp = super().stamp(key)
        return stamp if present is None else stamp._replace(version=present.record.version + 1)


class ForgetsTheDeadAtOnce(PartitionView):
    def forget(self) -> list[MemberKey]:
        for key in list(self._dead):
            self._drop(key, self._dead[key])
        return super().forget()


class RemembersWhatRetentionDeletes(PartitionView):
    def forget(self) -> list[MemberKey]:
        return []


class WritesBeforeTheFirstIsReadBack(Habits):
    waits_for_its_record = False


class NamesTheWriterAfterThePod(Habits):
    """So does one that keeps its name after a failed write."""

    renames_the_writer = False


class CompactsAtOnce(Habits):
    compaction_lag_ms = 0


class RecordsLandLate(Habits):
    lands_late = True


def disagrees(world: World) -> bool:
    try:
        world.run(300)
    except Disagreement:
        return True
    return False


def with_view(view: type[PartitionView]) -> type[Habits]:
    return type(view.__name__, (Habits,), {"view": view})


SEEDS = {"CompactsAtOnce": range(2_300, 2_400), "OneVersionMoreThanWhatCounts": range(800, 900)}
"""Where the mutation shows itself seldom."""


@pytest.mark.parametrize(
    "habits",
    [
        with_view(FirstBeatsTheUnseen),
        with_view(TheLastOfAVersionCounts),
        with_view(WhateverIsReadCounts),
        with_view(OneVersionMoreThanWhatCounts),
        with_view(ForgetsTheDeadAtOnce),
        with_view(RemembersWhatRetentionDeletes),
        WritesBeforeTheFirstIsReadBack,
        NamesTheWriterAfterThePod,
        RecordsLandLate,
        CompactsAtOnce,
    ],
    ids=lambda habits: habits.__name__,
)
def test_each_rule_is_needed(habits: type[Habits]) -> None:
    assert any(disagrees(World(seed, habits)) for seed in SEEDS.get(habits.__name__, range(200)))
