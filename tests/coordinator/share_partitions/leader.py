"""A partition's leader for the tests: a log that is read in whole batches, and the records of one group in flight."""

from collections.abc import Iterable, Sequence

from coordinator.share_partitions import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquireMode,
    FetchedBatch,
    InFlightRecords,
    ShareSettings,
    StateWrite,
)
from protocol_codecs.records import ShareStateBatch

LOCK_MS = 30_000
Ranges = list[tuple[int, int, int]]
"""First offset, last offset and delivery count."""


class Leader:
    """The log has one batch for each number in ``sizes``, from offset 0 on. Writes succeed at once, unless held."""

    def __init__(
        self,
        *sizes: int,
        settings: ShareSettings | None = None,
        start: int = 0,
        persisted: Sequence[ShareStateBatch] = (),
    ) -> None:
        self.log: list[FetchedBatch] = []
        self.now_ms = 0
        self.records = InFlightRecords(settings or ShareSettings(), start, persisted)
        self.held: list[StateWrite] = []
        self.holds_writes = False
        self.writes: list[StateWrite] = []
        for size in sizes:
            self.produce(size)

    @property
    def next_offset(self) -> int:
        return self.log[-1].last_offset + 1 if self.log else 0

    def produce(self, size: int) -> None:
        self.log.append(FetchedBatch(self.next_offset, self.next_offset + size - 1))

    def read(self, offset: int, batches: int | None = None) -> list[FetchedBatch]:
        return [batch for batch in self.log if batch.last_offset >= offset][:batches]

    def fetch(
        self,
        member: str,
        max_records: int = 500,
        *,
        batch_size: int = 500,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
        batches: int | None = None,
    ) -> Ranges:
        """Read so many batches of the log, all by default, from where there is something to acquire, and acquire it."""
        if not self.records.can_acquire():
            return []
        offset = self.records.next_fetch_offset()
        acquired = self.records.acquire(
            member,
            self.read(offset, batches),
            fetch_offset=offset,
            max_records=max_records,
            batch_size=batch_size,
            now_ms=self.now_ms,
            mode=mode,
        )
        return [(one.first_offset, one.last_offset, one.delivery_count) for one in acquired]

    def exactly(self, member: str, max_records: int) -> Ranges:
        return self.fetch(member, max_records, mode=AcquireMode.RECORD_LIMIT)

    def acknowledge(self, member: str, *batches: tuple[int, int, Iterable[int]]) -> None:
        self._persist(
            self.records.acknowledge(
                member,
                [AcknowledgementBatch(first, last, tuple(types)) for first, last, types in batches],
                self.now_ms,
            )
        )

    def accept(self, member: str, first: int, last: int) -> None:
        self.acknowledge(member, (first, last, [AcknowledgeType.ACCEPT]))

    def release(self, member: str, first: int, last: int) -> None:
        self.acknowledge(member, (first, last, [AcknowledgeType.RELEASE]))

    def reject(self, member: str, first: int, last: int) -> None:
        self.acknowledge(member, (first, last, [AcknowledgeType.REJECT]))

    def renew(self, member: str, first: int, last: int) -> None:
        self.acknowledge(member, (first, last, [AcknowledgeType.RENEW]))

    def leave(self, member: str) -> None:
        self._persist(self.records.release(member))

    def wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self._persist(self.records.expire_locks(self.now_ms))

    def deliver_times(self, count: int, member: str = "m") -> None:
        """Deliver what is available, and release all of it, so many times."""
        for _ in range(count):
            while self.fetch(member):
                pass
            self.leave(member)

    def write(self) -> None:
        """The oldest write held back succeeds."""
        self.records.written(self.held.pop(0))

    def fail_to_write(self) -> None:
        self.records.write_failed(self.held.pop(0), self.now_ms)

    def persisted(self) -> list[tuple[int, int, int, int]]:
        """First offset, last offset, state and delivery count of what the last write has."""
        return [
            (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in self.writes[-1].batches
        ]

    @property
    def offsets(self) -> tuple[int, int, int]:
        """Start offset, end offset and next fetch offset."""
        return self.records.start_offset, self.records.end_offset, self.records.next_fetch_offset()

    def _persist(self, write: StateWrite | None) -> None:
        if write is None:
            return
        self.writes.append(write)
        if self.holds_writes:
            self.held.append(write)
        else:
            self.records.written(write)
