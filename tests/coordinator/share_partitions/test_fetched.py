"""The bytes of a fetch: its batches, and which of them an answer has."""

import pytest

from coordinator.share_partitions import AcquiredRecords, FetchedBatch, count_of, fetched_batches, records_of
from protocol_codecs.records import Record, RecordBatch, encode_batch


def a_batch(base_offset: int, size: int) -> bytes:
    records = tuple(Record(None, b"x", offset_delta=delta) for delta in range(size))
    return encode_batch(RecordBatch(records, base_offset=base_offset, base_timestamp=0))


THREE = [a_batch(0, 5), a_batch(5, 5), a_batch(12, 5)]


def test_batches_are_named_by_their_offsets():
    assert fetched_batches(b"".join(THREE)) == (FetchedBatch(0, 4), FetchedBatch(5, 9), FetchedBatch(12, 16))


@pytest.mark.parametrize(
    ("acquired", "kept"),
    [
        ([], []),
        ([(0, 4)], [0]),
        ([(0, 16)], [0, 1, 2]),
        ([(5, 9)], [1]),
        ([(3, 7)], [0, 1]),
        ([(4, 4), (12, 12)], [0, 1, 2]),
        ([(14, 16)], [2]),
        ([(9, 11)], [1]),
    ],
)
def test_an_answer_has_the_batches_with_acquired_records_and_those_between(
    acquired: list[tuple[int, int]], kept: list[int]
):
    ranges = [AcquiredRecords(first, last, 1) for first, last in acquired]

    assert records_of(b"".join(THREE), ranges) == b"".join(THREE[number] for number in kept)


def test_ranges_are_counted_by_their_offsets():
    assert count_of([AcquiredRecords(0, 4, 1), AcquiredRecords(9, 9, 2)]) == 6
