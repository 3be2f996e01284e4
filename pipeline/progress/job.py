"""Progress from end to end: follow the journal, then derive what people ask for."""

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.journal import events
from pipeline.progress import pauses, streams
from pipeline.progress.output import CONVERGENCES, PAUSES, STUCK, TRANSITIONS, WINDOWS
from pipeline.progress.streams import Options
from pipeline.readiness.records import connector_missing
from pipeline.watch import step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DEFAULTS = Options()
FILES_AT_ONCE = 200
_LOOK_S = 0.5


class Summary(NamedTuple):
    """What came out, in numbers."""

    groups: int
    pauses: int
    stuck: int
    late: int
    """Events that came later than allowed, in this run: counted by Spark, left out."""


def lines_of_files(spark: "SparkSession", folder: Path | str) -> "DataFrame":
    """The finished files under ``folder`` as a stream."""
    reader = spark.readStream.format("text").option("pathGlobFilter", "*.jsonl")
    return events.with_source(reader.option("maxFilesPerTrigger", str(FILES_AT_ONCE)).load(str(folder)))


def lines_of_topic(
    spark: "SparkSession", bootstrap: str, topic: str, settings: dict[str, str]
) -> "DataFrame":
    """A Kafka topic as a stream, through Spark's connector."""
    options = {f"kafka.{key}": value for key, value in settings.items()}
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    try:
        rows = (
            reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()
        )
    except Exception as error:
        raise connector_missing(error) from error
    return events.of_topic(rows)


def follow(
    spark: "SparkSession", lines: "DataFrame", out: Path | str, options: Options, every_s: float
) -> Summary:
    """Follow the journal until Ctrl-C, then write what follows from it."""
    folder = str(Path(out).absolute())
    queries = streams.start(lines, folder, options, follow_s=every_s)
    late = 0
    with contextlib.suppress(KeyboardInterrupt), step(spark, "following the journal (Ctrl-C ends)"):
        late = wait(queries)
    for query in queries:
        query.stop()
    with step(spark, "pauses"):
        return derive(spark, folder, options)._replace(late=late)


def run(spark: "SparkSession", lines: "DataFrame", out: Path | str, options: Options = DEFAULTS) -> Summary:
    """Read all there is since the last run, and write every table into ``out``."""
    folder = str(Path(out).absolute())
    with step(spark, "following the journal"):
        late = wait(streams.start(lines, folder, options, follow_s=None))
    with step(spark, "pauses"):
        return derive(spark, folder, options)._replace(late=late)


def wait(queries: list["StreamingQuery"]) -> int:
    """Wait until all have ended, or one fails; how many rows came too late."""
    while any(query.isActive for query in queries):
        time.sleep(_LOOK_S)
        for query in queries:
            failure = query.exception()
            if failure is not None:
                for other in queries:
                    other.stop()
                raise failure
    return sum(
        operator["numRowsDroppedByWatermark"]
        for query in queries
        if query.name == TRANSITIONS.name
        for told in query.recentProgress
        for operator in told["stateOperators"]
    )


def derive(spark: "SparkSession", folder: str, options: Options) -> Summary:
    """The tables that follow from transitions and windows."""
    transitions = TRANSITIONS.read(spark, folder)
    PAUSES.write(pauses.pauses(transitions), folder)
    found = PAUSES.read(spark, folder)
    CONVERGENCES.write(pauses.convergences(found), folder)
    newest = transitions.agg(F.max("time_us").alias("newest")).first()
    now_us = (newest["newest"] if newest else None) or 0
    STUCK.write(pauses.stuck(found, now_us, options.stuck_after_s).coalesce(1), folder)
    groups = streams.latest(windows_written(spark, folder)).select("group").distinct().count()
    return Summary(groups, found.count(), STUCK.read(spark, folder).count(), 0)


def windows_written(spark: "SparkSession", folder: str) -> "DataFrame":
    """Windows as they were written, with their batch."""
    return spark.read.schema(f"{WINDOWS.ddl}, batch bigint").parquet(f"{folder}/{WINDOWS.name}")
