"""Progress as streams: killed at any moment and started again, it ends with what one batch over all events gives."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.journal import events
from pipeline.location import of_path
from pipeline.progress import checkpoint, job, streams
from pipeline.quarantine import QUARANTINE
from pipeline.single_run import single_run
from tests.pipeline import other_groups
from tests.pipeline.following import assert_equals_the_batch, running, until
from tests.pipeline.migration import START_US, Migration, Plan, S
from tests.skips import program

pytestmark = pytest.mark.timeout(1_800)

SEEDS = range(8, 8 + int(os.environ.get("EPOCHGATE_PROGRESS_SEEDS", "1")))
"""Each seed kills at other moments."""
KILLS = 2
STEPS = 60
"""About so many files come into the checkpoints and tables while one share of the journal is read."""


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_and_started_again_equals_the_batch(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    journal, out = tmp_path / "journal", tmp_path / "out"
    chance = random.Random(seed)  # noqa: S311 - when to kill
    whole = tmp_path / "whole"
    Migration(Plan(5, groups=4, duplicated=0.05)).save(whole, disorder=30, per_file=120)
    other_groups.Journal(6).save(whole)
    files = sorted(whole.iterdir(), key=lambda file: chance.random())
    files[0].write_text(files[0].read_text() + "not an event\n")
    journal.mkdir()
    out.mkdir()

    for turn in range(KILLS + 1):
        for file in files[turn :: KILLS + 1]:
            file.rename(journal / file.name)
        with running(out, "--journal", journal) as process:
            if turn < KILLS:
                wait_for_progress(out, process, steps=chance.randint(1, STEPS))
                if turn % 2:  # the command alone: its JVM ends a little later, while the next one begins
                    process.kill()
                    process.wait()
            else:
                assert process.wait() == 0, (tmp_path / "progress.log").read_text()[-3000:]

    assert_equals_the_batch(spark, events.from_files(spark, journal), out)
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


def test_a_batch_reads_no_more_files_than_it_may_and_neither_does_the_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    journal, out = tmp_path / "journal", tmp_path / "out"
    Migration(Plan(5, groups=2, rounds=2)).save(journal, per_file=60)
    files = len(list(journal.iterdir()))
    lines = job.lines_of_files(spark, journal, files_at_once=4)
    running = streams.start(lines, str(out), job.DEFAULTS, follow_s=None)
    for query in running:
        query.awaitTermination()
    (quarantine,) = (
        query for query in running if query.name == QUARANTINE.name
    )  # has no batch without lines
    read = [one["numInputRows"] for one in quarantine.recentProgress]
    whole = [len(path.read_text().splitlines()) for path in journal.iterdir()]
    assert len(read) == -(-files // 4) > 1
    assert sum(read) == sum(whole)
    assert max(read) <= sum(sorted(whole)[-4:])


def test_two_runs_in_one_folder_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with single_run(spark, of_path(tmp_path)):
        pass
    with pytest.raises(PipelineError, match="end it, or choose another folder"):
        refuse_while_another_holds(spark, tmp_path)
    with single_run(spark, of_path(tmp_path), patience_s=0):
        pass


def refuse_while_another_holds(spark: SparkSession, out: Path) -> None:
    """Another process has the lock (the same JVM could not be told from itself)."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out / "_lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    try:
        with single_run(spark, of_path(out), patience_s=0):
            pytest.fail("two at once")
    finally:
        holder.communicate()


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_following_sees_what_comes_ends_by_hand_and_lets_the_next_run_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The next run waits while this one follows, as it does when a killed command's JVM has not ended yet."""
    journal, out, whole = tmp_path / "journal", tmp_path / "out", tmp_path / "whole"
    Migration(Plan(7, groups=2, rounds=4, replicas=2)).save(whole, per_file=150)
    log = tmp_path / "progress.log"
    (journal / "replica-0").mkdir(parents=True)

    with running(out, "--journal", journal, "--follow-s", 0.2) as following:
        for turn, file in enumerate(sorted(whole.iterdir())):
            file.rename(journal / ("replica-0" if turn % 2 else "") / file.name)
            until(following, lambda: len(sources_read(out)) > turn)  # noqa: B023 - called at once
        with running(out, "--journal", journal) as next_run:
            until(next_run, lambda: "another run writes to" in log.read_text())
            following.send_signal(signal.SIGINT)
            assert following.wait() == 0, log.read_text()[-3000:]
            assert next_run.wait() == 0, log.read_text()[-3000:]

    assert_equals_the_batch(spark, events.from_files(spark, journal), out)


def test_a_run_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """A pytest that was killed left runs that followed a journal for ever."""
    program("setpriv", "util-linux")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    run = int(killed.stdout)
    status = Path(f"/proc/{run}/status")
    until_gone = time.monotonic() + 10
    while status.exists() and "State:\tZ" not in status.read_text():
        if time.monotonic() > until_gone:
            os.kill(run, signal.SIGKILL)
            pytest.fail("it went on")
        time.sleep(0.01)


KILLED = """
import os, pathlib, signal, sys
from tests.pipeline import conftest, following
folder = pathlib.Path(sys.argv[1])
with following.running(folder / "out", "--journal", folder, "--follow-s", 1) as process:
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_ctrl_c_and_sigterm_interrupt_no_call_while_following() -> None:
    """One that came in the middle of a call broke the connection to the JVM: no last batch, and exit code 1."""
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        with job._told_to_end() as is_told_to_end:
            assert not is_told_to_end()
            signal.raise_signal(number)
            assert is_told_to_end()
        assert signal.getsignal(number) is before


def sources_read(out: Path) -> set[str]:
    """The files that the stream of transitions has taken up."""
    logs = out.glob("_checkpoints/transitions/sources/0/[0-9]*")
    return {line for log in logs for line in log.read_text().splitlines() if line.startswith("{")}


def test_what_is_later_than_allowed_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    journal, out = tmp_path / "journal", tmp_path / "out"
    Migration(Plan(9, groups=1, rounds=2)).save(journal, per_file=10_000)
    options = streams.Options(lateness="1 minute")
    on_time = job.run(spark, job.lines_of_files(spark, journal), out, options)
    (one, *_) = [json.loads(line) for line in (journal / "proxy-0.b0.1.jsonl").read_text().splitlines()[1:]]
    for seq, earlier_s in ((10**6, 3_600), (10**6 + 1, 7_200)):
        one |= {"seq": seq, "time_us": START_US - earlier_s * S, "kind": "left"}
        with (journal / "late.jsonl").open("a") as late:
            late.write(json.dumps(one) + "\n")

    again = job.run(spark, job.lines_of_files(spark, journal), out, options)

    assert (on_time.late, again.late) == (0, 2)
    assert again.pauses == on_time.pauses


def test_an_empty_journal_gives_empty_tables(spark: SparkSession, tmp_path: Path) -> None:
    """In a folder where a run was killed while it noted its first offset."""
    (tmp_path / "journal").mkdir()
    left = tmp_path / "out" / streams.CHECKPOINTS / QUARANTINE.name / checkpoint.OFFSETS / ".0.c0ffee.tmp"
    left.parent.mkdir(parents=True)
    left.touch()
    summary = job.run(spark, job.lines_of_files(spark, tmp_path / "journal"), tmp_path / "out")
    assert summary == job.Summary(
        groups=0, other_groups={}, pauses=0, stuck=0, late=0, unfinished={}, unread={}
    )
