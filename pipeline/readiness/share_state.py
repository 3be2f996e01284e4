"""Follows the state of one share partition through its records, as the share coordinator does when it loads them.

A snapshot is the whole state, and each update after it is merged over what was there. Where batches overlap, the higher
delivery count wins, and with equal counts the higher delivery state: no record's state ever goes back. Batches that end
before the start offset are dropped. This is Kafka 4.4's own rule (``PersisterStateBatchCombiner``).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from protocol_codecs.records import CoordinatorRecord, ShareSnapshotValue, ShareStateBatch, ShareUpdateValue

AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 2, 3, 4
"""Delivery states as the records have them. 1 would be acquired, which is never written."""
_UNCHANGED = -1

Batches = tuple[ShareStateBatch, ...]


class ShareState(NamedTuple):
    """The state of a share partition. Offsets are the partition's own."""

    state_epoch: int
    """Which reset of the start offset, or -1 if only updates are left in the log."""
    leader_epoch: int
    start_offset: int
    """The first record that is not finished; -1 if that is not known yet."""
    delivery_complete_count: int
    snapshot_time_ms: int | None
    """When the snapshot was written, milliseconds since 1970."""
    updates: int
    """How many updates came after the snapshot."""
    batches: Batches
    """In the order of their offsets, without overlaps once an update was merged."""

    def count(self, delivery_state: int, *, at_least: int = 0) -> int:
        """Return the number of records in a state that were delivered so many times."""
        return sum(
            max(batch.last_offset - batch.first_offset + 1, 0)
            for batch in self.batches
            if batch.delivery_state == delivery_state and batch.delivery_count >= at_least
        )


def state_of(records: Iterable[CoordinatorRecord]) -> ShareState | None:
    """Return the state after these records, which are in the order of the log; None if there is none (any more)."""
    state: ShareState | None = None
    for record in records:
        match record.value:
            case ShareSnapshotValue() as snapshot:
                state = ShareState(
                    snapshot.state_epoch,
                    snapshot.leader_epoch,
                    snapshot.start_offset,
                    snapshot.delivery_complete_count,
                    snapshot.write_timestamp,
                    0,
                    snapshot.state_batches,
                )
            case ShareUpdateValue() as update:
                state = _updated(state, update)
            case _:
                state = None
    return state


def _updated(state: ShareState | None, update: ShareUpdateValue) -> ShareState:
    if state is None:
        state = ShareState(
            _UNCHANGED, update.leader_epoch, update.start_offset, update.delivery_complete_count, None, 0, ()
        )
    start = state.start_offset if update.start_offset == _UNCHANGED else update.start_offset
    return state._replace(
        leader_epoch=state.leader_epoch if update.leader_epoch == _UNCHANGED else update.leader_epoch,
        start_offset=start,
        delivery_complete_count=update.delivery_complete_count,
        updates=state.updates + 1,
        batches=combined((*state.batches, *update.state_batches), start),
    )


def combined(batches: Sequence[ShareStateBatch], start_offset: int) -> Batches:
    """Return the batches from the start offset on, without overlaps; neighbours of the same state become one.

    A batch that ends before it begins, which no broker writes, is left out.
    """
    kept = [
        _cut(batch, start_offset)
        for batch in batches
        if batch.last_offset >= max(start_offset, batch.first_offset)
    ]
    if len(kept) <= 1:
        return tuple(kept)
    # Between two of these offsets no batch begins or ends.
    edges: dict[int, list[tuple[tuple[int, int], int]]] = {}
    for batch in kept:
        rank = batch.delivery_count, batch.delivery_state
        edges.setdefault(batch.first_offset, []).append((rank, +1))
        edges.setdefault(batch.last_offset + 1, []).append((rank, -1))
    open_ranks: dict[tuple[int, int], int] = {}
    found: list[ShareStateBatch] = []
    begin = 0
    for offset in sorted(edges):
        if open_ranks:
            _append(found, begin, offset - 1, max(open_ranks))
        for rank, step in edges[offset]:
            open_ranks[rank] = open_ranks.get(rank, 0) + step
        open_ranks = {rank: count for rank, count in open_ranks.items() if count}
        begin = offset
    return tuple(found)


def _cut(batch: ShareStateBatch, start_offset: int) -> ShareStateBatch:
    if batch.first_offset >= start_offset:
        return batch
    return ShareStateBatch(
        first_offset=start_offset,
        last_offset=batch.last_offset,
        delivery_state=batch.delivery_state,
        delivery_count=batch.delivery_count,
    )


def _append(found: list[ShareStateBatch], first: int, last: int, rank: tuple[int, int]) -> None:
    """Add a batch, or extend the one before it if both are the same but for their offsets."""
    delivery_count, delivery_state = rank
    before = found[-1] if found else None
    if (
        before is not None
        and before.last_offset + 1 == first
        and (before.delivery_count, before.delivery_state) == rank
    ):
        first = before.first_offset
        found.pop()
    found.append(
        ShareStateBatch(
            first_offset=first,
            last_offset=last,
            delivery_state=delivery_state,
            delivery_count=delivery_count,
        )
    )
