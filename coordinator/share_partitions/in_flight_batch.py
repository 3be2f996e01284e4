"""Records that were acquired together, and the ordered collection of all of them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from coordinator.errors import BrokenInvariant
from coordinator.share_partitions.in_flight_state import InFlightState
from coordinator.share_partitions.record_state import RecordState


class InFlightBatch:
    """A range of offsets with one state, or, once split, with a state for each offset."""

    __slots__ = ("_shared", "first_offset", "last_offset", "offsets")

    def __init__(self, first_offset: int, last_offset: int, state: InFlightState) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self._shared: InFlightState | None = state
        self.offsets: dict[int, InFlightState] | None = None
        """The states by offset, ascending; None while all records share one."""

    @property
    def count(self) -> int:
        """Return the number of offsets."""
        return self.last_offset - self.first_offset + 1

    @property
    def shared(self) -> InFlightState:
        """Return the state of all its records. Raises BrokenInvariant once it is split."""
        if self._shared is None:
            raise BrokenInvariant("the batch is split")
        return self._shared

    def split(self) -> dict[int, InFlightState]:
        """Give each record its own state, equal to the shared one; return them."""
        if self.offsets is None:
            shared = self.shared
            self.offsets = {
                offset: shared.copy() for offset in range(self.first_offset, self.last_offset + 1)
            }
            self._shared = None
        return self.offsets

    def split_at(self, last_acquired: int) -> None:
        """Split a batch just acquired, of which only the beginning was wanted: the rest was not delivered."""
        delivery_count = self.shared.delivery_count - 1
        states = self.split()
        for offset in range(last_acquired + 1, self.last_offset + 1):
            states[offset] = InFlightState(RecordState.AVAILABLE, delivery_count)

    def lies_in(self, first: int, last: int) -> bool:
        """Whether all its offsets are among these."""
        return first <= self.first_offset and self.last_offset <= last

    def contains_after_first(self, offset: int) -> bool:
        """Whether the offset lies in the batch and is not its first."""
        return self.first_offset < offset <= self.last_offset

    def states(self) -> Iterator[tuple[int, int, InFlightState]]:
        """Yield first offset, last offset and state of each part that has one state."""
        if self.offsets is None:
            yield self.first_offset, self.last_offset, self.shared
        else:
            for offset, state in self.offsets.items():
                yield offset, offset, state

    def state_at(self, offset: int) -> InFlightState:
        """Return the state of a record; beyond the last offset that of the last record."""
        return self.shared if self.offsets is None else self.offsets[min(offset, self.last_offset)]


def _first_offset(batch: InFlightBatch) -> int:
    return batch.first_offset


class InFlightBatches:
    """Batches in the order of their first offsets."""

    def __init__(self) -> None:
        self._batches: list[InFlightBatch] = []

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def first(self) -> InFlightBatch:
        """Return the first of them; there has to be one."""
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        """Return the last of them; there has to be one."""
        return self._batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        """Insert a batch at its place."""
        at = bisect_left(self._batches, batch.first_offset, key=_first_offset)
        self._batches.insert(at, batch)

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the batch that begins last at or before this offset; it may end before it."""
        at = bisect_right(self._batches, offset, key=_first_offset)
        return self._batches[at - 1] if at else None

    def after(self, offset: int) -> InFlightBatch:
        """Return the batch that begins first after this offset; there has to be one."""
        return self._batches[bisect_right(self._batches, offset, key=_first_offset)]

    def between(self, first: int, last: int) -> Sequence[InFlightBatch]:
        """Return the batches that begin at these offsets or between them."""
        return self._batches[
            bisect_left(self._batches, first, key=_first_offset) : bisect_right(
                self._batches, last, key=_first_offset
            )
        ]

    def remove_before(self, offset: int) -> None:
        """Remove the batches that begin before this offset."""
        del self._batches[: bisect_left(self._batches, offset, key=_first_offset)]

    def clear(self) -> None:
        """Remove all of them."""
        self._batches.clear()
