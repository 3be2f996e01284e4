"""A command whose driver is killed leaves the tables of the run before; the next run gives those of an undisturbed one.

Each command is killed at chosen calls of its own functions (`tests/pipeline/killed.py`), so always at the same points;
the next run is one of the tests' own session. `test_killed_on_s3.py` kills commands, and who works for them, on a real
S3 server; `test_progress.py` kills progress at any moment.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import delta, runs, upkeep
from pipeline.audit import incremental
from pipeline.audit import job as audit
from pipeline.errors import PipelineError
from pipeline.journal import events
from pipeline.location import of_path
from pipeline.progress import job as progress
from pipeline.progress.output import CONVERGENCES, PAUSES, STUCK, TRANSITIONS
from pipeline.quality import QUALITY
from pipeline.quarantine import QUARANTINE
from pipeline.readiness import job as readiness
from pipeline.readiness import records, share_partitions
from pipeline.readiness.output import TABLES as OF_READINESS
from pipeline.runs import DELTA, PARQUET, Form
from pipeline.tables import Table
from tests.pipeline.killed import DRIVER, PYTHON, Point, kill
from tests.pipeline.migration import Migration, Plan
from tests.pipeline.on_disk import held
from tests.pipeline.test_bad_records import CLUSTER, classic
from tests.pipeline.test_incremental_audit import plan
from tests.pipeline.test_share_partitions import share_group, write
from tests.skips import Need, without
from tools.delta_lake.jars import DeltaUnavailableError, ensure_delta

pytestmark = pytest.mark.timeout(1_800)

WRITE = "pipeline.tables:Table.write"
MANIFEST = "pipeline.runs:replace_if"


@pytest.fixture(scope="module")
def jars() -> dict[str, str]:
    try:
        return {"spark.jars": ",".join(map(str, ensure_delta()))}
    except DeltaUnavailableError as error:
        without(Need.KAFKA, error)
        raise


@pytest.fixture
def with_delta(spark: SparkSession) -> SparkSession:
    """The session, if it has Delta Lake's jars."""
    try:
        delta.check(spark)
    except PipelineError:
        without(Need.KAFKA, "Delta Lake's jars cannot be fetched")
    return spark


def rows(folder: Path, tables: Sequence[Table]) -> dict[str, list[str]]:
    """The tables as readers see them now."""
    return {one.name: held(folder, one.name) for one in tables}


def test_an_audit_killed_before_its_tables_hold_leaves_those_of_the_run_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    journal, out, whole = (tmp_path / name for name in ("journal", "out", "whole"))
    Migration(Plan(1, groups=1, rounds=2)).save(journal)
    audit.run(spark, events.from_files(spark, journal), out)
    first = rows(out, audit.WRITTEN)
    Migration(Plan(2, groups=1, rounds=2, prefix="b-")).save(journal / "more")

    kill(Point(MANIFEST, 1, "before"), ("audit", "--journal", journal, "--out", out), tmp_path / "log")

    assert rows(out, audit.WRITTEN) == first
    for folder in (out, whole):
        audit.run(spark, events.from_files(spark, journal), folder)
    assert rows(out, audit.WRITTEN) == rows(whole, audit.WRITTEN) != first


POINTS_OF_AUDIT: dict[Form, tuple[tuple[Point, str], ...]] = {
    PARQUET: (
        (Point(WRITE, 2, "during"), PYTHON),  # its JVM ends a little later: the next run waits for it
        (Point("pipeline.audit.incremental:_Incremental._judged", 1, "during"), DRIVER),
    ),
    DELTA: (
        (Point("pipeline.delta:replace_unsettled", 2, "during"), DRIVER),
        (Point(MANIFEST, 1, "before"), DRIVER),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("form", [PARQUET, DELTA])
def test_an_audit_of_what_is_new(
    with_delta: SparkSession, jars: dict[str, str], tmp_path: Path, form: Form
) -> None:
    spark = with_delta
    journal, out, whole, log = (tmp_path / name for name in ("journal", "out", "whole", "log"))
    Migration(Plan(1, groups=2, rounds=3)).save(journal)
    command = ("audit", "--journal", journal, "--format", form, "--incremental", "--out", out)
    incremental.run(spark, journal, out, form=form)
    first = rows(out, audit.WRITTEN)
    Migration(plan(2)._replace(prefix="b-")).save(journal / "more", per_file=100)

    for point, victim in POINTS_OF_AUDIT[form]:
        kill(point, command, log, victim, jars)
        assert rows(out, audit.WRITTEN) == first, point
    assert len(list((out / runs.RUNS).iterdir())) == 2, "each run deletes what the one before has left"
    kill(Point(MANIFEST, 1, "after"), command, log, DRIVER, jars)  # it holds, and has not cleaned up

    full = audit.run(spark, events.from_files(spark, journal), whole)
    found = incremental.run(spark, journal, out, form=form)
    expected = rows(whole, audit.WRITTEN)
    assert rows(out, audit.WRITTEN) == expected
    assert len(expected["intervals"]) > len(first["intervals"])
    assert found == full
    assert found.violations > 0


def capture(folder: Path, *groups: str) -> Path:
    found = [(one.key, one.value) for one in map(classic, groups)]
    write(folder, records.CAPTURED_RECORDS, [*found, share_group("shared", 1)])
    CLUSTER.save(folder)
    return folder


@pytest.mark.long
def test_readiness_in_delta_lake(with_delta: SparkSession, jars: dict[str, str], tmp_path: Path) -> None:
    out, whole, log = (tmp_path / name for name in ("out", "whole", "log"))
    tables = (*OF_READINESS, QUARANTINE, QUALITY)
    options = readiness.DEFAULTS._replace(limits=readiness.DEFAULTS.limits._replace(groups=1))

    def run(source: Path, into: Path) -> None:
        captured = records.captured(with_delta, source)
        share = share_partitions.captured(with_delta, of_path(source))
        readiness.run(with_delta, captured, CLUSTER, into, options, None, share, DELTA)

    run(capture(tmp_path / "small", "app"), out)
    first = rows(out, tables)
    large = capture(tmp_path / "large", "app", "web", "billing")
    command = ("readiness", "--capture", large, "--format", DELTA, "--first-wave-groups", 1, "--out", out)

    for point in (Point("pipeline.delta:overwrite", 3, "after"), Point(MANIFEST, 1, "before")):
        kill(point, command, log, DRIVER, jars)
        assert rows(out, tables) == first, point
    kill(Point("pipeline.file_systems:FileSystems.write", 1, "after"), command, log, DRIVER, jars)
    assert len(list((out / readiness.POLICY).iterdir())) == 1, "the first of its policy files"

    run(large, out)
    run(large, whole)
    assert rows(out, tables) == rows(whole, tables)
    assert len(rows(out, tables)["groups"]) == len(first["groups"]) + 2
    written, expected = (
        {one.name: one.read_bytes() for one in (at / readiness.POLICY).iterdir()} for at in (out, whole)
    )
    assert written == expected
    assert len(expected) > 1


DERIVED = (TRANSITIONS, PAUSES, CONVERGENCES, STUCK, QUARANTINE)


@pytest.mark.long
def test_progress_of_whose_derived_tables_some_are_new(spark: SparkSession, tmp_path: Path) -> None:
    journal, out, whole = (tmp_path / name for name in ("journal", "out", "whole"))
    Migration(Plan(5, groups=4, duplicated=0.05)).save(journal, per_file=100)

    kill(Point(WRITE, 2, "during"), ("progress", "--journal", journal, "--out", out), tmp_path / "log")

    for folder in (out, whole):
        progress.run(spark, progress.lines_of_files(spark, journal), folder)
    assert rows(out, DERIVED) == rows(whole, DERIVED)
    assert rows(out, [PAUSES])["pauses"]


@pytest.mark.long
@pytest.mark.parametrize("form", [PARQUET, DELTA])
def test_upkeep(with_delta: SparkSession, jars: dict[str, str], tmp_path: Path, form: Form) -> None:
    spark = with_delta
    journal, out, whole, log = (tmp_path / name for name in ("journal", "out", "whole", "log"))
    Migration(plan(2)).save(journal)
    incremental.run(spark, journal, out, form=form)
    Migration(Plan(1, groups=2, rounds=3, prefix="b-")).save(journal / "more")
    incremental.run(spark, journal, out, form=form)
    before = rows(out, audit.WRITTEN)

    points = {
        PARQUET: [("compact", Point("pipeline.upkeep:_joined", 2, "during"))],
        DELTA: [
            ("compact", Point("pipeline.delta:optimize", 2, "after")),
            ("vacuum", Point("pipeline.delta:vacuum", 3, "during")),
        ],
    }
    for name, point in points[form]:
        kill(point, ("tables", name, out), log, DRIVER, jars)
        assert rows(out, audit.WRITTEN) == before, point

    upkeep.compact(spark, of_path(out))
    assert rows(out, audit.WRITTEN) == before
    if form == DELTA:
        upkeep.vacuum(spark, of_path(out), 1)
    Migration(Plan(3, groups=2, rounds=3, prefix="c-")).save(journal / "most")
    incremental.run(spark, journal, out, form=form)
    audit.run(spark, events.from_files(spark, journal), whole)
    assert rows(out, audit.WRITTEN) == rows(whole, audit.WRITTEN)
