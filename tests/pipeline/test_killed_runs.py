"""A command whose driver is killed leaves the tables of the run before; the next run gives those of an undisturbed one.

A command is killed at a chosen call of one of its own functions (`tests/pipeline/killed.py`), so always at the same
point; the next run is one of the tests' own session. `test_progress.py` kills progress at any moment.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.audit import job as audit
from pipeline.journal import events
from pipeline.tables import Table
from tests.pipeline.killed import Point, kill
from tests.pipeline.migration import Migration, Plan
from tests.pipeline.on_disk import held

pytestmark = pytest.mark.timeout(1_800)

MANIFEST = "pipeline.runs:replace_if"


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
