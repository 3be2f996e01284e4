"""Tables in Delta Lake: each run is a version of every table, and readers see those of one run."""

from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline import delta, runs, upkeep
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.location import of_path
from pipeline.publish import run_of
from pipeline.runs import DELTA, Manifest
from pipeline.table_files import files_of_table
from pipeline.tables import LONG, TEXT, Column, Table
from tests.pipeline.conftest import without
from tests.pipeline.migration import START_US
from tests.pipeline.test_incremental_audit import check, plan

pytestmark = pytest.mark.timeout(1_800)

OWNERS = Table(
    "owners",
    "",
    (Column("group", TEXT, ""), Column("from_us", LONG, ""), Column("owner", TEXT, "")),
    "from_us",
)
DAY_US = 86_400_000_000


@pytest.fixture
def spark(spark: SparkSession) -> SparkSession:
    """The session, if it has Delta Lake's jars."""
    try:
        delta.check(spark)
    except PipelineError:
        without("Delta Lake's jars cannot be fetched")
    return spark


def write(spark: SparkSession, folder: Path, *rows: tuple[str, int, str], table: Table = OWNERS) -> str:
    with run_of(spark, folder, "owners", DELTA) as run:
        table.write(spark.createDataFrame(rows, table.ddl), run.folder)
        run.commit([table])
    return run.id


def owners(spark: SparkSession, folder: Path) -> list[tuple[str, int, str]]:
    return sorted(map(tuple, OWNERS.read(spark, str(folder)).collect()))


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
    with pytest.raises(PipelineError, match="its tables are in Delta Lake"):
        upkeep.compact(spark, of_path(tmp_path))
    found = files_of_table(tmp_path, OWNERS.name)
    assert parquet.read_table(found.files, partitioning=None).select(OWNERS.names).to_pylist() == [
        dict(zip(OWNERS.names, second[0], strict=True))
    ], "without Spark too"

    more = OWNERS._replace(columns=(*OWNERS.columns, Column("rack", TEXT, "")))
    write(spark, tmp_path, ("c", START_US, "m4", "r1"), table=more)  # type: ignore[arg-type]
    assert owners(spark, tmp_path) == [("c", START_US, "m4")], "older code reads on"
    assert [row["rack"] for row in more.read(spark, str(tmp_path)).collect()] == ["r1"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12, 15))
def test_three_days_in_delta_lake_equal_a_full_run(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check(spark, tmp_path, plan(seed), 3, "delta")
