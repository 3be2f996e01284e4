"""Merges state batches: what is known of ranges of offsets, from older and newer records.

Where batches overlap, the one with the higher delivery count wins, and among equal counts the one with the higher
delivery state: a state moves only upwards in this order, so the order of writing does not matter.
"""

from collections.abc import Iterable
from itertools import pairwise

from protocol_codecs.records import ShareStateBatch

NO_START_OFFSET = -1


def merged(batches: Iterable[ShareStateBatch], start_offset: int) -> tuple[ShareStateBatch, ...]:
    """Return the batches without overlaps and without offsets below ``start_offset``; equal neighbours become one."""
    kept = [batch for batch in (_from(batch, start_offset) for batch in batches) if batch is not None]
    if len(kept) < 2:
        return tuple(kept)
    bounds = sorted({offset for b in kept for offset in (b.first_offset, b.last_offset + 1)})
    result: list[ShareStateBatch] = []
    by_first = sorted(kept, key=lambda batch: batch.first_offset)
    active: list[ShareStateBatch] = []
    following = iter(by_first)
    upcoming = next(following, None)
    for first, end in pairwise(bounds):
        active = [batch for batch in active if batch.last_offset >= first]
        while upcoming is not None and upcoming.first_offset <= first:
            active.append(upcoming)
            upcoming = next(following, None)
        if active:
            winner = max(active, key=lambda batch: (batch.delivery_count, batch.delivery_state))
            _add(result, first, end - 1, winner)
    return tuple(result)


def _from(batch: ShareStateBatch, start_offset: int) -> ShareStateBatch | None:
    if start_offset == NO_START_OFFSET or batch.first_offset >= start_offset:
        return batch
    return None if batch.last_offset < start_offset else _range(start_offset, batch.last_offset, batch)


def _add(result: list[ShareStateBatch], first: int, last: int, winner: ShareStateBatch) -> None:
    before = result[-1] if result else None
    if before is not None and before.last_offset + 1 == first and _kind(before) == _kind(winner):
        result[-1] = _range(before.first_offset, last, winner)
    else:
        result.append(_range(first, last, winner))


def _kind(batch: ShareStateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _range(first: int, last: int, batch: ShareStateBatch) -> ShareStateBatch:
    return ShareStateBatch(
        first_offset=first,
        last_offset=last,
        delivery_state=batch.delivery_state,
        delivery_count=batch.delivery_count,
    )
