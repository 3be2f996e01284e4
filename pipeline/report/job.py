"""Runs the report from end to end: tables in, one HTML file out."""

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import location
from pipeline.audit.output import OVERLAPS
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.location import Location
from pipeline.progress.output import OTHER_GROUPS
from pipeline.readiness.output import VERDICTS
from pipeline.report import facts, page
from pipeline.tables import Table
from pipeline.watch import step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    spark: "SparkSession",
    out: Location | Path,
    readiness: Location | Path | None = None,
    progress: Location | Path | None = None,
    audit: Location | Path | None = None,
    *,
    done_waves: int = 0,
) -> None:
    """Write the report from the outputs of the other jobs. Raises PipelineError if a folder has no tables of theirs."""
    files = FileSystems(spark)
    with step(spark, "summing up"):
        text = page.rendered(
            facts.readiness(spark, _of(spark, readiness, VERDICTS)) if readiness else None,
            facts.progress(spark, _of(spark, progress, OTHER_GROUPS)) if progress else None,
            facts.audit(spark, _of(spark, audit, OVERLAPS)) if audit else None,
            facts.still_there(spark, readiness, progress) if readiness else None,
            done_waves=done_waves,
        )
        files.write(location.of(out), text.encode())


def _of(spark: "SparkSession", folder: Location | Path, table: Table) -> Location:
    place = location.of(folder)
    if not table.is_in(spark, place.uri):
        raise PipelineError(f"{folder} has no table {table.name!r}: it is not what the command wrote")
    return place
