"""The records of one share partition that are in flight: which are acquired, by whom, until when (KIP-932).

Theory of operation. A :class:`~coordinator.share_partitions.window.InFlightWindow` has the batches between the start
and the end offset. Three things change it: an acquisition (:mod:`~coordinator.share_partitions.acquisition`), an
acknowledgement (:mod:`~coordinator.share_partitions.acknowledging`) and a release, here. What is acquired is known to
this process only; what leaves that state is persisted, in a transition that is committed or rolled back. Batches whose
records differ are split, and never joined again.
"""

from collections.abc import Callable, Sequence

from coordinator.errors import RequestRefused
from coordinator.share_partitions.acknowledgements import AcknowledgementBatch
from coordinator.share_partitions.acknowledging import Acknowledging
from coordinator.share_partitions.acquired import AcquiredRecords, AcquireMode
from coordinator.share_partitions.acquisition import AcquireRequest, Acquisition
from coordinator.share_partitions.fetched import FetchedBatch
from coordinator.share_partitions.in_flight_state import InFlightState
from coordinator.share_partitions.record_state import RecordState
from coordinator.share_partitions.settings import ShareSettings
from coordinator.share_partitions.state_write import StateWrite
from coordinator.share_partitions.transition import Transition, commit, roll_back
from coordinator.share_partitions.window import InFlightWindow
from protocol_codecs.records import ShareStateBatch


class InFlightRecords:
    """What the leader of a partition knows of one share group's records in it.

    It awaits nothing and knows no clock: ``now_ms`` is any clock in milliseconds that does not go back. Whatever
    returns a :class:`StateWrite` wants it persisted, and to be told how that went. After every call that may have
    released records (all but :meth:`acquire`) fetches that wait can be tried again. Call :meth:`expire_locks` before
    anything else at a time that :meth:`next_deadline_ms` has named: a lock that has ended holds until then.
    """

    def __init__(
        self, settings: ShareSettings, start_offset: int, batches: Sequence[ShareStateBatch] = ()
    ) -> None:
        """Begin with the state that the share coordinator has.

        If it has no start offset, the caller chooses one by ``share.auto.offset.reset``. Raises BrokenInvariant if
        batches begin before the start offset or end before they begin, and ValueError for an unknown delivery state.
        """
        self.settings = settings
        """May be replaced at any time; locks that exist keep their deadlines."""
        self._window = InFlightWindow(start_offset, batches)

    @property
    def start_offset(self) -> int:
        """Return the share partition start offset (SPSO): everything before it is done with."""
        return self._window.start_offset

    @property
    def end_offset(self) -> int:
        """Return the share partition end offset (SPEO): the last offset in flight; the start offset if none is."""
        return self._window.end_offset

    @property
    def delivery_complete_count(self) -> int:
        """Return how many records in flight are acknowledged or archived (KIP-1226)."""
        return self._window.delivery_complete_count

    def next_fetch_offset(self) -> int:
        """Return where to read next: the first record that can be acquired, or what follows the end offset."""
        return self._window.next_fetch_offset()

    def can_acquire(self) -> bool:
        """Whether reading makes sense: fewer records than allowed are in flight, or some of them are available."""
        is_behind_end = self._window.next_fetch_offset() != self._window.end_offset + 1
        return is_behind_end or self._window.count < self.settings.max_record_locks

    def acquire(
        self,
        member_id: str,
        fetched: Sequence[FetchedBatch],
        *,
        fetch_offset: int,
        max_records: int,
        batch_size: int,
        now_ms: int,
        mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
    ) -> tuple[AcquiredRecords, ...]:
        """Lock records among those read from the log for a member, and return which, in order of offsets.

        ``fetch_offset`` is what :meth:`next_fetch_offset` returned before the log was read; ``max_records`` is the
        request's without what other partitions took already; ``batch_size`` is where new batches are split.
        Nothing is persisted.
        """
        if not fetched or max_records <= 0:
            return ()
        deadline_ms = now_ms + self.settings.record_lock_duration_ms
        request = AcquireRequest(member_id, mode, max_records, batch_size, fetch_offset, deadline_ms)
        return Acquisition(self._window, self.settings, request, fetched).run()

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch], now_ms: int
    ) -> StateWrite | None:
        """Apply acknowledgements; return what to persist, None if that is nothing.

        Offsets below the start offset are skipped. It is all or nothing, except that locks renewed before an error
        stay renewed. The batches have passed :func:`check_acknowledgements`. Raises RequestRefused with
        INVALID_RECORD_STATE (not acquired, not by this member, or in transition; renewing is not enabled) and
        INVALID_REQUEST (offsets after all that were acquired; an unknown type).
        """
        transition = self._transition()
        acknowledging = Acknowledging(self._window, self.settings, transition, member_id, now_ms)
        try:
            for batch in batches:
                acknowledging.apply(batch)
        except RequestRefused:
            begun = transition.write()
            if begun is not None:
                roll_back(self._window, begun, now_ms)
            raise
        return transition.write()

    def release(self, member_id: str) -> StateWrite | None:
        """Release all that a member has acquired, when its share session ends; return what to persist.

        Records that were delivered as often as the limit says are archived, as are those below the start offset.
        Those in transition are left to it.
        """
        transition = self._transition()
        self._let_go(
            lambda state: state.state is RecordState.ACQUIRED and state.member_id == member_id,
            transition.begin,
        )
        return transition.write()

    def expire_locks(self, now_ms: int) -> StateWrite | None:
        """Release records whose locks have ended, as :meth:`release` does; return what to persist.

        They are released at once and stay so, whatever becomes of the write. (Kafka writes once for each lock.)
        """
        transition = self._transition()
        self._let_go(lambda state: state.has_expired(now_ms), transition.release)
        return transition.write()

    def next_deadline_ms(self) -> int | None:
        """Return when :meth:`expire_locks` has something to do; None while nothing is acquired."""
        return min(
            (
                state.deadline_ms
                for batch in self._window.batches
                for _, _, state in batch.states()
                if state.state is RecordState.ACQUIRED and state.deadline_ms is not None
            ),
            default=None,
        )

    def written(self, write: StateWrite) -> None:
        """Finish transitions whose state is persisted; the start offset moves over records that are done with."""
        commit(self._window, write)

    def write_failed(self, write: StateWrite, now_ms: int) -> None:
        """Undo transitions; records whose locks have ended meanwhile become available (or are archived)."""
        roll_back(self._window, write, now_ms)

    def move_log_start(self, log_start_offset: int) -> None:
        """Archive what is available below the log's new start offset, and begin there.

        The caller does this when reading at :meth:`next_fetch_offset` is out of range. Nothing is persisted now: the
        start offset goes along with the next write. Records that are acquired stay so until their locks end.
        """
        self._window.move_log_start(log_start_offset)

    def _transition(self) -> Transition:
        return Transition(self._window, self.settings.delivery_count_limit)

    def _let_go(
        self,
        is_meant: Callable[[InFlightState], bool],
        move: Callable[[int, int, InFlightState, RecordState], None],
    ) -> None:
        """Release the records whose state is meant, or archive them if the log may have dropped them."""
        start_offset = self._window.start_offset
        for batch in self._window.batches:
            if batch.offsets is None and batch.contains_after_first(start_offset) and is_meant(batch.shared):
                batch.split()
            for first, last, state in batch.states():
                if is_meant(state):
                    is_gone = last < start_offset
                    move(first, last, state, RecordState.ARCHIVED if is_gone else RecordState.AVAILABLE)
