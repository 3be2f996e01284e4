"""The share coordinator's state machine: initialize, write, read, summarize and delete a share partition's state.

Every change is one record (types 0 and 1 of ``__share_group_state``), and the state follows from the records. A
snapshot has the whole state of a share partition; updates since then have only what changed. After
``share.coordinator.snapshot.update.records.per.snapshot`` updates the next change is written as a snapshot.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from coordinator.errors import RequestRefused
from coordinator.log.batches import RecordLog
from coordinator.share_state.batches import merged
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import (
    CoordinatorRecord,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
)
from protocol_codecs.uuids import Uuid

UNINITIALIZED_START_OFFSET = -1
"""The start offset that the first reader chooses, by ``share.auto.offset.reset``."""
UNINITIALIZED_LEADER_EPOCH = 0
UNINITIALIZED_DELIVERY_COMPLETE_COUNT = -1
DEFAULT_UPDATES_PER_SNAPSHOT = 500


class SharePartition(msgspec.Struct, frozen=True, order=True):
    """One partition as one share group reads it."""

    group_id: str
    topic_id: Uuid
    partition: int


class PartitionState(msgspec.Struct, frozen=True):
    """The state of one share partition. ``updates`` counts the updates since its snapshot."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[ShareStateBatch, ...]
    create_timestamp_ms: int
    write_timestamp_ms: int
    updates: int = 0


class ShareState:
    """The state of all share partitions; with a log it survives a restart (:meth:`load`)."""

    def __init__(
        self, log: RecordLog | None = None, *, updates_per_snapshot: int = DEFAULT_UPDATES_PER_SNAPSHOT
    ) -> None:
        self.partitions: dict[SharePartition, PartitionState] = {}
        self.log = log
        self._updates_per_snapshot = updates_per_snapshot

    def load(self) -> None:
        """Read the log. Raises CorruptLog."""
        if self.log is not None:
            for batch in self.log.read():
                for record in batch.records:
                    self._replay(record)

    def initialize(self, starts: Mapping[SharePartition, int], state_epoch: int, now_ms: int) -> bool:
        """Give share partitions a new state that begins at these offsets; return whether all of them got one.

        One that has a higher state epoch keeps its state.
        """
        fresh = {
            key: start
            for key, start in starts.items()
            if key not in self.partitions or self.partitions[key].state_epoch <= state_epoch
        }
        for key, start in fresh.items():
            before = self.partitions.get(key)
            is_known = start != UNINITIALIZED_START_OFFSET
            state = PartitionState(
                snapshot_epoch=0 if before is None else before.snapshot_epoch + 1,
                state_epoch=state_epoch,
                leader_epoch=UNINITIALIZED_LEADER_EPOCH,
                start_offset=start,
                delivery_complete_count=0 if is_known else UNINITIALIZED_DELIVERY_COMPLETE_COUNT,
                batches=(),
                create_timestamp_ms=now_ms,
                write_timestamp_ms=now_ms,
            )
            self._apply([_snapshot(key, state)], now_ms)
        return len(fresh) == len(starts)

    def read(self, key: SharePartition, leader_epoch: int, now_ms: int) -> PartitionState:
        """Return the state to the partition's leader, and keep its epoch: an older leader can write no more.

        Raises RequestRefused with INVALID_REQUEST and FENCED_LEADER_EPOCH.
        """
        state = self._state(key, leader_epoch)
        if leader_epoch > state.leader_epoch:
            self._change(key, state, msgspec.structs.replace(state, leader_epoch=leader_epoch), (), now_ms)
        return self.partitions[key]

    def summary(self, key: SharePartition) -> PartitionState | None:
        """Return the state to anybody, for descriptions; None if there is none."""
        return self.partitions.get(key)

    def write(
        self,
        key: SharePartition,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[ShareStateBatch],
        now_ms: int,
    ) -> None:
        """Change the state. A start offset below the present one moves nothing back.

        Raises RequestRefused with INVALID_REQUEST, FENCED_LEADER_EPOCH and FENCED_STATE_EPOCH.
        """
        state = self._state(key, leader_epoch)
        if state_epoch < state.state_epoch:
            raise RequestRefused(ErrorCode.FENCED_STATE_EPOCH, f"the state epoch is {state.state_epoch}")
        if start_offset == state.start_offset:
            delivery_complete_count = max(delivery_complete_count, state.delivery_complete_count)
        elif start_offset < state.start_offset:
            delivery_complete_count = state.delivery_complete_count
        changed = msgspec.structs.replace(
            state,
            start_offset=max(start_offset, state.start_offset),
            delivery_complete_count=delivery_complete_count,
        )
        self._change(key, state, changed, batches, now_ms)

    def delete(self, keys: Iterable[SharePartition], now_ms: int) -> None:
        """Delete the state of share partitions, if they have one."""
        self._apply([CoordinatorRecord(_snapshot_key(key)) for key in keys if key in self.partitions], now_ms)

    def forget_topics(self, topic_ids: Collection[Uuid], now_ms: int) -> None:
        """Delete the state of all share partitions of deleted topics."""
        self.delete([key for key in self.partitions if key.topic_id in topic_ids], now_ms)

    def _state(self, key: SharePartition, leader_epoch: int) -> PartitionState:
        state = self.partitions.get(key)
        if state is None:
            raise RequestRefused(ErrorCode.INVALID_REQUEST, "the share partition is not initialized")
        if leader_epoch < state.leader_epoch:
            raise RequestRefused(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {state.leader_epoch}")
        return state

    def _change(
        self,
        key: SharePartition,
        before: PartitionState,
        after: PartitionState,
        batches: Sequence[ShareStateBatch],
        now_ms: int,
    ) -> None:
        if before.updates >= self._updates_per_snapshot:
            whole = msgspec.structs.replace(
                after,
                snapshot_epoch=before.snapshot_epoch + 1,
                batches=merged((*before.batches, *batches), after.start_offset),
                create_timestamp_ms=now_ms,
                write_timestamp_ms=now_ms,
            )
            self._apply([_snapshot(key, whole)], now_ms)
        else:
            changed = msgspec.structs.replace(after, batches=merged(batches, after.start_offset))
            self._apply([_update(key, changed)], now_ms)

    def _apply(self, records: Sequence[CoordinatorRecord], now_ms: int) -> None:
        for record in records:
            self._replay(record)
        if records and self.log is not None:
            self.log.append(records, now_ms)

    def _replay(self, record: CoordinatorRecord) -> None:
        key, value = record.key, record.value
        if isinstance(key, ShareSnapshotKey):
            partition = SharePartition(key.group_id, key.topic_id, key.partition)
            if isinstance(value, ShareSnapshotValue):
                self.partitions[partition] = self._after_snapshot(partition, value)
            else:
                self.partitions.pop(partition, None)
        elif isinstance(key, ShareUpdateKey) and isinstance(value, ShareUpdateValue):
            partition = SharePartition(key.group_id, key.topic_id, key.partition)
            before = self.partitions.get(partition)
            if before is not None:
                self.partitions[partition] = _after_update(before, value)

    def _after_snapshot(self, key: SharePartition, value: ShareSnapshotValue) -> PartitionState:
        """Return the state of a snapshot. As in Kafka only the one that was due begins to count updates anew."""
        before = self.partitions.get(key)
        updates = 0 if before is None or before.updates >= self._updates_per_snapshot else before.updates
        return PartitionState(
            snapshot_epoch=value.snapshot_epoch,
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=value.state_batches,
            create_timestamp_ms=value.create_timestamp,
            write_timestamp_ms=value.write_timestamp,
            updates=updates,
        )


def _after_update(before: PartitionState, value: ShareUpdateValue) -> PartitionState:
    start_offset = (
        before.start_offset if value.start_offset == UNINITIALIZED_START_OFFSET else value.start_offset
    )
    return msgspec.structs.replace(
        before,
        leader_epoch=max(before.leader_epoch, value.leader_epoch),
        start_offset=start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=merged((*before.batches, *value.state_batches), start_offset),
        updates=before.updates + 1,
    )


def _snapshot_key(key: SharePartition) -> ShareSnapshotKey:
    return ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def _snapshot(key: SharePartition, state: PartitionState) -> CoordinatorRecord:
    return CoordinatorRecord(
        _snapshot_key(key),
        ShareSnapshotValue(
            snapshot_epoch=state.snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            create_timestamp=state.create_timestamp_ms,
            write_timestamp=state.write_timestamp_ms,
            state_batches=state.batches,
        ),
    )


def _update(key: SharePartition, state: PartitionState) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition),
        ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            state_batches=state.batches,
        ),
    )
