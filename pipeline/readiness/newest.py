"""Drops superseded records inside a task, before anything is shuffled or decoded. Arrow only, no Spark.

What one task has seen need not be all of a key's records, so what is left still has to be compared: this is a combiner,
of which Spark's aggregation is the reducer. A task that sees each key once or twice leaves most records.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ENOUGH_ROWS = 50_000
_ROWS_A_BATCH = 5_000
MOST_BYTES = 64 << 20
"""What is kept of one task. With more keys than that, the rest is left to the aggregation."""


class Newest:
    """Keeps the record with the highest offset of each key, of batches with ``partition``, ``offset`` and ``key``.

    A key costs its newest record's bytes; ``most_bytes`` bounds them.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: list[pa.RecordBatch] = []
        self._kept_rows = 0
        self._new: list[pa.RecordBatch] = []
        self._new_rows = self._new_bytes = 0

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch, and yield records that there is no room for."""
        self._new.append(batch)
        self._new_rows += batch.num_rows
        self._new_bytes += batch.nbytes
        if self._new_rows >= max(_ENOUGH_ROWS, self._kept_rows) or self._new_bytes >= self._most_bytes:
            self._drop_superseded()
            if sum(one.nbytes for one in self._kept) > self._most_bytes:
                yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the newest records of all that was taken since the last time."""
        if self._new:
            self._drop_superseded()
        yield from self._kept
        self._kept, self._kept_rows = [], 0

    def _drop_superseded(self) -> None:
        """Replace all that is here by the newest of each key."""
        table = pa.Table.from_batches([*self._kept, *self._new]).combine_chunks()
        rows = newest_rows(table)
        self._kept = table.take(pa.array(rows)).to_batches(max_chunksize=_ROWS_A_BATCH)
        self._kept_rows = len(rows)
        self._new, self._new_rows, self._new_bytes = [], 0, 0


def newest_rows(table: pa.Table) -> "NDArray[np.int64]":
    """Return the rows with the highest offset of each partition and key, in the order of the table."""
    partition = table["partition"].to_numpy()
    key = table["key"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    its_partition = np.zeros(len(key), np.int64)
    its_partition[key] = partition
    if (its_partition[key] != partition).any():  # the same key in another partition is another key
        key = np.unique(key << 32 | partition, return_inverse=True)[1]
    offset = table["offset"].to_numpy()
    last = np.full(int(key.max(initial=-1)) + 1, -1)
    last[key] = np.arange(len(key))  # of several rows of a key, the last assignment stays
    if (
        offset[last[key]] < offset
    ).any():  # as a partition is read, the last one has the highest offset; but not here
        by_offset = np.argsort(offset, kind="stable")
        last[key[by_offset]] = by_offset
    return np.sort(last[last >= 0])
