"""The live audit as a stream: what it tells of planted violations, killed or not, and what the streams' metrics say."""

import contextlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from support.broker import Kafka

from pipeline.errors import PipelineError
from pipeline.journal import events
from pipeline.location import of_path
from pipeline.progress import job, streams
from pipeline.progress.live import LiveAudit
from pipeline.progress.output import LIVE_OVERLAPS
from pipeline.progress.streams import Audit, Options
from tests.pipeline.command_line import pipeline
from tests.pipeline.following import assert_equals_the_batch, running, until
from tests.pipeline.migration import START_US, Migration, Plan, S
from tests.pipeline.rules.journals import LIVE_DELAY_US, verified
from tests.pipeline.rules.test_cuts import DELAY_US, by_topic, migration
from tests.pipeline.test_progress import STEPS, wait_for_progress
from tests.skips import not_here

ROOT = Path(__file__).resolve().parents[2]
OLDER = ROOT / "build" / "pyspark-4.1"
pytestmark = pytest.mark.timeout(600)

AUDIT = Audit(delay_s=LIVE_DELAY_US / S, shards=2)
OPTIONS = Options(audit=AUDIT)


END = json.dumps(
    {
        "v": 1, "replica": "end", "boot": "b0", "seq": 1, "time_us": START_US + 100_000 * S, "kind": "started",
        "group": "", "protocol": "", "member": "", "owned": None,
    }
)  # fmt: skip
"""An event much later, by which all before it is due."""


def save_end(folder: Path) -> None:
    written = folder / "end.part"
    written.write_text(END + "\n")
    written.rename(folder / "end.b0.1.jsonl")


def told(spark: SparkSession, out: Path) -> list[tuple[Any, ...]]:
    """The violations that hold by what was told last of each overlap."""
    newest: dict[tuple[Any, ...], Any] = {}
    for row in sorted(LIVE_OVERLAPS.read(spark, out).collect(), key=lambda row: row["told_us"]):
        newest[row["group"], row["partition"], row["first_event"], row["second_event"]] = row
    return sorted(
        (row["group"], row["partition"], row["first_member"], row["second_member"])
        for row in newest.values()
        if row["class"] == "violation"
    )


def expected(folder: Path) -> list[tuple[Any, ...]]:
    return sorted(
        (one.group, two.partition, two.first_member, two.second_member)
        for one in verified(folder).certificates
        for two in one.owners.violations
    )


class InItsPool(LiveAudit):
    """Its batches don't wait for the tasks of other streams."""

    def write(self, batch: DataFrame, number: int) -> None:
        assert batch.sparkSession.sparkContext.getLocalProperty("spark.scheduler.pool") == streams.AUDIT
        super().write(batch, number)


def live_audit(spark: SparkSession, lines: DataFrame, out: Path, options: Audit) -> LiveAudit:
    """The live audit's stream alone, until it has read everything."""
    place = of_path(out)
    audit = InItsPool(spark, place, place / streams.CHECKPOINTS, skew_us=options.skew_us)
    streams.start_audit(lines, place.uri, options, audit, None).awaitTermination()
    return audit


@pytest.mark.parametrize("files_at_once", [200, pytest.param(3, marks=pytest.mark.long)])
def test_violations_are_told_as_verify_finds_them_and_the_next_run_goes_on(
    spark: SparkSession, tmp_path: Path, files_at_once: int
) -> None:
    """In one batch, with an event hours later behind it, and in many of which each leaves files for the next."""
    journal, out = tmp_path / "journal", tmp_path / "out"
    Migration(Plan(3, groups=4, violations=2)).save(journal, per_file=400)
    assert len(list(journal.iterdir())) % 3, "the last batch is not full"
    lines, options = (
        job.lines_of_files(spark, journal, files_at_once),
        AUDIT._replace(files_at_once=files_at_once),
    )
    first = live_audit(spark, lines, out, options)
    save_end(journal)
    second = live_audit(spark, lines, out, options)
    assert told(spark, out) == expected(journal)
    assert first.violations + second.violations == len(expected(journal)) >= 2


@pytest.mark.long
@pytest.mark.kafka
def test_of_a_topic_read_in_many_batches_it_tells_what_verify_finds(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    """Lines come up to ten seconds late, as those of several processes do; the second run goes on in the middle."""
    journal, out, topic = tmp_path / "journal", tmp_path / "out", kafka.new_topic("journal", partitions=4)
    migration(Plan(3, groups=4, violations=2)).save(journal)
    places = by_topic(journal, random.Random(1))  # noqa: S311 - a model, no secret
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})

    def write(share: slice) -> None:
        for place, lines in places.items():
            for line in lines[share]:
                producer.produce(topic, line, partition=int(place))
        assert producer.flush(30) == 0

    most = sum(map(len, places.values())) // 8
    lines = job.lines_of_topic(spark, kafka.bootstrap, topic, {}, records_at_once=most)
    options, found, half = AUDIT._replace(delay_s=DELAY_US / S), 0, min(map(len, places.values())) // 2
    for share in (slice(half), slice(half, None)):
        write(share)
        found += live_audit(spark, lines, out, options).violations
    places = {"0": [END.encode()]}
    write(slice(None))
    found += live_audit(spark, lines, out, options).violations

    assert len(list((out / streams.CHECKPOINTS / streams.AUDIT / "commits").glob("[0-9]*"))) > 8
    assert told(spark, out) == expected(journal)
    assert found == len(expected(journal)) >= 2


@pytest.mark.long
def test_what_needs_a_new_checkpoint_is_refused_and_replayed(spark: SparkSession, tmp_path: Path) -> None:
    journal, out = tmp_path / "journal", tmp_path / "out"
    Migration(Plan(5, groups=2, rounds=3)).save(journal, per_file=400)
    lines = job.lines_of_files(spark, journal)
    job.run(spark, lines, out, Options(window="5 minutes"))
    with pytest.raises(PipelineError, match=r"--window was 5 minutes and is 1 minute: .* --replay"):
        job.run(spark, lines, out)
    job.run(spark, lines, out, replay=True)
    assert_equals_the_batch(spark, events.from_files(spark, journal), out)
    assert len(list(out.glob("_before-*/windows"))) == 1


def in_time(folder: Path) -> list[Path]:
    """Its files in the order in which they were finished."""
    return sorted(
        folder.iterdir(), key=lambda file: file.read_text().splitlines()[-1].partition("time_us")[2]
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_any_moment_and_started_again_it_tells_the_same(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    journal, out, whole = tmp_path / "journal", tmp_path / "out", tmp_path / "whole"
    Migration(Plan(3, groups=4, violations=2)).save(whole, per_file=150)
    files, chance = in_time(whole), random.Random(seed)  # noqa: S311 - when to kill
    journal.mkdir()
    out.mkdir()
    kills, audit = 2, ("--audit", "--audit-delay-s", LIVE_DELAY_US // S, "--audit-shards", 2)
    share = -(-len(files) // kills)
    for turn in range(kills):
        for file in files[turn * share : (turn + 1) * share]:
            file.rename(journal / file.name)
        with running(out, "--journal", journal, *audit) as process:
            wait_for_progress(out, process, steps=chance.randint(1, STEPS))
    with running(out, "--journal", journal, *audit) as process:
        assert process.wait() in (0, 3), (tmp_path / "progress.log").read_text()[-3000:]
    save_end(journal)  # what came with the last events is due when all others are read further
    live_audit(spark, job.lines_of_files(spark, journal), out, AUDIT)
    assert told(spark, out) == expected(journal)


@pytest.mark.long
def test_a_run_that_follows_ends_at_a_violation_with_exit_code_3(tmp_path: Path) -> None:
    journal, out = tmp_path / "journal", tmp_path / "out"
    Migration(Plan(3, groups=4, violations=2)).save(journal, per_file=400)
    options = ("--follow-s", 1, "--audit", "--audit-every-s", 1, "--audit-delay-s", 20, "--end-at-violation")
    with running(out, "--journal", journal, *options, "--metrics-port", 0) as following:
        until(following, (out / streams.CHECKPOINTS / streams.AUDIT / "commits" / "0").exists)
        save_end(journal)  # the first batch has the end of a killed process, so what came later waits
        assert following.wait(timeout=300) == 3, (tmp_path / "progress.log").read_text()[-3000:]
    assert "metrics: http://127.0.0.1:" in (tmp_path / "progress.log").read_text()


@pytest.mark.long
def test_what_may_change_between_runs_changes_nothing_that_they_find(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each of four runs reads a share of the journal, with other limits and settings than the one before it."""
    journal, out, whole = tmp_path / "journal", tmp_path / "out", tmp_path / "whole"
    Migration(Plan(3, groups=4, violations=2)).save(whole, per_file=150)
    files = in_time(whole)
    journal.mkdir()
    share = -(-len(files) // 4)
    store = "spark.sql.streaming.stateStore"
    runs: list[tuple[Options, dict[str, str], dict[str, Any]]] = [
        (Options(), {}, {}),
        (
            OPTIONS,
            {"spark.sql.shuffle.partitions": "5", "spark.sql.streaming.minBatchesToRetain": "2"},
            {"files": 3},
        ),
        (
            Options(stuck_after_s=1, derive_every_s=60),
            {f"{store}.rocksdb.changelogCheckpointing.enabled": "false", "spark.sql.shuffle.partitions": "1"},
            {"serving": job.Serving(port=0), "files": 7},
        ),
        (
            OPTIONS._replace(stuck_after_s=300),
            {f"{store}.compression.codec": "zstd", f"{store}.providerClass": ON_HEAP},
            {},
        ),
        (OPTIONS, {}, {}),  # what came with the last events is due when all others are read further
    ]
    for turn, (options, settings, other) in enumerate(runs):
        for file in files[turn * share : (turn + 1) * share]:
            file.rename(journal / file.name)
        if turn == len(runs) - 1:
            save_end(journal)
        with changed(spark, settings):
            lines = job.lines_of_files(spark, journal, other.pop("files", job.FILES_AT_ONCE))
            job.run(spark, lines, out, options, source="the journal", **other)
    assert told(spark, out) == expected(journal)
    assert_equals_the_batch(spark, events.from_files(spark, journal), out)


ON_HEAP = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


@contextlib.contextmanager
def changed(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """The session's settings while inside."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, was or "")


@pytest.mark.long
def test_a_checkpoint_of_pyspark_4_1_goes_on_with_4_2(spark: SparkSession, tmp_path: Path) -> None:
    """Half of the journal by the one, the other half by the other; windows and identities span both."""
    if not OLDER.exists():
        not_here(f"pip install --no-deps --target {OLDER} 'pyspark==4.1.*'")
    journal, out, whole = tmp_path / "journal", tmp_path / "out", tmp_path / "whole"
    Migration(Plan(3, groups=4, violations=2)).save(whole, per_file=150)
    files = in_time(whole)
    journal.mkdir()
    for file in files[: len(files) // 2]:
        file.rename(journal / file.name)
    audit = ("--audit", "--audit-delay-s", LIVE_DELAY_US // S, "--audit-shards", 2)
    command = pipeline("progress", "--out", out, "--journal", journal, *audit)
    environment = os.environ | {"PYTHONPATH": f"{OLDER}{os.pathsep}{ROOT}", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode in (0, 3), done.stderr[-3000:]
    assert json.loads((out / "_checkpoints" / "form.json").read_text())["pyspark"].startswith("4.1")
    for file in files[len(files) // 2 :]:
        file.rename(journal / file.name)

    lines = job.lines_of_files(spark, journal)
    source = journal.absolute().as_uri().replace("file://", "file:")
    first = job.run(spark, lines, out, OPTIONS, source=source)
    save_end(journal)
    job.run(spark, lines, out, OPTIONS, source=source)
    assert first.late == 0
    assert told(spark, out) == expected(journal)
    assert_equals_the_batch(spark, events.from_files(spark, journal), out)
