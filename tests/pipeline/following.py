"""Runs of `epochgate pipeline progress` as processes, and what they must end with."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use
from support.children import ending_with_its_parent

from pipeline.journal import events
from pipeline.progress import others, pauses, streams
from pipeline.progress.job import windows_written
from pipeline.progress.output import OTHER_EVENTS, OTHER_GROUPS, OTHER_MEMBERS, PAUSES, TRANSITIONS
from tests.pipeline.command_line import pipeline


@contextlib.contextmanager
def running(out: Path, *options: object, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command, in a process group of its own together with its JVM; its output is in ``progress.log``.

    It ends with this process, and its JVM with it.
    """
    command = ending_with_its_parent(pipeline("progress", "--out", out, *options, **settings))
    with (out.parent / "progress.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def until(process: subprocess.Popen[bytes], is_so: Callable[[], bool]) -> None:
    """Wait as long as the process lives."""
    while not is_so():
        assert process.poll() is None, "it has ended"
        time.sleep(0.05)


def assert_equals_the_batch(spark: SparkSession, lines: DataFrame, out: Path) -> None:
    """The tables are what one pass over all lines gives."""
    unique = streams.deduplicated(events.valid(events.parsed(lines)), "1 hour")
    transitions = streams.transitions(unique)
    found_pauses = pauses.pauses(transitions)
    of_others = others.events_of_others(events.valid(events.parsed(lines, OTHER_EVENTS.names)))
    ever = others.members_ever(of_others)
    newest_us = unique.agg(F.max("time_us").alias("us")).collect()[0]["us"]
    expected = {
        "windows": streams.windows(unique, "1 minute"),
        "transitions": transitions,
        "pauses": found_pauses,
        "other_groups": others.groups(ever, found_pauses, newest_us),
        "other_members": others.members(ever),
    }
    found = {
        "windows": streams.latest(windows_written(spark, str(out))),
        "transitions": TRANSITIONS.read(spark, str(out)),
        "pauses": PAUSES.read(spark, str(out)),
        "other_groups": OTHER_GROUPS.read(spark, str(out)),
        "other_members": OTHER_MEMBERS.read(spark, str(out)),
    }
    for name, rows in expected.items():
        assert sorted(map(str, found[name].collect())) == sorted(map(str, rows.collect())), name
