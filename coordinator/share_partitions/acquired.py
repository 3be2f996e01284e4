"""Records that a fetch has acquired for its member."""

import enum
from collections.abc import Iterable

import msgspec


class AcquireMode(enum.IntEnum):
    """How exactly ``max_records`` is meant (KIP-1206). BATCH_OPTIMIZED acquires whole batches, and so may exceed it."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class AcquiredRecords(msgspec.Struct, frozen=True):
    """Offsets that are locked for the member now, and how often they have been delivered with this time."""

    first_offset: int
    last_offset: int
    delivery_count: int

    @property
    def count(self) -> int:
        """Return the number of offsets."""
        return self.last_offset - self.first_offset + 1


def count_of(acquired: Iterable[AcquiredRecords]) -> int:
    """Return the number of offsets in all of them, which a fetch takes off its limit for the next partition."""
    return sum(one.count for one in acquired)


def joined(records: Iterable[AcquiredRecords]) -> list[AcquiredRecords]:
    """Return the ranges with neighbours of the same delivery count joined."""
    result: list[AcquiredRecords] = []
    for one in records:
        before = result[-1] if result else None
        if (
            before is not None
            and before.last_offset + 1 == one.first_offset
            and before.delivery_count == one.delivery_count
        ):
            result[-1] = AcquiredRecords(before.first_offset, one.last_offset, one.delivery_count)
        else:
            result.append(one)
    return result
