"""The log's end may be torn or damaged: that is found, said, cut off, and everything before it is kept."""

from pathlib import Path

import pytest
import structlog.testing

from coordinator.broker import EmbeddedCluster, serve
from coordinator.errors import CorruptLog
from coordinator.group_coordinator import GroupCoordinator
from coordinator.log import FileLog, MemoryLog, read_batches
from coordinator.log.batches import COMMIT_MARKER
from coordinator.snapshot import persistent
from coordinator.uuids import SeededUuids
from protocol_codecs import records as r
from protocol_codecs.records import CoordinatorRecord, Record, RecordBatch, encode_batch
from tests.coordinator.core_backend import CONFIG, CoreBackend
from tests.coordinator.script import Script


def some_batches() -> list[bytes]:
    """The log of a short life: a few changes of several records each."""
    backend = CoreBackend()
    script = Script(backend, "log")
    script.topic("foo", 2)
    script.configure(interval=0)
    a, b = script.member("A"), script.member("B")
    a.join()
    b.join()
    a.settle()
    a.commit({"foo": {0: 7}})
    b.leave()
    return backend.log.batches


BATCHES = some_batches()
CONTENT = b"".join(BATCHES)
ENDS = [sum(len(batch) for batch in BATCHES[:number]) for number in range(len(BATCHES) + 1)]
"""Where batches end, in bytes."""
LAST = range(ENDS[-2], ENDS[-1])
"""Where the bytes of the last batch are."""
LEADER_EPOCH = range(ENDS[-2] + 12, ENDS[-2] + 16)
"""The only field that neither the checksum covers nor anything else checks."""
FIRST = CONTENT[: ENDS[3]]
"""Three batches, where every byte is tried."""


def whole_batches(length: int) -> int:
    """How many batches are whole in the first ``length`` bytes."""
    return sum(end <= length for end in ENDS) - 1


def state_after(batches: int) -> object:
    coordinator = GroupCoordinator(CONFIG, uuids=SeededUuids(1), log=MemoryLog(BATCHES[:batches]))
    coordinator.load(0)
    return persistent(coordinator)


def state_of(path: Path) -> object:
    with FileLog(path) as log:
        coordinator = GroupCoordinator(CONFIG, uuids=SeededUuids(1), log=log)
        coordinator.load(0)
        return persistent(coordinator)


def test_a_whole_log_is_read():
    changes = [change for _, change in read_batches(CONTENT, "log")]

    assert len(changes) == len(BATCHES) > 5
    assert sum(len(change.records) for change in changes) > len(changes)


def test_a_log_torn_at_any_byte_is_kept_up_to_its_last_whole_batch(tmp_path: Path):
    path = tmp_path / "torn.log"
    for length in range(len(FIRST)):
        path.write_bytes(CONTENT[:length])
        kept = whole_batches(length)

        with FileLog(path) as log:
            assert sum(1 for _ in log.read()) == kept
            if length in ENDS:
                assert log.damage is None
            else:
                assert log.damage is not None
                assert log.damage.position == ENDS[kept]
                assert log.damage.offset == log.next_offset
        assert path.read_bytes() == CONTENT[: ENDS[kept]]


@pytest.mark.parametrize("batches", range(len(BATCHES)))
def test_groups_are_those_of_the_whole_batches(tmp_path: Path, batches: int):
    path = tmp_path / "torn.log"
    path.write_bytes(CONTENT[: ENDS[batches + 1] - 1])

    assert state_of(path) == state_after(batches)


def test_a_flipped_bit_anywhere_is_found(tmp_path: Path):
    path = tmp_path / "flipped.log"
    unchecked = 0
    for position in range(len(FIRST)):
        content = bytearray(FIRST)
        content[position] ^= 0x10
        path.write_bytes(content)
        with FileLog(path) as log:
            if log.damage is None:
                unchecked += 1
            else:
                assert log.damage.position == ENDS[whole_batches(position)]
    # The leader epoch is the only field outside the checksum that nothing else checks.
    assert unchecked == 3 * 4


@pytest.mark.parametrize("bit", range(8))
def test_any_bit_of_the_last_batch(tmp_path: Path, bit: int):
    path = tmp_path / "flipped.log"
    for position in LAST:
        content = bytearray(CONTENT)
        content[position] ^= 1 << bit
        path.write_bytes(content)
        memory = MemoryLog([bytes(content)])
        with FileLog(path) as file:
            for log in (memory, file):
                if position in LEADER_EPOCH:
                    assert log.damage is None
                    continue
                assert log.damage is not None
                assert (log.damage.position, log.damage.offset) == (ENDS[-2], log.next_offset)
                assert sum(1 for _ in log.read()) == len(BATCHES) - 1


def test_a_log_in_memory_that_is_torn_at_any_byte_of_its_last_batch_goes_on():
    for end in LAST:
        log = MemoryLog([*BATCHES[:-1], CONTENT[ENDS[-2] : end]])
        coordinator = GroupCoordinator(CONFIG, uuids=SeededUuids(1), log=log)
        coordinator.load(0)
        assert (log.damage is None) == (end == ENDS[-2])
        assert persistent(coordinator) == state_after(len(BATCHES) - 1)

        log.append([offset_record(5)], 1)

        *_, last = MemoryLog(log.batches).read()
        assert last.records == (offset_record(5),)


def test_what_was_cut_off_is_kept_beside(tmp_path: Path):
    path = tmp_path / "groups.log"
    path.write_bytes(CONTENT[:-3])

    with FileLog(path) as log:
        assert str(log.damage) == (
            f"groups.log: corrupt from offset {log.next_offset} on (byte {ENDS[-2]}): "
            f"a batch of {len(BATCHES[-1])} bytes, {len(BATCHES[-1]) - 3} left"
        )

    assert (tmp_path / "groups.log.damaged").read_bytes() == BATCHES[-1][:-3]


def test_a_cut_log_goes_on(tmp_path: Path):
    path = tmp_path / "groups.log"
    path.write_bytes(CONTENT[:-3])
    with FileLog(path) as log:
        coordinator = GroupCoordinator(CONFIG, uuids=SeededUuids(1), log=log)
        coordinator.load(0)
        log.append([offset_record(5)], 1)

    with FileLog(path) as log:
        assert log.damage is None
        *_, last = log.read()
        assert last.records == (offset_record(5),)


def test_damage_while_it_runs_is_an_error(tmp_path: Path):
    path = tmp_path / "groups.log"
    path.write_bytes(CONTENT)
    with FileLog(path) as log:
        path.write_bytes(CONTENT[:-1])
        with pytest.raises(CorruptLog):
            list(log.read())


def test_a_sound_batch_of_nonsense_is_damage_too():
    nonsense = encode_batch(RecordBatch((Record(b"\0\3\7", b"\0\0"),), base_offset=0))

    with pytest.raises(CorruptLog) as caught:
        list(read_batches(nonsense, "log"))

    assert (caught.value.position, caught.value.offset) == (0, 0)


def test_records_of_other_coordinators_are_skipped():
    streams_group = encode_batch(RecordBatch((Record(b"\0\x11\7", b"\0\0"),), base_offset=0))

    assert [change.records for _, change in read_batches(streams_group, "log")] == [()]


def test_a_transaction_counts_when_its_marker_is_there(tmp_path: Path):
    with FileLog(tmp_path / "txn.log") as log:
        log.append([offset_record(5)], 1, producer_id=9)
        log.append([offset_record(6)], 1, producer_id=10)
        log.append_marker(9, COMMIT_MARKER, 2)
        coordinator = GroupCoordinator(CONFIG, uuids=SeededUuids(1), log=log)
        coordinator.load(0)

    offset = coordinator.shard.offsets.get("g", "foo", 0)
    assert offset is not None
    assert offset.offset == 5
    assert list(coordinator.shard.pending_offsets) == [10]


async def test_a_cluster_says_what_is_damaged_and_starts(tmp_path: Path):
    (tmp_path / "__consumer_offsets-0.log").write_bytes(CONTENT[:-3])

    with structlog.testing.capture_logs() as logged:
        async with serve(EmbeddedCluster(shards=1, log_directory=tmp_path)) as cluster:
            assert [damage.position for damage in cluster.log_damage] == [ENDS[-2]]
            assert "log-group" in cluster.shards[0].coordinator.shard.groups

    assert [(line["log"], line["position"]) for line in logged] == [("__consumer_offsets-0.log", ENDS[-2])]


def offset_record(offset: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        r.OffsetCommitKey(group="g", topic="foo", partition=0),
        r.OffsetCommitValue(offset=offset, leader_epoch=-1, metadata="", commit_timestamp=0),
    )
