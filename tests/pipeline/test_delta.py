"""Tables in Delta Lake: each run is a version of every table, and readers see those of one run."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline import delta, runs, upkeep
from pipeline.audit import job as audit
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.journal import events
from pipeline.location import of_path
from pipeline.publish import run_of
from pipeline.quality import QUALITY
from pipeline.quarantine import QUARANTINE
from pipeline.readiness import job as readiness
from pipeline.readiness import records, share_partitions
from pipeline.readiness.output import TABLES as OF_READINESS
from pipeline.runs import DELTA, PARQUET, Form, Manifest
from pipeline.table_files import files_of_table
from pipeline.tables import LONG, TEXT, Column, Table
from proxy.runtime.exit_codes import ExitCode
from tests.pipeline import on_disk, several_commands
from tests.pipeline.migration import START_US, Migration
from tests.pipeline.test_bad_records import CLUSTER
from tests.pipeline.test_file_systems import prepared
from tests.pipeline.test_incremental_audit import SKEW_US, check, plan
from tests.skips import Need, without
from tools.delta_lake.jars import ensure_delta

pytestmark = pytest.mark.timeout(1_800)

OWNERS = Table(
    "owners",
    "",
    (Column("group", TEXT, ""), Column("from_us", LONG, ""), Column("owner", TEXT, "")),
    "from_us",
)
DAY_US = 86_400_000_000
TIMES = {"timestamp", "modificationTime", "deletionTimestamp"}
"""Fields of Delta's log."""


@pytest.fixture
def spark(spark: SparkSession) -> SparkSession:
    """The session, if it has Delta Lake's jars."""
    try:
        delta.check(spark)
    except PipelineError:
        without(Need.KAFKA, "Delta Lake's jars cannot be fetched")
    return spark


def write(spark: SparkSession, folder: Path, *rows: tuple[str, int, str], table: Table = OWNERS) -> str:
    with run_of(spark, folder, "owners", DELTA) as run:
        table.write(spark.createDataFrame(rows, table.ddl), run.folder)
        run.commit([table])
    return run.id


def owners(spark: SparkSession, folder: Path) -> list[tuple[str, int, str]]:
    return sorted(map(tuple, OWNERS.read(spark, str(folder)).collect()))


def without_spark(folder: Path) -> list[tuple[str, int, str]]:
    files = files_of_table(folder, OWNERS.name).files
    rows = parquet.read_table(files, partitioning=None).select(OWNERS.names).to_pylist() if files else []
    return sorted(tuple(row.values()) for row in rows)


def rows_of(spark: SparkSession, folder: Path, tables: Sequence[Table]) -> dict[str, list[str]]:
    return {one.name: sorted(map(str, one.read(spark, str(folder)).collect())) for one in tables}


def aged(folder: Path, hours: Sequence[float]) -> Path:
    """A copy of a folder of tables whose versions are so old, as if they had been written then."""
    copy = folder.with_name(f"{folder.name}-aged")
    shutil.copytree(folder, copy)
    table = copy / OWNERS.name
    for version, age in enumerate(hours):
        then_ms = int((time.time() - 3600 * age) * 1000)
        commit = table / "_delta_log" / f"{version:020}.json"
        actions = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
        for action in actions:
            for told in action.values():
                told.update(dict.fromkeys(told.keys() & TIMES, then_ms))
            if "add" in action:
                os.utime(table / unquote(action["add"]["path"]), ns=(then_ms * 10**6,) * 2)
        commit.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
        os.utime(commit, ns=(then_ms * 10**6,) * 2)
    for checksum in [*table.rglob(".*.crc"), *table.rglob("*.crc")]:  # of the log as it was
        checksum.unlink(missing_ok=True)
    return copy


def held(spark: SparkSession, folder: Path) -> Manifest:
    manifest = runs.current(FileSystems(spark), of_path(folder))
    assert manifest is not None
    return manifest


def test_each_run_is_a_version_that_can_be_read_later(spark: SparkSession, tmp_path: Path) -> None:
    first = [("a", START_US, "m1"), ("b", START_US + DAY_US, "m2")]
    second = [("a", START_US, "m3")]
    run = write(spark, tmp_path, *first)
    write(spark, tmp_path, *second)
    at = of_path(tmp_path) / OWNERS.name

    assert owners(spark, tmp_path) == second
    then = delta.read(spark, at, held(spark, tmp_path).versions[OWNERS.name] - 1)
    assert sorted(map(tuple, OWNERS.of(then).collect())) == first
    assert {row[delta.RUN] for row in then.select(delta.RUN).collect()} == {run}
    assert then.select(delta.DATE).distinct().count() == 2, "two days"
    assert not list((tmp_path / runs.RUNS).iterdir()), "it is in Delta Lake, and nowhere else"

    # A run that was killed has written a version, and no manifest names it.
    rows = spark.createDataFrame([("a", START_US, "half")], OWNERS.ddl)
    delta.overwrite(spark, delta.placed(rows, "killed", F.current_date(), "group"), at, "killed")
    assert owners(spark, tmp_path) == second
    assert without_spark(tmp_path) == second

    # The next one takes it back. Delta Lake notes the whole table then, instead of what has changed.
    files, version = FileSystems(spark), held(spark, tmp_path).versions[OWNERS.name]
    delta.hold(spark, files, at, version)
    assert (tmp_path / OWNERS.name / "_delta_log" / f"{version + 2:020}.checkpoint.parquet").exists()
    manifest = msgspec.structs.replace(held(spark, tmp_path), versions={OWNERS.name: version + 2})
    runs.replace(files, of_path(tmp_path), manifest)
    assert owners(spark, tmp_path) == without_spark(tmp_path) == second

    more = OWNERS._replace(columns=(*OWNERS.columns, Column("rack", TEXT, "")))
    write(spark, tmp_path, ("c", START_US, "m4", "r1"), table=more)  # type: ignore[arg-type]
    assert owners(spark, tmp_path) == [("c", START_US, "m4")], "older code reads on"
    assert [row["rack"] for row in more.read(spark, str(tmp_path)).collect()] == ["r1"]


@pytest.mark.long
def test_a_killed_run_s_version_is_taken_back_by_the_next_run_and_by_upkeep(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [("a", START_US, "m1"), ("b", START_US, "m2")]
    write(spark, tmp_path / "tables", *rows)
    folder = aged(tmp_path / "tables", [1000])
    at, files = of_path(folder) / OWNERS.name, FileSystems(spark)

    def killed() -> None:
        half = spark.createDataFrame([("a", START_US, "half")], OWNERS.ddl)
        delta.overwrite(spark, delta.placed(half, "killed", F.current_date(), "group"), at, "killed")
        assert delta.latest_version(files, at) != held(spark, folder).versions[OWNERS.name]
        assert owners(spark, folder) == rows

    def is_last() -> bool:
        version = held(spark, folder).versions[OWNERS.name]
        return version == delta.latest_version(files, at) and owners(spark, folder) == rows

    killed()
    upkeep.compact(spark, of_path(folder))
    assert is_last()
    killed()
    upkeep.vacuum(spark, of_path(folder), 0)
    assert is_last(), "not even with no hours kept is anything deleted that holds"
    killed()
    write(spark, folder, *rows)
    assert is_last()
    by = [one["by"] for one in delta.history(spark, at)]
    assert by.count("restore") == 3, by


@pytest.mark.long
def test_what_was_replaced_within_the_hours_that_are_kept_can_be_read_and_what_holds_always(
    spark: SparkSession, tmp_path: Path
) -> None:
    by_run = [[("a", START_US, f"m{number}")] for number in range(4)]
    for rows in by_run:
        write(spark, tmp_path / "tables", *rows)
    folder = aged(tmp_path / "tables", [800, 300, 130, 50])
    at = of_path(folder) / OWNERS.name

    upkeep.vacuum(spark, of_path(folder), 100)

    def read(version: int) -> list[tuple[str, int, str]]:
        return sorted(map(tuple, OWNERS.of(delta.read(spark, at, version)).collect()))

    assert owners(spark, folder) == by_run[3]
    assert read(2) == by_run[2], "written 130 hours ago, and replaced 50 hours ago"
    for version in (0, 1):
        with pytest.raises(Exception, match=r"FAILED_READ_FILE|not exist"):
            read(version)
    write(spark, folder, *by_run[0])
    assert owners(spark, folder) == by_run[0], "runs go on"


@pytest.mark.long
def test_small_files_are_joined_and_the_rows_stay(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", START_US, f"m{number}") for number in range(20)]
    write(spark, tmp_path, *rows)
    at = tmp_path / OWNERS.name
    more = spark.createDataFrame([("a", START_US, "more")], OWNERS.ddl)
    day = F.to_date(F.timestamp_micros("from_us"))
    placed = delta.placed(more, "more", day, "group").withColumn(delta.SETTLED, F.lit(True))  # noqa: FBT003 - a literal of Spark's
    placed.write.format("delta").mode("append").save(str(at))
    version = delta.latest_version(FileSystems(spark), of_path(at))
    assert version is not None
    manifest = msgspec.structs.replace(held(spark, tmp_path), versions={OWNERS.name: version})
    runs.replace(FileSystems(spark), of_path(tmp_path), manifest)
    before = files_of_table(tmp_path, OWNERS.name).files

    assert upkeep.compact(spark, of_path(tmp_path)) == [OWNERS.name]

    after = files_of_table(tmp_path, OWNERS.name).files
    assert before is not None
    assert after is not None
    assert (len(before), len(after)) == (2, 1)
    assert owners(spark, tmp_path) == sorted([*rows, ("a", START_US, "more")])
    assert upkeep.compact(spark, of_path(tmp_path)) == [], "nothing is left to do"


@pytest.mark.long
def test_the_commands_that_write_delta_tables_and_clean_up(spark: SparkSession, tmp_path: Path) -> None:
    prepared(tmp_path)
    words = [("a", START_US, "m1"), ("a", START_US, "m2")]
    for row in words:
        write(spark, tmp_path / "tables", row)
    folder = aged(tmp_path / "tables", [50, 2])
    before = set((folder / OWNERS.name).rglob("*.snappy.parquet"))
    ready = ("readiness", "--capture", tmp_path / "capture", "--journal", tmp_path / "journal")

    in_parquet, in_delta, vacuumed, soon, refused = several_commands.run(
        [
            (*ready, "--out", tmp_path / PARQUET),
            (*ready, "--format", "delta", "--out", tmp_path / DELTA),
            ("tables", "vacuum", folder, "--keep-hours", 1),
            ("tables", "vacuum", folder, "--keep-hours", 0),
            ("tables", "vacuum", tmp_path / PARQUET),
        ],
        {"spark.jars": ",".join(map(str, ensure_delta()))},
    )

    assert (in_parquet.code, in_delta.code) == (ExitCode.SUCCESS, ExitCode.SUCCESS), in_delta.output
    assert held(spark, tmp_path / DELTA).form == DELTA
    for table in (*OF_READINESS, QUARANTINE, QUALITY):
        assert on_disk.held(tmp_path / DELTA, table.name) == on_disk.held(tmp_path / PARQUET, table.name)
    assert vacuumed.code == ExitCode.SUCCESS, vacuumed.output
    assert "what was replaced more than 1 hours ago is deleted" in vacuumed.output
    left = set((folder / OWNERS.name).rglob("*.snappy.parquet"))
    assert left < before
    assert left == set(map(Path, files_of_table(folder, OWNERS.name).files or ()))
    assert owners(spark, folder) == words[1:]
    assert soon.code == ExitCode.USAGE, soon.output
    assert refused.code == ExitCode.FAILED, refused.output
    assert "its tables are in Parquet: the next run deletes what is no longer needed" in refused.output


def test_tables_in_parquet_need_no_vacuum(spark: SparkSession, tmp_path: Path) -> None:
    runs.replace(
        FileSystems(spark),
        of_path(tmp_path),
        Manifest(tables_version=1, journal_version=1, run="a", command="audit", form=PARQUET),
    )
    with pytest.raises(PipelineError, match="its tables are in Parquet: the next run deletes"):
        upkeep.vacuum(spark, of_path(tmp_path), 168)


@pytest.mark.long
def test_an_audit_in_delta_lake_has_the_rows_of_one_in_parquet(spark: SparkSession, tmp_path: Path) -> None:
    Migration(plan(5)).save(tmp_path / "journal", disorder=30, per_file=100)
    lines = events.from_files(spark, tmp_path / "journal")
    first, second = (
        audit.run(spark, lines, tmp_path / form, skew_us=SKEW_US, form=form) for form in (PARQUET, DELTA)
    )
    assert first == second
    assert first.violations == 1
    assert_same_rows_always(spark, tmp_path, audit.WRITTEN)


@pytest.mark.long
def test_readiness_in_delta_lake_has_the_rows_of_one_in_parquet(spark: SparkSession, tmp_path: Path) -> None:
    prepared(tmp_path)
    rows = records.captured(spark, tmp_path / "capture")
    share = share_partitions.captured(spark, of_path(tmp_path / "capture"))
    journal = events.from_files(spark, tmp_path / "journal")

    def run(form: Form) -> readiness.Summary:
        return readiness.run(spark, rows, CLUSTER, tmp_path / form, readiness.DEFAULTS, journal, share, form)

    first, second = run(PARQUET), run(DELTA)
    assert first._replace(policies=[]) == second._replace(policies=[])
    assert first.groups > 0
    for file in (tmp_path / PARQUET / readiness.POLICY).iterdir():
        assert (tmp_path / DELTA / readiness.POLICY / file.name).read_bytes() == file.read_bytes()
    assert_same_rows_always(spark, tmp_path, (*OF_READINESS, QUARANTINE, QUALITY))


def assert_same_rows_always(spark: SparkSession, folder: Path, tables: Sequence[Table]) -> None:
    """Both forms have the same rows, also after upkeep, which changes none."""
    before = rows_of(spark, folder / PARQUET, tables)
    assert rows_of(spark, folder / DELTA, tables) == before
    upkeep.compact(spark, of_path(folder / DELTA))
    upkeep.vacuum(spark, of_path(folder / DELTA), 0)
    assert rows_of(spark, folder / DELTA, tables) == before
    manifest = held(spark, folder / DELTA)
    assert sorted(manifest.versions) == sorted(table.name for table in tables)
    for table in tables:
        found = files_of_table(folder / DELTA, table.name)
        without_spark = parquet.read_table(found.files, partitioning=None) if found.files else None
        count = 0 if without_spark is None else without_spark.num_rows
        assert count == len(before[table.name]), "without Spark too"


@pytest.mark.long
def test_the_form_may_change_from_run_to_run(spark: SparkSession, tmp_path: Path) -> None:
    forms: tuple[Form, ...] = (PARQUET, DELTA, PARQUET)
    for number, form in enumerate(forms):
        with run_of(spark, tmp_path, "owners", form) as run:
            OWNERS.write(spark.createDataFrame([("a", START_US, str(number))], OWNERS.ddl), run.folder)
            run.commit([OWNERS])
        assert owners(spark, tmp_path) == [("a", START_US, str(number))]
    shutil.rmtree(tmp_path / OWNERS.name)
    assert owners(spark, tmp_path) == [("a", START_US, "2")]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12, 15))
def test_three_days_in_delta_lake_equal_a_full_run(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check(spark, tmp_path, plan(seed), 3, "delta")
