"""Progress as streams: killed at any moment and started again, it ends with what one batch over all events gives."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.journal import events
from pipeline.progress import job, pauses, streams
from pipeline.progress.alone import alone
from pipeline.progress.job import windows_written
from pipeline.progress.output import PAUSES, TRANSITIONS
from pipeline.quarantine import QUARANTINE
from tests.pipeline.migration import START_US, Migration, Plan, S

pytestmark = pytest.mark.timeout(1_800)

SEEDS = range(8, 8 + int(os.environ.get("EPOCHGATE_PROGRESS_SEEDS", "1")))
"""Each seed kills at other moments."""
KILLS = 2
STEPS = 60
"""About so many files come into the checkpoints and tables while one share of the journal is read."""


@contextlib.contextmanager
def running(journal: Path, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command, in a process group of its own together with its JVM."""
    command = [
        sys.executable, "-m", "proxy.cli", "pipeline", "progress", "--journal", str(journal), "--out", str(out),
        "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.driver.memory=1g",
    ]  # fmt: skip
    with (out.parent / "progress.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_and_started_again_equals_the_batch(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    journal, out = tmp_path / "journal", tmp_path / "out"
    chance = random.Random(seed)  # noqa: S311 - when to kill
    whole = tmp_path / "whole"
    Migration(Plan(5, groups=4, duplicated=0.05)).save(whole, disorder=30, per_file=120)
    files = sorted(whole.iterdir(), key=lambda file: chance.random())
    files[0].write_text(files[0].read_text() + "not an event\n")
    journal.mkdir()
    out.mkdir()

    for turn in range(KILLS + 1):
        for file in files[turn :: KILLS + 1]:
            file.rename(journal / file.name)
        with running(journal, out) as process:
            if turn < KILLS:
                wait_for_progress(out, process, steps=chance.randint(1, STEPS))
                if turn % 2:  # the command alone: its JVM ends a little later, while the next one begins
                    process.kill()
                    process.wait()
            else:
                assert process.wait() == 0, (tmp_path / "progress.log").read_text()[-3000:]

    assert_equals_the_batch(spark, journal, out)
    assert [row["reason"] for row in QUARANTINE.read(spark, str(out)).collect()] == ["not JSON"]


def wait_for_progress(out: Path, process: subprocess.Popen[bytes], steps: int) -> None:
    """Until so many more files have come into the checkpoints and tables (or the process is done before)."""
    before = set(out.rglob("*"))
    while process.poll() is None and len(written(out) - before) < steps:
        time.sleep(0.01)


def written(out: Path) -> set[Path]:
    """What is there, while it changes."""
    with contextlib.suppress(FileNotFoundError):
        return set(out.rglob("*"))
    return set()


def assert_equals_the_batch(spark: SparkSession, journal: Path, out: Path) -> None:
    unique = streams.once(events.good(events.judged(events.from_files(spark, journal))), "1 hour")
    transitions = streams.transitions(unique)
    expected = {
        "windows": streams.windows(unique, "1 minute"),
        "transitions": transitions,
        "pauses": pauses.pauses(transitions),
    }
    found = {
        "windows": streams.latest(windows_written(spark, str(out))),
        "transitions": TRANSITIONS.read(spark, str(out)),
        "pauses": PAUSES.read(spark, str(out)),
    }
    for name, rows in expected.items():
        assert sorted(map(str, found[name].collect())) == sorted(map(str, rows.collect())), name
