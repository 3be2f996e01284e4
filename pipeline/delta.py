"""Tables in Delta Lake: each write is one version of a table, which readers see as a whole.

They have three columns more than the tables of Parquet: the run that wrote the row, and what they are partitioned by.
"""

import contextlib
import re
from typing import TYPE_CHECKING, Any

from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.location import Location

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

VERSION = "4.4.0"
EXTENSIONS = "spark.sql.extensions"
_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
SETTINGS = {
    EXTENSIONS: _EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A table's own metadata has a row for each of its files, which are few here: Delta's 50 tasks take seconds.
    "spark.databricks.delta.snapshotPartitions": "4",
}
"""What a session needs beside the jars."""

RUN, DATE, BUCKET, SETTLED = "run_id", "date", "group_bucket", "settled"
BUCKETS = 16
_LOG_FILE = re.compile(r"(\d{20})\.json")
_CHECKS_RANGE = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"
_REFUSES_OLD = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
"""By default versions of a week ago can't be read, unless they are the last: but the one that holds may be as old, and
not the last while a run writes, or after one was killed."""
_OF_VACUUM = {
    # By default Delta 4.4 takes no hours but 0, and for all others the table's own property.
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    # Delta's own check wants a week: it cannot know of the lock.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # So many tasks list the folders of a table, of which there are 16 for a day: Spark's 10,000 take minutes.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}


def has_jars(conf: "Mapping[str, str]") -> bool:
    """Whether these settings of Spark name Delta's jars."""
    return any("delta-spark" in conf.get(name, "") for name in ("spark.jars", "spark.jars.packages"))


def check(spark: "SparkSession") -> None:
    """Have the session read every version that there is. Raises PipelineError if it has no Delta Lake."""
    if _EXTENSION not in (spark.conf.get(EXTENSIONS, "") or ""):
        from pyspark import __version__ as spark_version  # noqa: PLC0415 - this module is there without Spark

        minor = ".".join(spark_version.split(".")[:2])
        raise PipelineError(
            f"Delta Lake is not in this Spark session: add --conf spark.jars.packages="
            f"io.delta:delta-spark_{minor}_2.13:{VERSION} (or spark.jars with its jars and {EXTENSIONS}={_EXTENSION})"
        )
    spark.conf.set(_REFUSES_OLD, "false")


def latest_version(files: FileSystems, table: Location) -> int | None:
    """Return the version of a table that its log has last; None if there is no such table."""
    log = table / "_delta_log"
    if not files.is_folder(log):
        return None
    return max(
        (int(found[1]) for name in files.names(log) if (found := _LOG_FILE.fullmatch(name))), default=None
    )


def read(spark: "SparkSession", table: Location, version: int) -> "DataFrame":
    """Read one version of a table."""
    check(spark)
    return spark.read.format("delta").option("versionAsOf", version).load(table.uri)


def placed(rows: "DataFrame", run: str, date: "Column", group: str | None) -> "DataFrame":
    """Add the columns that the tables here have beside their own; without ``group`` all rows are in one bucket."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the name that all of Spark's docs use

    bucket = F.lit(0) if group is None else F.expr(f"pmod(hash(`{group}`), {BUCKETS})")
    return rows.withColumns({RUN: F.lit(run), DATE: date, BUCKET: bucket})


def overwrite(spark: "SparkSession", rows: "DataFrame", table: Location, run: str) -> None:
    """Write a new version of the table with these rows only; columns that are new are added to it."""
    check(spark)
    _writer(rows, run).save(table.uri)


def replace_unsettled(spark: "SparkSession", rows: "DataFrame", table: Location, run: str) -> None:
    """Write a new version of the table in which these rows stand in place of those that are not settled."""
    check(spark)
    with _with(spark, {_CHECKS_RANGE: "false"}):  # the new rows may be settled
        _writer(rows, run).option("replaceWhere", f"NOT {SETTLED}").save(table.uri)


def _writer(rows: "DataFrame", run: str) -> Any:
    # One file for each date and bucket: many small ones would be slow to read.
    return (
        rows.repartition(DATE, BUCKET)
        .write.format("delta")
        .mode("overwrite")
        .option("mergeSchema", "true")
        .option("userMetadata", run)
        .partitionBy(DATE, BUCKET)
    )


def hold(spark: "SparkSession", files: FileSystems, table: Location, version: int) -> None:
    """Make a version the last one (with a new number), if a killed run has written one after it. Raises PipelineError.

    What Delta Lake deletes, adds to and replaces is the last version's, whatever the manifest says.
    """
    last = latest_version(files, table)
    if last is None:
        raise PipelineError(
            f"{table}: there is no table of Delta Lake, although _run.json names its version {version}"
        )
    if last != version:
        check(spark)
        spark.sql(f"RESTORE TABLE delta.`{_quoted(table)}` TO VERSION AS OF {version}").collect()


def optimize(spark: "SparkSession", table: Location) -> None:
    """Write the table's small files anew as larger ones. The rows stay as they are."""
    check(spark)
    spark.sql(f"OPTIMIZE delta.`{_quoted(table)}`").collect()


def vacuum(spark: "SparkSession", table: Location, keep_hours: int) -> None:
    """Delete the files that were replaced more hours ago: versions that need one of them can't be read from then on.

    Files that belong to no version are deleted too, if they are as old. So nobody else may write for that long.
    """
    check(spark)
    with _with(spark, _OF_VACUUM):
        spark.sql(f"VACUUM delta.`{_quoted(table)}` RETAIN {keep_hours} HOURS").collect()


@contextlib.contextmanager
def _with(spark: "SparkSession", settings: "Mapping[str, str]") -> "Iterator[None]":
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is not None:
                spark.conf.set(name, old)
            else:
                spark.conf.unset(name)


def history(spark: "SparkSession", table: Location) -> list[dict[str, Any]]:
    """Return the table's versions, the newest first: version, time, what wrote it (a run's id or an operation)."""
    check(spark)
    told = spark.sql(f"DESCRIBE HISTORY delta.`{_quoted(table)}`")
    return [
        {
            "version": row["version"],
            "written": row["timestamp"].isoformat(),
            "by": row["userMetadata"] or row["operation"].lower(),
        }
        for row in told.select("version", "timestamp", "userMetadata", "operation").collect()
    ]


def _quoted(table: Location) -> str:
    return table.uri.replace("`", "``")
