"""The window of records in flight, from the share partition start offset (SPSO) to the end offset (SPEO)."""

from collections.abc import Iterable, Sequence

import msgspec

from coordinator.errors import BrokenInvariant
from coordinator.share_partitions.in_flight_batch import InFlightBatch, InFlightBatches
from coordinator.share_partitions.in_flight_state import InFlightState
from coordinator.share_partitions.record_state import RecordState, record_state
from protocol_codecs.records import ShareStateBatch


class _Gap(msgspec.Struct):
    """From where on offsets without a state may still have to be delivered.

    The share coordinator knows only what was acknowledged or released. What was acquired beside that, when the leader
    was another or this process ran before, is missing from its state, and is to be delivered again. Once the window
    has been passed, offsets that are missing are not in the log either.
    """

    first_offset: int
    end_offset: int


class InFlightWindow:
    """Batches in flight between the start and the end offset, and where to read next."""

    def __init__(self, start_offset: int, persisted: Sequence[ShareStateBatch] = ()) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.delivery_complete_count = 0
        self.batches = InFlightBatches()
        self._seeks_available = False
        """Whether something before the end offset may be available."""
        self._gap: _Gap | None = None
        self._load(persisted)

    def _load(self, persisted: Sequence[ShareStateBatch]) -> None:
        following = self.start_offset
        gap_at: int | None = None
        for batch in persisted:
            if not self.start_offset <= batch.first_offset <= batch.last_offset:
                raise BrokenInvariant(f"a state batch at {batch.first_offset} to {batch.last_offset}")
            if gap_at is None and batch.first_offset > following:
                gap_at = following
            following = batch.last_offset + 1
            state = InFlightState(record_state(batch.delivery_state), batch.delivery_count)
            self.batches.add(InFlightBatch(batch.first_offset, batch.last_offset, state))
            if state.is_done:
                self.delivery_complete_count += batch.last_offset - batch.first_offset + 1
        if not len(self.batches):
            return
        self._seeks_available = True
        self.end_offset = self.batches.last.last_offset
        if gap_at is not None:
            self._gap = _Gap(gap_at, self.end_offset)
        self.advance()

    @property
    def count(self) -> int:
        """Return how many records are in flight: all from the start to the end offset."""
        return self.end_offset - self.start_offset + 1 if len(self.batches) else 0

    @property
    def has_gap(self) -> bool:
        """Whether offsets without a state may have to be delivered."""
        return self._gap is not None and self._gap.end_offset == self.end_offset

    def count_of(self, first: int, last: int) -> int:
        """Return how many of these offsets are not below the start offset."""
        return max(0, last - max(first, self.start_offset) + 1)

    def seek_available(self) -> None:
        """Look at the next fetch for records that became available."""
        self._seeks_available = True

    def next_fetch_offset(self) -> int:
        """Return the offset of the first record that is available, or of the first that was never acquired."""
        if not len(self.batches) or self.start_offset > self.batches.last.last_offset:
            self._seeks_available = False
            return self.end_offset
        found = self._first_available() if self._seeks_available else None
        if found is None:
            self._seeks_available = False
            return self.end_offset + 1
        return found

    def _first_available(self) -> int | None:
        gap = self._gap if self.has_gap else None
        missing = 0 if gap is None else gap.first_offset
        for batch in self.batches:
            if gap is not None:
                if batch.first_offset > missing:
                    return missing
                missing = max(missing, batch.last_offset + 1)
            for first, last, state in batch.states():
                if state.is_available and last >= self.start_offset:
                    return max(first, self.start_offset)
        return None

    def close_gap_to(self, offset: int) -> None:
        """Note that all before this offset has a state now, or is not in the log."""
        if self._gap is not None:
            if self.has_gap:
                self._gap.first_offset = offset
            else:
                self._gap = None

    def advance(self) -> None:
        """Move the start offset over records that are done with, and forget the batches before it."""
        if not self._can_advance():
            return
        last_done, count = self._done()
        if last_done is None:
            return
        if last_done == self.batches.last.last_offset:
            self.start_offset = self.end_offset = last_done + 1
            self.delivery_complete_count = 0
            self.batches.clear()
            return
        batch = self.batches.floor(last_done)
        if batch is None:
            raise BrokenInvariant(f"no batch has offset {last_done}")
        if last_done == batch.last_offset:
            following = self.batches.after(last_done).first_offset
            self.start_offset = max(self.start_offset, following)
            if self._gap is not None and self.has_gap:
                self.start_offset = min(self.start_offset, self._gap.first_offset)
            self.batches.remove_before(following)
        else:
            self.start_offset = max(self.start_offset, last_done + 1)
            self.batches.remove_before(batch.first_offset)
        self.delivery_complete_count -= count

    def _can_advance(self) -> bool:
        batch = self.batches.floor(self.start_offset)
        return batch is not None and self._is_done(batch.last_offset, batch.state_at(self.start_offset))

    def _is_done(self, last: int, state: InFlightState) -> bool:
        """Whether the start offset can pass records, the last of which has this offset.

        Those below it that are available were archived meanwhile, if a write had not failed after their locks ended.
        """
        return state.is_done or (state.is_available and last < self.start_offset)

    def _done(self) -> tuple[int | None, int]:
        """Return the last offset of those done with at the beginning, and how many of them are in flight."""
        last_done: int | None = None
        count = 0
        for batch in self.batches:
            if self._gap is not None and self.has_gap and batch.last_offset >= self._gap.first_offset:
                break
            for first, last, state in batch.states():
                if not self._is_done(last, state):
                    return last_done, count
                last_done = last
                count += self.count_of(first, last)
        return last_done, count

    def move_log_start(self, log_start_offset: int) -> None:
        """Begin at the log's start offset; see :meth:`InFlightRecords.move_log_start`."""
        if log_start_offset <= self.start_offset:
            return
        if not len(self.batches):
            self.start_offset = self.end_offset = log_start_offset
            self.delivery_complete_count = 0
            return
        done = sum(
            self.count_of(first, min(last, log_start_offset - 1))
            for batch in self.batches
            for first, last, state in batch.states()
            if state.state.is_terminal
        )
        self._archive(self.batches, self.start_offset, log_start_offset)
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)
        self.delivery_complete_count -= done
        if self._gap is not None:
            # Kafka 4.4 leaves it, and then reads for ever where the log has nothing any more.
            self._gap.first_offset = max(self._gap.first_offset, log_start_offset)

    def archive_missing(self, fetch_offset: int, base_offset: int) -> None:
        """Archive what is available from where the log was read to the first batch that is there.

        Compaction has removed it, so it would never be acquired and hold the start offset for ever.
        """
        if fetch_offset >= base_offset:
            return
        first = fetch_offset
        floor = self.batches.floor(fetch_offset)
        if floor is not None and floor.last_offset >= fetch_offset:
            first = floor.first_offset
        batches = self.batches.between(first, base_offset - 1)
        self.delivery_complete_count += self._archive(batches, fetch_offset, base_offset)

    def _archive(self, batches: Iterable[InFlightBatch], first: int, end: int) -> int:
        """Archive what is available from the first offset on and before the end; return how many records that is."""
        count = 0
        for batch in batches:
            if batch.first_offset >= end:
                break
            if batch.offsets is None:
                if batch.shared.state is not RecordState.AVAILABLE:
                    continue
                if not batch.lies_in(first, end - 1):
                    batch.split()
            for first_of_it, last_of_it, state in batch.states():
                if state.state is RecordState.AVAILABLE and first <= first_of_it < end:
                    state.archive()
                    count += last_of_it - first_of_it + 1
        if count:
            self.seek_available()
        return count
