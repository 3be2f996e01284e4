"""Plays a script on the cores: sessions, records in flight and the share coordinator's state, with a log of batches.

It answers as Kafka's request handlers do, in the same order of things.
"""

from collections.abc import Iterable, Mapping

from coordinator.errors import RequestRefused
from coordinator.share_partitions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    AcknowledgementBatch,
    AcquiredRecords,
    AcquireMode,
    ClosedSession,
    FetchedBatch,
    InFlightRecords,
    SessionFetch,
    SessionPartition,
    ShareSessions,
    ShareSettings,
    StateWrite,
    check_acknowledgements,
    count_of,
)
from coordinator.share_state import SharePartition, ShareState
from protocol_codecs import ErrorCode, Uuid
from tests.coordinator.share_partitions.play.steps import (
    NEXT,
    Acknowledge,
    Acknowledgements,
    Answer,
    DeleteRecords,
    Disconnect,
    Fetch,
    Gather,
    Produce,
    Script,
    Settings,
    Step,
)

TOPIC = Uuid(b"t" * 16)
GROUP = "g"
WARM = "warm"
PARTITIONS = (0, 1)


class CorePlayer:
    """One group, one topic with two partitions; time passes only while locks end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = ShareSettings(
            delivery_count_limit=settings.delivery_count_limit,
            record_lock_duration_ms=settings.lock_ms,
            renew_enabled=settings.renew_enabled,
            max_record_locks=settings.max_record_locks,
        )
        self._now_ms = 0
        self._logs: dict[int, list[FetchedBatch]] = {number: [] for number in PARTITIONS}
        self._log_starts = dict.fromkeys(PARTITIONS, 0)
        self._log_ends = dict.fromkeys(PARTITIONS, 0)
        self._state = ShareState()
        self._state.initialize(dict.fromkeys(map(_key, PARTITIONS), -1), 1, 0)
        self._sessions = ShareSessions()
        self._records: dict[int, InFlightRecords] = {}
        self._epochs: dict[str, int] = {}
        self._fetch(Fetch(WARM, 0, add=PARTITIONS))

    def play(self, script: Script) -> list[Answer]:
        return [self._step(step) for step in script.steps]

    def _step(self, step: Step) -> Answer:
        if isinstance(step, Produce):
            for size in step.sizes:
                self._produce(step.partition, size)
            return {}
        if isinstance(step, Fetch):
            return self._fetch(step)
        if isinstance(step, Acknowledge):
            return self._acknowledge(step)
        if isinstance(step, Gather):
            return self._gather(step)
        if isinstance(step, Disconnect):
            return self._disconnect(step)
        return self._delete_records(step)

    def _produce(self, partition: int, size: int) -> None:
        first = self._log_ends[partition]
        self._log_ends[partition] += size
        self._logs[partition].append(FetchedBatch(first, first + size - 1))

    def _delete_records(self, step: DeleteRecords) -> Answer:
        self._log_starts[step.partition] = step.offset
        log = self._logs[step.partition]
        self._logs[step.partition] = [batch for batch in log if batch.last_offset >= step.offset]
        return {}

    def _fetch(self, step: Fetch) -> Answer:
        try:
            fetch = self._sessions.fetch(
                GROUP,
                step.member,
                self._epoch(step.member, step.epoch),
                connection=step.connection or step.member,
                partitions=[
                    _in_session(number) for number in {**dict.fromkeys(step.add), **step.acknowledge}
                ],
                forgotten=[_in_session(number) for number in step.forget],
                has_acknowledgements=any(step.acknowledge.values()),
            )
        except RequestRefused as refused:
            return {"error": refused.code.name}
        acknowledged: Mapping[int, ErrorCode] = {}
        if any(step.acknowledge.values()):
            acknowledged = self._apply(step, step.named)
        acquired = self._acquire(step, fetch)
        answers: dict[int, Answer] = {}
        for partition in PARTITIONS:
            if partition in acquired and fetch.names(
                _in_session(partition), has_records=bool(acquired[partition]), has_error=False
            ):
                answers[partition] = _partition(
                    acquired[partition], self._bytes(partition, acquired[partition])
                )
        for partition, code in acknowledged.items():
            answers.setdefault(partition, _partition((), []))["acknowledge"] = code.name
        if self._last_epoch == FINAL_EPOCH:
            self._close(step.member)
        return {"error": "NONE", "partitions": {str(number): answers[number] for number in sorted(answers)}}

    def _acquire(self, step: Fetch, fetch: SessionFetch) -> dict[int, tuple[AcquiredRecords, ...]]:
        if (step.is_renew_ack and step.version > 1) or not step.max_records:
            return {}
        offsets: dict[int, int] = {}
        for one in fetch.partitions:
            records = self._loaded(one.partition)
            if records.can_acquire():
                offsets[one.partition] = records.next_fetch_offset()
        result: dict[int, tuple[AcquiredRecords, ...]] = {}
        left = step.max_records
        for number, offset in offsets.items():
            result[number] = ()
            if offset < self._log_starts[number]:
                self._records[number].move_log_start(self._log_starts[number])
                continue
            result[number] = self._records[number].acquire(
                step.member,
                [batch for batch in self._logs[number] if batch.last_offset >= offset],
                fetch_offset=offset,
                max_records=left,
                batch_size=step.batch_size,
                now_ms=self._now_ms,
                mode=AcquireMode(step.exactly),
            )
            left -= count_of(result[number])
        return result

    def _bytes(self, partition: int, acquired: tuple[AcquiredRecords, ...]) -> list[list[int]]:
        """Return the batches that the answer has: those with acquired records, and those between."""
        if not acquired:
            return []
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        return [
            [batch.base_offset, batch.last_offset]
            for batch in self._logs[partition]
            if batch.last_offset >= first and batch.base_offset <= last
        ]

    def _acknowledge(self, step: Acknowledge) -> Answer:
        try:
            self._sessions.acknowledge(GROUP, step.member, self._epoch(step.member, step.epoch))
        except RequestRefused as refused:
            return {"error": refused.code.name}
        codes = self._apply(step, step.acknowledge)
        if self._last_epoch == FINAL_EPOCH:
            self._close(step.member)
        return {"error": "NONE", "partitions": {str(number): codes[number].name for number in sorted(codes)}}

    def _apply(self, step: Fetch | Acknowledge, named: Acknowledgements) -> dict[int, ErrorCode]:
        codes: dict[int, ErrorCode] = {}
        empty: list[int] = []
        did_any = False
        for number, given in named.items():
            batches = [AcknowledgementBatch(first, last, tuple(types)) for first, last, types in given]
            try:
                check_acknowledgements(batches, can_renew=step.version > 1, is_renew_ack=step.is_renew_ack)
                if not batches:
                    empty.append(number)
                    continue
                did_any = True
                if number not in self._records:
                    raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                self._write(number, self._records[number].acknowledge(step.member, batches, self._now_ms))
                codes[number] = ErrorCode.NONE
            except RequestRefused as refused:
                codes[number] = refused.code
        if did_any:
            codes.update(dict.fromkeys(empty, ErrorCode.NONE))
        return codes

    def _gather(self, step: Gather) -> Answer:
        for number, records in self._records.items():
            while (deadline_ms := records.next_deadline_ms()) is not None:
                self._now_ms = max(self._now_ms, deadline_ms)
                self._write(number, records.expire_locks(self._now_ms))
        counts: dict[str, list[list[int]]] = {}
        left = step.count
        while left > 0:
            answer = self._fetch(Fetch(step.member))
            found = records_in(answer)
            assert found, f"{step} leaves {left}"
            left -= add_counts(counts, answer)
        return {"gathered": {number: sorted(counts[number]) for number in sorted(counts)}}

    def _disconnect(self, step: Disconnect) -> Answer:
        ended = self._sessions.disconnected(step.connection)
        if ended is not None:
            self._release(ended)
            if ended.is_group_empty:
                self._records.clear()
        return {}

    def _close(self, member: str) -> None:
        closed = self._sessions.close(GROUP, member)
        assert closed is not None
        self._release(closed)

    def _release(self, session: ClosedSession) -> None:
        for one in session.partitions:
            if one.partition in self._records:
                self._write(one.partition, self._records[one.partition].release(session.member_id))

    def _loaded(self, number: int) -> InFlightRecords:
        if number not in self._records:
            known = self._state.read(_key(number), 0, self._now_ms)
            start = self._log_starts[number] if known.start_offset == -1 else known.start_offset
            self._records[number] = InFlightRecords(self._settings, start, known.batches)
        return self._records[number]

    def _write(self, number: int, write: StateWrite | None) -> None:
        if write is None:
            return
        self._state.write(
            _key(number),
            state_epoch=1,
            leader_epoch=0,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
            batches=write.batches,
            now_ms=self._now_ms,
        )
        self._records[number].written(write)

    def _epoch(self, member: str, epoch: int) -> int:
        """Return the epoch to send, and remember what comes after it."""
        self._last_epoch = epoch_of(self._epochs, member, epoch)
        return self._last_epoch


def epoch_of(epochs: dict[str, int], member: str, epoch: int) -> int:
    """Return the epoch to send, and remember the next one; an epoch that a script names need not be accepted."""
    if epoch == NEXT:
        epoch = epochs.get(member, 0)
        epochs[member] = epoch + 1
    elif epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
        epochs[member] = epoch + 1
    return epoch


def records_in(answer: Answer) -> int:
    """Return how many records an answer has acquired."""
    return add_counts({}, answer)


def add_counts(counts: dict[str, list[list[int]]], answer: Answer) -> int:
    """Add offset and delivery count of all that an answer has acquired, by partition; return how many that is."""
    found = [
        (number, offset, count)
        for number, partition in answer.get("partitions", {}).items()
        for first, last, count in partition["acquired"]
        for offset in range(first, last + 1)
    ]
    for number, offset, count in found:
        counts.setdefault(number, []).append([offset, count])
    return len(found)


def _partition(acquired: Iterable[AcquiredRecords], batches: list[list[int]]) -> Answer:
    return {
        "error": "NONE",
        "acknowledge": "NONE",
        "acquired": [[one.first_offset, one.last_offset, one.delivery_count] for one in acquired],
        "batches": batches,
    }


def _in_session(number: int) -> SessionPartition:
    return SessionPartition(TOPIC, number)


def _key(number: int) -> SharePartition:
    return SharePartition(GROUP, TOPIC, number)
