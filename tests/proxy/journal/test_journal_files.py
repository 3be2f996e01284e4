"""The journal's files: when they are finished, what a full disk costs, and how much of them is kept."""

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.journal.journal import JournalError
from tests.proxy.journal.journal_writer import IDENTITY, Time, line, names, seqs, sink
from tests.skips import not_here


async def test_a_file_has_its_own_name_when_it_is_finished(tmp_path):
    clock = Time()
    files = sink(tmp_path / "j", clock)
    await files.write([line(1)])
    assert names(tmp_path / "j") == ["_host-0.b1.1.jsonl"]
    clock.now = 61
    await files.idle()
    assert names(tmp_path / "j") == ["host-0.b1.1.jsonl"]
    await files.write([line(2)])
    assert names(tmp_path / "j") == ["_host-0.b1.2.jsonl", "host-0.b1.1.jsonl"]
    await files.close()
    assert names(tmp_path / "j") == ["host-0.b1.1.jsonl", "host-0.b1.2.jsonl"]
    assert seqs(tmp_path / "j") == [1, 2]


async def test_a_large_file_is_finished(tmp_path):
    files = sink(tmp_path)
    for seq in range(60):
        await files.write([line(seq)])
    assert all(path.stat().st_size < 10_600 for path in tmp_path.iterdir())
    await files.close()
    assert len(names(tmp_path)) > 1
    assert sorted(seqs(tmp_path)) == list(range(60))


async def test_what_a_killed_process_left_is_finished_and_others_are_left_alone(tmp_path):
    for name in ("_host-0.b0.3.jsonl", "_host-1.b0.1.jsonl", "_host-0.b.b0.1.jsonl", "_x.jsonl"):
        (tmp_path / name).write_text("x")
    await sink(tmp_path).idle()
    assert names(tmp_path) == ["_host-0.b.b0.1.jsonl", "_host-1.b0.1.jsonl", "_x.jsonl", "host-0.b0.3.jsonl"]


async def test_a_file_that_another_process_of_the_same_name_is_writing_is_left_alone(tmp_path):
    """Two proxies on one host: the second start must not take the first one's file for what a killed one left."""
    first, second = sink(tmp_path), sink(tmp_path, boot="b2")
    await first.write([line(1)])
    await second.idle()
    assert names(tmp_path) == ["_host-0.b1.1.jsonl"]
    await first.close()
    assert names(tmp_path) == ["host-0.b1.1.jsonl"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with room for 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        not_here("only root can mount a small file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "journal-test", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        not_here(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


async def test_a_full_disk_costs_events_and_no_line_is_cut_off(small_disk):
    files = sink(small_disk / "j", max_bytes=1_000_000)
    await files.write([line(1)])
    with pytest.raises(JournalError, match="No space left"):
        await files.write([line(2, "x" * 100_000)])
    await files.write([line(3)])
    await files.close()
    assert seqs(small_disk / "j") == [1, 3]


async def test_a_file_that_may_not_grow_costs_events_and_no_line_is_cut_off(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    files = sink(tmp_path, max_bytes=1_000_000)
    await files.write([line(1)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(JournalError, match="File too large"):
            await files.write([line(2, "x" * 100_000)])
        await files.write([line(3)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    await files.close()
    assert seqs(tmp_path) == [1, 3]


async def test_a_folder_that_cannot_be_is_an_error_each_time_and_works_when_it_can(tmp_path):
    (tmp_path / "j").write_text("a file where the folder should be")
    files = sink(tmp_path / "j")
    for _ in range(2):
        with pytest.raises(JournalError, match=r"File exists|Not a directory"):
            await files.write([line(1)])
    (tmp_path / "j").unlink()
    await files.write([line(2)])
    await files.close()
    assert seqs(tmp_path / "j") == [2]


async def test_the_oldest_finished_files_of_this_replica_make_room_and_are_counted(tmp_path):
    own, deleted = IDENTITY["replica"].replace("/", "-"), []
    (tmp_path / "another.boot.1.jsonl").write_bytes(b"x" * 50_000)
    (tmp_path / f"{own}.earlier.1.jsonl").write_bytes(b"x" * 50_000)
    os.utime(tmp_path / f"{own}.earlier.1.jsonl", (1, 1))
    writing = sink(tmp_path, max_bytes=100, keep_bytes=1000, deleted=lambda: deleted.append(1))
    sizes = []
    for seq in range(1, 6):
        await writing.write([line(seq, "r" * 200)])  # one file each
        sizes.append(sum(path.stat().st_size for path in tmp_path.glob(f"{own}.*")))
    await writing.close()
    left = [int(name.split(".")[-2]) for name in names(tmp_path) if name.startswith(own)]
    assert max(sizes) <= 1000
    assert left == list(range(6 - len(left), 6)), "the newest stay"
    assert left
    assert len(deleted) == 1 + 5 - len(left)
    assert "another.boot.1.jsonl" in names(tmp_path)


async def test_without_a_limit_all_files_stay(tmp_path):
    writing = sink(tmp_path, max_bytes=100, keep_bytes=0)
    for seq in range(1, 6):
        await writing.write([line(seq, "r" * 200)])
    assert len(names(tmp_path)) == 5
