"""Yesterday's state and new events give the tables of a full run, which the independent checker agrees with."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from pipeline import runs, upkeep
from pipeline.audit import incremental, job
from pipeline.audit.judging import Summary
from pipeline.audit.output import GAPS, OVERLAPS
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.journal import events
from pipeline.location import of_path
from tests.pipeline.checker import Check, read
from tests.pipeline.journal_lines import BAD, BAD_SNAPSHOT
from tests.pipeline.migration import MS, Migration, Plan, S

pytestmark = pytest.mark.timeout(1_800)

SKEW_US = 100 * MS
ALL = job.WRITTEN


class Days(NamedTuple):
    """A journal whose files come on several days, some late."""

    all: Path
    growing: Path
    files: list[list[Path]]
    settle_us: list[int]

    def arrive(self, day: int) -> None:
        for file in self.files[day]:
            shutil.copy(file, self.growing / file.name)


def days(folder: Path, plan: Plan, count: int) -> Days:
    rng = random.Random(plan.seed)  # noqa: S311 - a seed, no secret
    Migration(plan).save(folder / "all", disorder=30, per_file=100)
    (folder / "all" / "bad.jsonl").write_text("\n".join([*BAD, BAD_SNAPSHOT]) + "\n", encoding="utf-8")
    files = [*(folder / "all").rglob("*.jsonl")]
    times = {file: _newest_us(file) for file in files}
    files.sort(key=lambda file: times[file] + rng.randrange(60 * S))
    files.append(twice := folder / "all" / "twice.jsonl")
    first = next(file for file in files if file.name != "bad.jsonl")
    shutil.copy(first, twice)  # the same events once more, on the last day
    cuts = sorted(rng.sample(range(1, len(files)), count - 1))
    (folder / "growing").mkdir()
    parts = [files[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(files)], strict=True)]
    return Days(folder / "all", folder / "growing", parts, [rng.choice((0, 5 * S, 60 * S)) for _ in parts])


def _newest_us(file: Path) -> int:
    def times() -> Iterator[int]:
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                yield int(json.loads(line)["time_us"])
            except (ValueError, KeyError, TypeError):
                continue

    return max(times(), default=0)


def tables(spark: SparkSession, folder: Path) -> dict[str, list[str]]:
    return {one.name: sorted(map(str, one.read(spark, str(folder)).collect())) for one in ALL}


def check(spark: SparkSession, folder: Path, plan: Plan, count: int, form: runs.Form) -> Path:
    journal = days(folder, plan, count)
    out = folder / "out"
    for day in range(count):
        journal.arrive(day)
        found = incremental.run(
            spark, journal.growing, out, skew_us=SKEW_US, settle_us=journal.settle_us[day], form=form
        )
    full = job.run(spark, events.from_files(spark, journal.all), folder / "full", skew_us=SKEW_US)

    assert_same(spark, folder, found, full)
    (folder / "all" / "bad.jsonl").unlink()  # the checker reads good lines only
    checker = Check(read(journal.all), SKEW_US)
    names = ("group", "topic", "partition", "first_member", "second_member", "from_us", "until_us", "class")
    overlaps = {tuple(row[name] for name in names) for row in OVERLAPS.read(spark, str(out)).collect()}
    assert overlaps == checker.overlaps
    gaps = GAPS.read(spark, str(out)).select("group", "topic", "partition", "from_us", "until_us")
    assert set(map(tuple, gaps.collect())) == checker.gaps
    return out


def assert_same(spark: SparkSession, folder: Path, found: Summary, full: Summary) -> None:
    ours, theirs = tables(spark, folder / "out"), tables(spark, folder / "full")
    for name, rows in theirs.items():
        assert ours[name] == rows, name
    assert found == full


def plan(seed: int) -> Plan:
    return Plan(seed, groups=3, rounds=6, violations=1, duplicated=0.03, lost=0.005, skewed_us=250 * MS)


def test_two_days_equal_a_full_run_and_the_checker(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path, plan(1), 2, "parquet")


def test_it_goes_on_in_the_form_of_the_run_before(spark: SparkSession, tmp_path: Path) -> None:
    state = runs.State(
        rules_version=1,
        skew_us=SKEW_US,
        cut_us=0,
        events=(),
        files=(),
        groups="runs/a/groups",
        ranges="runs/a/ranges",
        overlaps=(),
    )
    manifest = runs.Manifest(
        tables_version=1, journal_version=1, run="a", command="audit", form="delta", state=state
    )
    runs.replace(FileSystems(spark), of_path(tmp_path), manifest)

    with pytest.raises(PipelineError, match="goes on from tables in delta: give --format delta, or leave"):
        incremental.run(spark, tmp_path, tmp_path)


@pytest.mark.long
def test_a_run_goes_on_from_what_is_compacted(spark: SparkSession, tmp_path: Path) -> None:
    journal, out = days(tmp_path, plan(13), 2), tmp_path / "out"
    for day in range(2):
        journal.arrive(day)
        incremental.run(spark, journal.growing, out, skew_us=SKEW_US)
    before = tables(spark, out)

    compacted = upkeep.compact(spark, of_path(out))
    incremental.run(spark, journal.growing, out, skew_us=SKEW_US)  # nothing is new

    assert {"intervals", "events", "files"} <= set(compacted)
    assert len(list((out / runs.RUNS).iterdir())) == 2, "what was joined is deleted"
    assert tables(spark, out) == before


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_three_days_equal_a_full_run_and_the_checker(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check(spark, tmp_path, plan(seed), 3, "parquet")


@pytest.mark.long
def test_another_skew_and_a_plain_run_in_between_start_anew(spark: SparkSession, tmp_path: Path) -> None:
    journal = days(tmp_path, plan(4), 2)
    out = tmp_path / "out"
    journal.arrive(0)
    incremental.run(spark, journal.growing, out, skew_us=SKEW_US)
    journal.arrive(1)

    found = incremental.run(spark, journal.growing, out, skew_us=2 * SKEW_US)

    full = job.run(spark, events.from_files(spark, journal.all), tmp_path / "full", skew_us=2 * SKEW_US)
    assert_same(spark, tmp_path, found, full)
    job.run(spark, events.from_files(spark, journal.all), out, skew_us=2 * SKEW_US)
    manifest = runs.current(FileSystems(spark), of_path(out))
    assert manifest is not None
    assert manifest.state is None
    found = incremental.run(spark, journal.growing, out, skew_us=2 * SKEW_US)
    assert_same(spark, tmp_path, found, full)
