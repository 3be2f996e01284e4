"""Transitions that are persisted together: begun one after the other, and committed or rolled back as one."""

from coordinator.share_partitions.in_flight_state import InFlightState
from coordinator.share_partitions.record_state import RecordState
from coordinator.share_partitions.state_write import StateWrite
from coordinator.share_partitions.window import InFlightWindow
from protocol_codecs.records import ShareStateBatch


class Transition:
    """Collects the transitions of one acknowledgement or release."""

    def __init__(self, window: InFlightWindow, delivery_count_limit: int) -> None:
        self._window = window
        self._limit = delivery_count_limit
        self._batches: list[ShareStateBatch] = []
        self._states: list[InFlightState] = []

    def begin(self, first: int, last: int, state: InFlightState, to: RecordState) -> None:
        """Begin the transition of records that are acquired and share this state."""
        state.begin(to, self._limit)
        self._states.append(state)
        self._note(first, last, state)

    def release(self, first: int, last: int, state: InFlightState, to: RecordState) -> None:
        """Make the transition of records at once, whatever becomes of the write."""
        state.release(to, self._limit)
        self._note(first, last, state)
        if state.state is RecordState.AVAILABLE:
            self._window.seek_available()

    def _note(self, first: int, last: int, state: InFlightState) -> None:
        self._batches.append(
            ShareStateBatch(
                first_offset=first,
                last_offset=last,
                delivery_state=int(state.state),
                delivery_count=state.delivery_count,
            )
        )
        if state.state.is_terminal:
            self._window.delivery_complete_count += self._window.count_of(first, last)

    def write(self) -> StateWrite | None:
        """Return what is to be persisted; None if that is nothing."""
        if not self._batches:
            return None
        return StateWrite(
            start_offset=self._window.start_offset,
            delivery_complete_count=self._window.delivery_complete_count,
            batches=tuple(self._batches),
            in_transition=tuple(self._states),
        )


def commit(window: InFlightWindow, write: StateWrite) -> None:
    """Finish the transitions of a write; the start offset moves if it can."""
    for state in write.in_transition:
        state.commit()
        if state.state is RecordState.AVAILABLE:
            window.seek_available()
    window.advance()


def roll_back(window: InFlightWindow, write: StateWrite, now_ms: int) -> None:
    """Undo the transitions of a write."""
    for batch, state in zip(write.batches, write.in_transition, strict=False):
        state.roll_back(now_ms)
        if state.state is RecordState.AVAILABLE:
            window.seek_available()
        if RecordState(batch.delivery_state).is_terminal and not state.state.is_terminal:
            window.delivery_complete_count -= window.count_of(batch.first_offset, batch.last_offset)
    if not write.in_transition:
        window.advance()
