"""One fetch of one member: which of the records that were read are acquired."""

from collections.abc import Sequence

import msgspec

from coordinator.share_partitions.acquired import AcquiredRecords, AcquireMode, joined
from coordinator.share_partitions.fetched import FetchedBatch
from coordinator.share_partitions.in_flight_batch import InFlightBatch
from coordinator.share_partitions.in_flight_state import InFlightState
from coordinator.share_partitions.record_state import RecordState
from coordinator.share_partitions.settings import ShareSettings
from coordinator.share_partitions.window import InFlightWindow

_LEAST_LIMIT_WITH_ISOLATION = 3
"""With fewer deliveries than these the last one is nothing special."""


class AcquireRequest(msgspec.Struct, frozen=True):
    """Who wants how many records. ``batch_size`` is where new batches are split, at the log's batches."""

    member_id: str
    mode: AcquireMode
    max_records: int
    batch_size: int
    fetch_offset: int
    deadline_ms: int


class Acquisition:
    """Acquires records for one request. It is used once.

    What is in flight already and available is acquired again, by whole batches where they were not split. What is not
    in flight yet becomes new batches. In RECORD_LIMIT no more records are acquired than asked for.
    """

    def __init__(
        self,
        window: InFlightWindow,
        settings: ShareSettings,
        request: AcquireRequest,
        fetched: Sequence[FetchedBatch],
    ) -> None:
        self._window = window
        self._settings = settings
        self._request = request
        self._fetched = fetched
        self._acquired: list[AcquiredRecords] = []
        self._wanted = 0
        """How many more records to acquire; whole batches can bring it below 0."""
        self._first = fetched[0].base_offset
        self._last = fetched[-1].last_offset

    def run(self) -> tuple[AcquiredRecords, ...]:
        """Acquire; return what was acquired, in order of offsets."""
        if self._last < self._window.start_offset:
            return ()
        self._limit()
        if self._wanted <= 0:
            return ()
        self._window.archive_missing(self._request.fetch_offset, self._first)
        floor = self._window.batches.floor(self._first)
        first = self._first
        if floor is None:
            first = max(first, self._window.start_offset)
        elif floor.last_offset >= first:
            first = floor.first_offset
        in_flight = self._window.batches.between(min(self._first, first), self._last)
        if in_flight:
            self._acquire_in_flight(in_flight, first)
            if self._wanted > 0 and in_flight[-1].last_offset < self._last:
                self._acquire_new(in_flight[-1].last_offset + 1, self._last)
            if self._acquired:
                self._window.close_gap_to(self._acquired[-1].last_offset + 1)
        else:
            self._acquire_new(first, self._last)
        return tuple(self._acquired)

    def _limit(self) -> None:
        """Keep below the number of records that may be in flight; at it, acquire only what is in flight already."""
        window, asked = self._window, self._request.max_records
        self._wanted = min(asked, self._settings.max_record_locks - window.count)
        if self._wanted <= 0 and self._request.fetch_offset <= window.end_offset:
            self._wanted = asked
            self._last = min(self._last, window.end_offset)

    def _acquire_in_flight(self, batches: Sequence[InFlightBatch], first: int) -> None:
        missing = first
        for batch in batches:
            if self._wanted > 0 and self._window.has_gap:
                if missing < batch.first_offset:
                    self._acquire_new(missing, batch.first_offset - 1)
                missing = batch.last_offset + 1
            if self._wanted <= 0:
                return
            is_throttled = self._is_throttled(batch)
            if is_throttled and self._acquired:
                self._wanted = 0  # it comes alone, with the next fetch
                return
            if self._is_whole(batch) and not is_throttled:
                self._acquire_whole(batch)
            elif (batch.offsets is not None or batch.shared.is_available) and (
                self._acquire_part(batch, batch.split()) and is_throttled
            ):
                self._wanted = 0
                return

    def _is_whole(self, batch: InFlightBatch) -> bool:
        is_too_large = self._request.mode is AcquireMode.RECORD_LIMIT and batch.count > self._wanted
        return batch.offsets is None and batch.lies_in(self._first, self._last) and not is_too_large

    def _is_throttled(self, batch: InFlightBatch) -> bool:
        """Whether records of a batch were delivered so often that they might be what makes consumers fail."""
        return any(
            state.is_available and state.delivery_count >= self._settings.throttle_limit
            for first, last, state in batch.states()
            if batch.offsets is None or (first >= self._first and last <= self._last)
        )

    def _acquire_whole(self, batch: InFlightBatch) -> None:
        state = batch.shared
        if state.is_available:
            state.acquire(self._request.member_id, self._request.deadline_ms)
            self._add(AcquiredRecords(batch.first_offset, batch.last_offset, state.delivery_count))

    def _acquire_part(self, batch: InFlightBatch, states: dict[int, InFlightState]) -> bool:
        """Acquire single records of a batch; return whether there were any.

        The more often they were delivered, the fewer come together: from the throttle limit on half of the batch, then
        a quarter. A record on its last delivery comes alone.
        """
        limit = self._settings.delivery_count_limit
        is_last_alone = limit >= _LEAST_LIMIT_WITH_ISOLATION
        most = self._wanted if self._request.mode is AcquireMode.RECORD_LIMIT else batch.count
        throttled_at: int | None = None
        found: list[AcquiredRecords] = []
        for offset, state in states.items():
            if not self._first <= offset <= self._last or not state.is_available:
                continue
            is_last = is_last_alone and state.delivery_count == limit - 1
            if is_last and found:
                break
            over = state.delivery_count - self._settings.throttle_limit
            if over >= 0 and throttled_at is None:
                throttled_at = max(1, batch.count >> (over + 1))
            state.acquire(self._request.member_id, self._request.deadline_ms)
            found.append(AcquiredRecords(offset, offset, state.delivery_count))
            if is_last or len(found) in {most, throttled_at}:
                break
        for one in joined(found):
            self._add(one)
        return bool(found)

    def _acquire_new(self, first: int, last: int) -> None:
        """Acquire records that are not in flight yet."""
        window = self._window
        end = last
        if self._wanted < last - first + 1:
            # By whole batches of the log; but a batch must not reach into one that is in flight.
            end = self._end_of_batch_with(first + self._wanted - 1)
            if window.has_gap:
                end = min(end, last)
        for one in self._new_batches(first, end):
            self._add(one)
        if window.batches.first.first_offset == first:
            window.start_offset = first
        window.end_offset = max(window.end_offset, end)
        window.close_gap_to(self._acquired[-1].last_offset + 1)

    def _end_of_batch_with(self, offset: int) -> int:
        for batch in self._fetched:
            if batch.base_offset <= offset <= batch.last_offset:
                return batch.last_offset
        return offset

    def _new_batches(self, first: int, last: int) -> list[AcquiredRecords]:
        is_limited = self._request.mode is AcquireMode.RECORD_LIMIT
        starts = [first]
        if not is_limited and last - first + 1 > self._request.batch_size:
            for batch in self._fetched:
                if batch.base_offset > last:
                    break
                if batch.base_offset - starts[-1] >= self._request.batch_size:
                    starts.append(batch.base_offset)
        ends = [start - 1 for start in starts[1:]] + [last]
        ranges = [AcquiredRecords(start, end, 1) for start, end in zip(starts, ends, strict=True)]
        added = [self._put(one) for one in ranges]
        if is_limited and last - first + 1 > self._wanted:
            end = first + self._wanted - 1
            added[0].split_at(end)
            self._window.seek_available()
            return [AcquiredRecords(first, end, 1)]
        return ranges

    def _put(self, one: AcquiredRecords) -> InFlightBatch:
        state = InFlightState(
            RecordState.ACQUIRED, one.delivery_count, self._request.member_id, self._request.deadline_ms
        )
        batch = InFlightBatch(one.first_offset, one.last_offset, state)
        self._window.batches.add(batch)
        return batch

    def _add(self, one: AcquiredRecords) -> None:
        self._acquired.append(one)
        self._wanted -= one.count
