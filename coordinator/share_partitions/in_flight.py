"""The records of one share partition that are in flight: which are acquired, by whom, until when (KIP-932)."""

from collections.abc import Sequence

from coordinator.share_partitions.acknowledgements import AcknowledgementBatch
from coordinator.share_partitions.acquired import AcquiredRecords, AcquireMode
from coordinator.share_partitions.fetched import FetchedBatch
from coordinator.share_partitions.settings import ShareSettings
from coordinator.share_partitions.state_write import StateWrite
from protocol_codecs.records import ShareStateBatch


class InFlightRecords:
    """What the leader of a partition knows of one share group's records in it.

    It awaits nothing and knows no clock: ``now_ms`` is any clock in milliseconds that does not go back. Whatever
    returns a :class:`StateWrite` wants it persisted, and to be told how that went. After every call that may have
    released records (all but :meth:`acquire`) fetches that wait can be tried again.
    """

    settings: ShareSettings
    """May be replaced at any time; locks that exist keep their deadlines."""
    start_offset: int
    """The share partition start offset (SPSO): everything before it is done with."""
    end_offset: int
    """The share partition end offset (SPEO): the last offset that was ever acquired; the start offset before that."""
    delivery_complete_count: int
    """How many records in flight are acknowledged or archived."""

    def __init__(
        self, settings: ShareSettings, start_offset: int, batches: Sequence[ShareStateBatch] = ()
    ) -> None:
        """Begin with the state that the share coordinator has.

        If it has no start offset, the caller chooses one by ``share.auto.offset.reset``. Raises BrokenInvariant if
        batches begin before the start offset or end before they begin.
        """
        raise NotImplementedError

    def next_fetch_offset(self) -> int:
        """Return where to read next: the first record that can be acquired, or what follows the end offset."""
        raise NotImplementedError

    def can_acquire(self) -> bool:
        """Whether reading makes sense: fewer records than allowed are in flight, or some of them are available."""
        raise NotImplementedError

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
        raise NotImplementedError

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch], now_ms: int
    ) -> StateWrite | None:
        """Apply acknowledgements; return what to persist, None if that is nothing.

        Offsets below the start offset are skipped. It is all or nothing, except that locks renewed before an error
        stay renewed. Raises RequestRefused with INVALID_RECORD_STATE (not acquired, not by this member, or in
        transition; renewing is not enabled) and INVALID_REQUEST (offsets that were never acquired; an unknown type).
        """
        raise NotImplementedError

    def release(self, member_id: str) -> StateWrite | None:
        """Release all that a member has acquired, when its share session ends; return what to persist.

        Records that were delivered as often as the limit says are archived, as are those below the start offset.
        Raises RequestRefused with INVALID_RECORD_STATE if some are in transition.
        """
        raise NotImplementedError

    def expire_locks(self, now_ms: int) -> StateWrite | None:
        """Release records whose locks have ended, as :meth:`release` does; return what to persist.

        They stay released if the write fails.
        """
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        """Return when :meth:`expire_locks` has something to do; None while nothing is acquired."""
        raise NotImplementedError

    def written(self, write: StateWrite) -> None:
        """Finish transitions whose state is persisted; the start offset moves over records that are done with."""
        raise NotImplementedError

    def write_failed(self, write: StateWrite, now_ms: int) -> None:
        """Undo transitions; records whose locks have ended meanwhile become available (or are archived)."""
        raise NotImplementedError

    def move_log_start(self, log_start_offset: int) -> None:
        """Archive what is available below the log's new start offset, and begin there.

        The caller does this when reading at :meth:`next_fetch_offset` is out of range. Nothing is persisted now: the
        start offset goes along with the next write. Records that are acquired stay so until their locks end.
        """
        raise NotImplementedError
