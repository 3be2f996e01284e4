"""Progress as streams: killed at any moment and started again, it ends with what one batch over all events gives."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.journal import events
from pipeline.progress import pauses, streams
from pipeline.progress.job import windows_written
from pipeline.progress.output import PAUSES, TRANSITIONS
from pipeline.quarantine import QUARANTINE
from tests.pipeline.migration import Migration, Plan

pytestmark = pytest.mark.timeout(900)


def run(journal: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "proxy.cli", "pipeline", "progress", "--journal", str(journal), "--out", str(out),
        "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.driver.memory=1g",
    ]  # fmt: skip
    with (out.parent / "progress.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def test_killed_and_started_again_equals_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    journal, out = tmp_path / "journal", tmp_path / "out"
    chance = random.Random(8)  # noqa: S311 - when to kill
    whole = tmp_path / "whole"
    Migration(Plan(5, groups=4, duplicated=0.05)).save(whole, disorder=30, per_file=120)
    files = sorted(whole.iterdir(), key=lambda file: chance.random())
    files[0].write_text(files[0].read_text() + "not an event\n")
    journal.mkdir()
    out.mkdir()

    shares = (files[::3], files[1::3], files[2::3])
    for turn, share in enumerate(shares):
        for file in share:
            file.rename(journal / file.name)
        process = run(journal, out)
        if turn < 2:
            wait_for_progress(out, process, commits=chance.randint(0, 2) + 3 * turn)
            process.send_signal(signal.SIGKILL)
            process.wait()
        else:
            assert process.wait() == 0, (tmp_path / "progress.log").read_text()[-3000:]

    unique = streams.once(events.good(events.judged(events.from_files(spark, journal))), "1 hour")
    transitions = streams.transitions(unique)
    expected = {
        "windows": streams.windows(unique, "1 minute"),
        "transitions": transitions,
        "pauses": pauses.pauses(transitions),
    }
    written = {
        "windows": streams.latest(windows_written(spark, str(out))),
        "transitions": TRANSITIONS.read(spark, str(out)),
        "pauses": PAUSES.read(spark, str(out)),
    }
    for name, rows in expected.items():
        assert sorted(map(str, written[name].collect())) == sorted(map(str, rows.collect())), name
    assert [row["reason"] for row in QUARANTINE.read(spark, str(out)).collect()] == ["not JSON"]


def wait_for_progress(out: Path, process: subprocess.Popen[bytes], commits: int) -> None:
    """Until the streams have begun, and committed so many batches together (or the process is done before)."""
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        begun = list(out.glob("_checkpoints/*/offsets/[0-9]*"))
        done = list(out.glob("_checkpoints/*/commits/[0-9]*"))
        if begun and len(done) >= commits:
            return
        time.sleep(0.02)
    assert time.monotonic() < deadline
