"""Random histories of records in flight, checked by a model that knows each record and no batches."""

import random

import pytest

from coordinator.errors import RequestRefused
from coordinator.share_partitions import (
    AcknowledgementBatch,
    AcquireMode,
    FetchedBatch,
    InFlightRecords,
    ShareSettings,
    StateWrite,
    count_of,
)
from coordinator.share_state import SharePartition, ShareState
from protocol_codecs import Uuid
from tests.coordinator.share_partitions.record_model import RecordModel, Refused

KEY = SharePartition("g", Uuid(b"t" * 16), 0)
STEPS = 60
LOCK_MS = 100
MEMBERS = ("a", "b", "c")


class History:
    """One seed's history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311  the same steps in every run
        self.settings = ShareSettings(
            delivery_count_limit=self.random.choice([2, 3, 5, 10]),
            record_lock_duration_ms=LOCK_MS,
            max_record_locks=self.random.choice([15, 40, 2_000]),
        )
        self.model = RecordModel(self.settings.delivery_count_limit, LOCK_MS)
        self.records = InFlightRecords(self.settings, 0)
        self.state = ShareState()
        self.state.initialize({KEY: 0}, 1, 0)
        self.log: list[FetchedBatch] = []
        self.log_start = 0
        self.now = 0
        self.unwritten: list[StateWrite] = []
        self.done: list[str] = []
        self.seen: set[str] = set()

    def play(self) -> None:
        for _ in range(STEPS):
            step = self.random.choices(
                [
                    self.produce,
                    self.fetch,
                    self.acknowledge,
                    self.release,
                    self.wait,
                    self.finish_write,
                    self.move_log_start,
                    self.restart,
                ],
                weights=[10, 35, 35, 5, 10, 25, 2, 2],
            )[0]
            step()
            self.compare()

    def note(self, *what: object) -> None:
        self.done.append(" ".join(map(str, what)))

    def compare(self) -> None:
        self.model.adopt_start(self.records.start_offset)
        assert (
            self.records.start_offset,
            self.records.end_offset,
            self.records.next_fetch_offset(),
            self.records.delivery_complete_count,
            self.records.next_deadline_ms(),
        ) == (
            self.model.start,
            self.model.end,
            self.model.next_fetch_offset(),
            self.model.complete,
            self.model.next_deadline_ms,
        )

    def produce(self) -> None:
        first = self.log[-1].last_offset + 1 if self.log else 0
        self.log.append(FetchedBatch(first, first + self.random.choice([0, 1, 2, 5, 9])))
        self.note("produce", self.log[-1])

    def fetch(self) -> None:
        offset = self.model.next_fetch_offset()
        if offset < self.log_start:
            return
        read = [batch for batch in self.log if batch.last_offset >= offset]
        read = read[: self.random.choice([1, 2, 100])]
        if not read:
            return
        member, most = self.random.choice(MEMBERS), self.random.choice([1, 2, 5, 20])
        mode = self.random.choice(list(AcquireMode))
        wanted, last = self.limits(offset, most, read[-1].last_offset)
        assert self.records.can_acquire() == (wanted > 0)
        offered = range(read[0].base_offset, last + 1)
        able = [one for one in offered if self.model.can_be_acquired(one)]
        counts = [self.model.records[one].count if one in self.model.records else 0 for one in able]
        acquired = self.records.acquire(
            member,
            read,
            fetch_offset=offset,
            max_records=most,
            batch_size=self.random.choice([1, 4, 100]),
            now_ms=self.now,
            mode=mode,
        )
        self.note("fetch", member, most, mode.name, "of", offered, "gives", acquired)
        count = count_of(acquired)
        is_throttled = any(one >= self.settings.throttle_limit for one in counts[: max(wanted, count)])
        if is_throttled:
            self.seen.add("throttled")
        if wanted < min(most, len(able)):
            self.seen.add("at the limit of records in flight")
        if wanted <= 0:
            assert count == 0
        elif is_throttled:
            assert count >= 1
        else:
            assert count >= min(wanted, len(able))
        if mode is AcquireMode.RECORD_LIMIT:
            assert count <= max(wanted, 0)
        ranges = [(one.first_offset, one.last_offset, one.delivery_count) for one in acquired]
        new = self.model.acquired(member, ranges, offered, self.now)
        if not ranges:
            return
        if mode is AcquireMode.RECORD_LIMIT and new and new[-1] == ranges[-1][1]:
            ends = [batch.last_offset for batch in read if batch.last_offset >= new[-1]]
            self.model.undelivered(new[-1] + 1, ends[0])
        self.model.close_gap_to(ranges[-1][1] + 1)

    def limits(self, offset: int, most: int, last: int) -> tuple[int, int]:
        """How many records a fetch may acquire, and up to which offset."""
        in_flight = self.model.end - self.model.start + 1 if self.model.records else 0
        wanted = min(most, self.settings.max_record_locks - in_flight)
        if wanted <= 0 and offset <= self.model.end:
            return min(most, self.model.end - offset + 1), min(last, self.model.end)
        return wanted, last

    def acknowledge(self) -> None:
        if not self.log:
            return
        member = self.random.choice(MEMBERS)
        batches = [self.batch(member) for _ in range(self.random.choice([1, 1, 2, 3]))]
        missing = {
            offset
            for first, last, _ in batches
            for offset in range(max(first, self.model.start), last + 1)
            if offset <= self.model.end and offset not in self.model.records
        }
        if missing and self.model.records:
            return
        made = [AcknowledgementBatch(first, last, types) for first, last, types in batches]
        expected: bool | str
        try:
            expected = self.model.acknowledge(member, batches, self.now)
        except Refused as refused:
            expected = str(refused)
            self.seen.add(f"refused: {refused}")
        write = None
        actual: bool | str
        try:
            write = self.records.acknowledge(member, made, self.now)
            actual = write is not None
        except RequestRefused as refused:
            actual = refused.code.name
        self.note("acknowledge", member, batches, "gives", actual)
        assert actual == expected
        if actual is False and any(last >= self.model.start for _, last, _ in batches):
            self.seen.add("renewed only")
        self.hold(write)

    def batch(self, member: str) -> tuple[int, int, tuple[int, ...]]:
        mine = [offset for offset, one in self.model.records.items() if one.member == member]
        if mine and self.random.random() < 0.8:
            first = self.random.choice(mine)
        else:
            first = self.random.randint(0, self.model.end + 2)
        last = first + self.random.choice([0, 0, 1, 2, 5])
        kinds = self.random.choices([0, 1, 2, 3, 4], weights=[1, 5, 8, 1, 1], k=last - first + 1)
        return first, last, tuple(kinds if self.random.random() < 0.5 else kinds[:1])

    def release(self) -> None:
        member = self.random.choice(MEMBERS)
        write = self.records.release(member)
        self.note("release", member)
        assert (write is not None) == self.model.release(member)
        self.hold(write)

    def wait(self) -> None:
        deadline = self.records.next_deadline_ms()
        self.now += self.random.choice([1, LOCK_MS // 2])
        if deadline is not None and self.random.random() < 0.5:
            self.now = max(self.now, deadline)
        write = self.records.expire_locks(self.now)
        self.note("wait until", self.now)
        assert (write is not None) == self.model.expire(self.now)
        self.hold(write)

    def hold(self, write: StateWrite | None) -> None:
        if write is not None:
            self.unwritten.append(write)
            states = {
                offset: (batch.delivery_state, batch.delivery_count)
                for batch in write.batches
                for offset in range(batch.first_offset, batch.last_offset + 1)
            }
            numbers = {"available": 0, "acknowledged": 2, "archived": 4}
            expected = self.model.unwritten[-1]
            if ("archived", self.settings.delivery_count_limit) in expected.states.values():
                self.seen.add("archived at the limit")
            assert write.start_offset == expected.start
            assert states == {
                offset: (numbers[state], count) for offset, (state, count) in expected.states.items()
            }

    def finish_write(self) -> None:
        if not self.unwritten:
            return
        number = self.random.randrange(len(self.unwritten))
        write = self.unwritten.pop(number)
        if self.random.random() < 0.2:
            self.note("the write fails of", write.batches)
            self.seen.add("write failed")
            if any(one.deadline_ms <= self.now for one in self.model.unwritten[number].moving.values()):
                self.seen.add("lock ended in transition")
            self.records.write_failed(write, self.now)
            self.model.write_failed(number, self.now)
            return
        self.note("written", write.batches)
        self.state.write(
            KEY,
            state_epoch=1,
            leader_epoch=0,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
            batches=write.batches,
            now_ms=self.now,
        )
        self.records.written(write)
        self.model.written(number)

    def move_log_start(self) -> None:
        """Only with nothing to be written: what it does to a batch in transition depends on how that is split."""
        if self.unwritten or not self.log:
            return
        self.log_start = max(self.log_start, self.random.choice(self.log).base_offset)
        self.log = [batch for batch in self.log if batch.base_offset >= self.log_start]
        if self.model.next_fetch_offset() < self.log_start:
            self.note("the log begins at", self.log_start)
            below = [one for offset, one in self.model.records.items() if offset < self.log_start]
            if any(one.state == "acquired" for one in below):
                self.seen.add("log start moved over acquired records")
            self.records.move_log_start(self.log_start)
            self.model.move_log_start(self.log_start)

    def restart(self) -> None:
        self.note("restart")
        known = self.state.read(KEY, 0, self.now)
        self.records = InFlightRecords(self.settings, known.start_offset, known.batches)
        self.unwritten.clear()
        self.model.restart()
        if self.model.has_gap:
            self.seen.add("gap after a restart")


@pytest.mark.parametrize("block", range(8))
def test_random_histories(block: int):
    for seed in range(block * 50, block * 50 + 50):
        history = History(seed)
        try:
            history.play()
        except Exception as error:
            error.add_note("\n".join([f"seed {seed}", *history.done]))
            raise


def test_the_histories_have_what_matters():
    histories = [History(seed) for seed in range(60)]
    for history in histories:
        history.play()

    assert set().union(*(history.seen for history in histories)) == {
        "archived at the limit",
        "throttled",
        "at the limit of records in flight",
        "refused: INVALID_RECORD_STATE",
        "refused: INVALID_REQUEST",
        "renewed only",
        "lock ended in transition",
        "write failed",
        "log start moved over acquired records",
        "gap after a restart",
    }
