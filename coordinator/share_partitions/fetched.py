"""Record batches that were read from the log for a share fetch."""

from collections.abc import Sequence

import msgspec

from coordinator.share_partitions.acquired import AcquiredRecords
from protocol_codecs.records import read_headers


class FetchedBatch(msgspec.Struct, frozen=True):
    """One record batch by the offsets that its header names, including those that compaction has removed."""

    base_offset: int
    last_offset: int


def fetched_batches(records: bytes) -> tuple[FetchedBatch, ...]:
    """Return the batches in these bytes. Raises CorruptBatch."""
    return tuple(
        FetchedBatch(header.base_offset, header.next_offset - 1) for _, header in read_headers(records)
    )


def records_of(records: bytes, acquired: Sequence[AcquiredRecords]) -> bytes:
    """Return the batches that have acquired records, and those between them; nothing if none is acquired.

    As in Kafka, a single batch is returned whether it overlaps or not. Raises CorruptBatch.
    """
    if not acquired:
        return b""
    headers = list(read_headers(records))
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    start, end = 0, len(records)
    for position, header in headers[1:]:
        if header.base_offset <= first:
            start = position
        elif header.base_offset > last:
            end = position
            break
    return records[start:end]
