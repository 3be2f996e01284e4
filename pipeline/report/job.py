"""Runs the report from end to end: tables in, one HTML file out."""

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.audit.output import OVERLAPS
from pipeline.errors import PipelineError
from pipeline.progress.output import OTHER_GROUPS
from pipeline.readiness.output import VERDICTS
from pipeline.report import facts, page
from pipeline.tables import Table
from pipeline.watch import step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    spark: "SparkSession",
    out: Path,
    readiness: Path | None = None,
    progress: Path | None = None,
    audit: Path | None = None,
    *,
    done_waves: int = 0,
) -> None:
    """Write the report from the outputs of the other jobs. Raises PipelineError if a folder has no tables of theirs."""
    with step(spark, "summing up"):
        page.write(
            out,
            facts.readiness(spark, _of(readiness, VERDICTS)) if readiness else None,
            facts.progress(spark, _of(progress, OTHER_GROUPS)) if progress else None,
            facts.audit(spark, _of(audit, OVERLAPS)) if audit else None,
            done_waves=done_waves,
        )


def _of(folder: Path, table: Table) -> Path:
    if not (folder / table.name).is_dir():
        raise PipelineError(f"{folder} has no table {table.name!r}: it is not what the command wrote")
    return folder
