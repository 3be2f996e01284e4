"""The log of a partition of the embedded broker: what it stores in a file, and what it deletes."""

from pathlib import Path

import pytest

from coordinator.broker.partition_log import OffsetOutOfRange, OutOfOrderSequence, PartitionLog
from protocol_codecs.records import Record, RecordBatch, encode_batch, read_headers


def batch(count: int, *, producer_id: int = -1, sequence: int = -1) -> bytes:
    records = tuple(Record(None, b"x", offset_delta=delta) for delta in range(count))
    epoch = 0 if producer_id >= 0 else -1
    return encode_batch(
        RecordBatch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


def offsets(log: PartitionLog, start: int) -> list[int]:
    """The first offset of each batch that is read from there on."""
    return [header.base_offset for _, header in read_headers(log.read(start, 1 << 20))]


def test_a_file_has_all_when_it_is_opened_again(tmp_path: Path):
    first = PartitionLog(path=tmp_path / "log")
    first.append(batch(3) + batch(2))
    first.append(batch(1))
    first.close()
    again = PartitionLog(path=tmp_path / "log")
    assert (again.start_offset, again.next_offset) == (0, 6)
    assert again.append(batch(1)) == 6
    assert offsets(again, 0) == [0, 3, 5, 6]
    again.close()


def test_a_torn_end_is_cut_off(tmp_path: Path):
    first = PartitionLog(path=tmp_path / "log")
    first.append(batch(3) + batch(2))
    first.close()
    with (tmp_path / "log").open("r+b") as file:
        file.truncate((tmp_path / "log").stat().st_size - 1)
    again = PartitionLog(path=tmp_path / "log")
    assert again.append(batch(1)) == 3
    again.close()
    third = PartitionLog(path=tmp_path / "log")
    assert offsets(third, 0) == [0, 3]
    third.close()


def test_idempotent_producers_are_remembered(tmp_path: Path):
    first = PartitionLog(path=tmp_path / "log")
    first.append(batch(2, producer_id=7, sequence=0))
    first.close()
    again = PartitionLog(path=tmp_path / "log")
    assert again.append(batch(2, producer_id=7, sequence=0)) == 0
    with pytest.raises(OutOfOrderSequence):
        again.append(batch(1, producer_id=7, sequence=5))
    assert again.append(batch(1, producer_id=7, sequence=2)) == 2
    again.close()


def test_deleted_with_its_file(tmp_path: Path):
    log = PartitionLog(path=tmp_path / "log")
    log.append(batch(1))
    log.delete()
    assert not (tmp_path / "log").exists()


def test_records_are_deleted_up_to_an_offset():
    log = PartitionLog()
    log.append(batch(3) + batch(3))
    log.delete_before(4)
    assert log.start_offset == 4
    assert offsets(log, 4) == [3]
    with pytest.raises(OffsetOutOfRange):
        log.read(3, 100)


def test_all_records_may_be_deleted():
    log = PartitionLog()
    log.append(batch(3))
    log.delete_before(3)
    assert (log.start_offset, log.next_offset, log.read(3, 100)) == (3, 3, b"")
    assert log.append(batch(1)) == 3


def test_records_to_come_can_not_be_deleted():
    log = PartitionLog()
    log.append(batch(3))
    with pytest.raises(OffsetOutOfRange):
        log.delete_before(4)
