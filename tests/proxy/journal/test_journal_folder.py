"""A folder that pods share: files of those that are gone are finished, and all of them keep to one limit."""

from pathlib import Path

import pytest

from proxy.journal.journal import JournalError
from tests.proxy.journal.journal_writer import Time, Writer, events, line, names, seqs, sink
from tests.proxy.journal.test_journal_files import small_disk  # noqa: F401  a fixture

LEASE_S = 60.0 + 60.0  # file_max_age_s, and the grace


def survivor(folder: Path, clock: Time, **terms):
    return sink(folder, clock, replica="pod-b", boot="b2", shared=True, **terms)


@pytest.fixture
def writer(tmp_path: Path):
    started = Writer(tmp_path, "pod-a", max_bytes=10**9, shared=True)
    yield started
    if started.is_running():
        started.kill()


async def test_the_file_of_a_killed_pod_is_finished_by_another_with_all_that_it_wrote(tmp_path, writer):
    writer.wait_written(5)
    last = writer.kill()
    clock = Time()
    other = survivor(tmp_path, clock)
    for clock.now in (0, 60, LEASE_S - 1):
        await other.idle()
        assert names(tmp_path) == ["_pod-a.b.1.jsonl"], "it may be alive"
    clock.now = LEASE_S + 30
    await other.idle()
    assert names(tmp_path) == ["pod-a.b.1.jsonl"]
    found = seqs(tmp_path)
    assert found == list(range(1, len(found) + 1))
    assert len(found) >= last


async def test_the_file_of_a_living_pod_is_left_alone_however_long_it_writes_nothing(tmp_path):
    clock, living_clock = Time(), Time()
    living = sink(tmp_path, living_clock, replica="pod-a", boot="b", shared=True)
    await living.write([line(1)])
    other = survivor(tmp_path, clock)
    for clock.now in range(0, 600, 30):
        await other.idle()
    assert names(tmp_path) == ["_pod-a.b.1.jsonl"]
    await living.close()
    assert names(tmp_path) == ["pod-a.b.1.jsonl"]


async def test_a_file_that_grows_is_left_alone_without_locks_too(tmp_path):
    left, clock = tmp_path / "_pod-a.b.1.jsonl", Time()
    left.write_text("x")
    other = survivor(tmp_path, clock)
    for clock.now in range(0, 600, 60):
        await other.idle()
        assert left.exists()
        with left.open("a") as file:
            file.write("x")
    for clock.now in range(600, 600 + int(LEASE_S) + 60, 60):
        await other.idle()
    assert names(tmp_path) == ["pod-a.b.1.jsonl"]


async def test_an_empty_file_that_was_left_is_removed(tmp_path):
    (tmp_path / "_pod-a.b.1.jsonl").touch()
    clock = Time()
    other = survivor(tmp_path, clock)
    for clock.now in (0, LEASE_S):
        await other.idle()
    assert names(tmp_path) == []


async def test_two_pods_that_finish_one_file_are_not_in_each_others_way(tmp_path, writer):
    writer.wait_written(3)
    writer.kill()
    clock = Time()
    both = survivor(tmp_path, clock), sink(tmp_path, clock, replica="pod-c", boot="b3", shared=True)
    for clock.now in (0, LEASE_S):
        for one in both:
            await one.idle()
    assert names(tmp_path) == ["pod-a.b.1.jsonl"]


async def test_a_pod_that_stood_still_and_lost_its_file_begins_another_and_loses_nothing(tmp_path):
    slow = sink(tmp_path, Time(), replica="pod-a", boot="b", shared=True)
    await slow.write([line(1)])
    (tmp_path / "_pod-a.b.1.jsonl").rename(tmp_path / "pod-a.b.1.jsonl")  # by another, without locks
    await slow.write([line(2)])
    assert names(tmp_path) == ["_pod-a.b.2.jsonl", "pod-a.b.1.jsonl"]
    (tmp_path / "_pod-a.b.2.jsonl").rename(tmp_path / "pod-a.b.2.jsonl")
    await slow.close()
    assert sorted(seqs(tmp_path)) == [1, 2]


async def test_without_shared_the_files_of_others_are_left_alone(tmp_path):
    left, clock = tmp_path / "_pod-a.b.1.jsonl", Time()
    left.write_text("x")
    alone = sink(tmp_path, clock, replica="pod-b")
    for clock.now in range(0, 600, 30):
        await alone.idle()
    assert left.exists()


def used(folder: Path) -> int:
    """Bytes of all files; one that is renamed meanwhile counts once."""
    sizes = {}
    for path in folder.glob("*.jsonl"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


def test_pods_together_keep_to_one_limit_and_one_that_is_killed_stays_counted(tmp_path):
    """Real processes: three write at once, one of them is killed, and another takes its place."""
    keep, one_file = 400_000, 20_000
    terms = {"max_bytes": one_file, "keep_bytes": keep, "shared": True}
    pods = [Writer(tmp_path, f"pod-{name}", until=2_000, **terms) for name in "abc"]
    pods[0].wait_written(500)
    pods[0].kill()
    pods[0] = Writer(tmp_path, "pod-d", until=2_000, **terms)
    most, last = 0, pods
    while running := [pod for pod in pods if pod.is_running()]:
        last = running
        most = max(most, used(tmp_path))
    for pod in pods:
        pod.wait()
    assert most <= keep + one_file, "what was measured is not of one moment: a file more may have been seen"
    assert keep - 5 * one_file <= used(tmp_path) <= keep, "nor is more deleted than has to be"
    kept = {event.replica for event in events(tmp_path, "[!_]*")}
    assert kept & {pod.replica for pod in last}, "the newest are of those that wrote longest"
    assert "pod-a" not in kept, "the oldest were those of the pod that is gone"


async def test_the_oldest_files_of_all_pods_expire_and_are_counted(tmp_path):
    deleted = []
    gone = sink(tmp_path, replica="pod-a", boot="b", max_bytes=1_000, shared=True)
    for seq in range(1, 6):
        await gone.write([line(seq, "r" * 1_000)])  # one file each
    one_file = used(tmp_path) // 5
    clock = Time()
    other = survivor(
        tmp_path, clock, max_bytes=1_000, keep_bytes=3 * one_file, deleted=lambda: deleted.append(1)
    )
    await other.idle()
    assert names(tmp_path) == [f"pod-a.b.{number}.jsonl" for number in (3, 4, 5)]
    await other.write([line(1, "r" * 1_000)])
    assert names(tmp_path) == ["pod-a.b.4.jsonl", "pod-a.b.5.jsonl", "pod-b.b2.1.jsonl"]
    assert len(deleted) == 3


async def test_on_a_full_disk_the_oldest_file_makes_room_and_no_event_is_lost(small_disk):  # noqa: F811
    deleted = []
    folder = small_disk / "j"
    files = sink(folder, shared=True, keep_bytes=10**6, deleted=lambda: deleted.append(1))
    for seq in range(1, 31):
        await files.write([line(seq, "r" * 5_000)])  # 150 KB on a disk of 64
    await files.close()
    kept = sorted(seqs(folder))
    assert kept == list(range(kept[0], 31))
    assert len(kept) > 5
    assert deleted


async def test_on_a_full_disk_with_nothing_to_delete_events_are_lost_and_the_next_are_written(small_disk):  # noqa: F811
    folder = small_disk / "j"
    files = sink(folder, shared=True, keep_bytes=10**6)
    (small_disk / "foreign").write_bytes(b"x" * 50_000)
    with pytest.raises(JournalError, match="No space left") as caught:
        await files.write([line(1, "r" * 30_000)])
    assert not caught.value.keep, "they are counted as lost, and do not hold up what comes"
    await files.write([line(2)])
    await files.close()
    assert seqs(folder) == [2]
