"""Files that killed pods left in a directory that they shared: read once, when another pod has finished them."""

from pathlib import Path

import pytest
import trio
from pyspark.sql import SparkSession

from pipeline.audit import job as audit
from pipeline.journal import events
from pipeline.progress import job as progress
from pipeline.progress import streams
from tests.proxy.journal.journal_writer import Time, Writer, sink

pytestmark = pytest.mark.timeout(900)

LATER = 1_000.0
"""Seconds after which a file that nobody locks counts as abandoned."""


def test_each_event_is_read_once_however_often_progress_runs_meanwhile(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, out = tmp_path / "journal", tmp_path / "progress"
    folder.mkdir()
    for replica in ("pod-a", "pod-b"):
        pod = Writer(folder, replica, until=200, stays=True, max_bytes=20_000, shared=True)
        pod.wait_written(200)  # the last file is not full: one more event would not begin another
        pod.kill()
    left = sorted(folder.glob("_*.jsonl"))
    assert [path.name.split(".")[0] for path in left] == ["_pod-a", "_pod-b"]
    written = sum(len(path.read_bytes().splitlines()) for path in folder.iterdir())
    unread = sum(len(path.read_bytes().splitlines()) for path in left)

    def read() -> int:
        progress.run(spark, progress.lines_of_files(spark, folder), out)
        windows = streams.latest(progress.windows_written(spark, str(out)))
        return sum(row["events"] for row in windows.collect())

    assert read() == written - unread, "what is not finished is not read"
    clock = Time()
    survivor = sink(folder, clock, replica="pod-c", shared=True)
    trio.run(survivor.idle)
    clock.now = LATER
    trio.run(survivor.idle)
    assert not list(folder.glob("_*"))
    assert read() == written
    assert read() == written

    summary = audit.run(spark, events.from_files(spark, folder), tmp_path / "audit")
    assert (summary.events, summary.duplicates, summary.lost) == (written, 0, 0)
    assert summary.quarantined == {}
