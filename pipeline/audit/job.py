"""Runs the audit: Spark sorts the events, each group is replayed, and the findings are written as tables.

Events are partitioned by group and sorted within each partition, and go through Python as a stream: memory holds the
live members of one group, however long its history is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import StorageLevel

from pipeline import location
from pipeline.audit import judging
from pipeline.audit.findings import BAD, FINDINGS, Found, bad_snapshots, rows_of
from pipeline.audit.judging import Summary
from pipeline.audit.output import CLOCKS, GAPS, INTERVALS, LOSSES, OVERLAPS, PROCESSES, TABLES
from pipeline.journal import events, losses, unfinished
from pipeline.journal.losses import Boot
from pipeline.journal.unfinished import UNFINISHED
from pipeline.location import Location
from pipeline.publish import Run, run_of
from pipeline.quality import QUALITY
from pipeline.quarantine import QUARANTINE
from pipeline.rules.events import Event
from pipeline.rules.losses import Process
from pipeline.rules.ownership import GroupOwnership
from pipeline.rules.unfinished import Unfinished, by_file, unread
from pipeline.runs import PARQUET, Form
from pipeline.tables import Table
from pipeline.watch import step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_SKEW_US = 100_000
ORDER = ("group", "time_us", "replica", "boot", "seq")
READ = ("group", *Event._fields)
WRITTEN = (*TABLES, UNFINISHED, QUARANTINE, QUALITY)


def run(
    spark: "SparkSession",
    lines: "DataFrame",
    out: Location | Path,
    *,
    skew_us: int = DEFAULT_SKEW_US,
    hidden: Sequence[Unfinished] = (),
    form: Form = PARQUET,
) -> Summary:
    """Write the tables of the audit into ``out``. ``lines`` come from ``journal.events``.

    ``hidden`` are the journal's files that were not finished before ``lines`` were read.

    Raises PipelineError if the journal has the same events from files and from a topic.
    """
    with run_of(spark, location.of(out), "audit", form) as into:
        return _run(spark, lines, into, skew_us, hidden)


def _run(
    spark: "SparkSession", lines: "DataFrame", into: Run, skew_us: int, hidden: Sequence[Unfinished]
) -> Summary:
    folder = into.folder

    def read(table: Table) -> "DataFrame":
        return table.read(spark, folder)

    # Kept on disk: each process's last event must be known before the first group is replayed.
    rows = events.parsed(lines, READ).persist(StorageLevel.DISK_ONLY)
    with step(spark, "reading the journal"), losses.find_losses(events.valid(rows)) as (boots, lost):
        losses.check_single_source((boot.replica, boot.boot) for boot in boots)
        PROCESSES.write(spark.createDataFrame(boots, PROCESSES.ddl).coalesce(1), folder)
        last_read = {(boot.replica, boot.boot): (boot.last_seq, boot.last_us) for boot in boots}
        beyond = unread(hidden, last_read)
        unfinished.write(spark, hidden, beyond, folder)
        judging.write_losses(spark, lost, beyond, folder)
    found = findings(events.valid(rows), boots, skew_us).persist(StorageLevel.DISK_ONLY)
    try:
        with step(spark, "going through the groups"):
            INTERVALS.write(rows_of(found, INTERVALS), folder)
        with step(spark, "judging"):
            GAPS.write(rows_of(found, GAPS), folder)
            CLOCKS.write(rows_of(found, CLOCKS), folder)
            overlaps = rows_of(found, OVERLAPS)
            clocks = judging.clocks_of(read, overlaps, skew_us)
            missing = judging.missing(spark, read(LOSSES), beyond)
            OVERLAPS.write(judging.classified(overlaps, skew_us, clocks.explains, missing), folder)
            QUARANTINE.write(events.rejected(rows).unionByName(bad_snapshots(rows_of(found, BAD))), folder)
            summary = judging.summed_up(read, boots, skew_us, clocks)._replace(
                unfinished=by_file(hidden, beyond, gone=True), unread=by_file(hidden, beyond, gone=False)
            )
            checks = judging.checked(read, summary, clocks)
            QUALITY.write(spark.createDataFrame(checks, QUALITY.ddl).coalesce(1), folder)
        into.commit(WRITTEN)
        return summary
    finally:
        found.unpersist()
        rows.unpersist()


def findings(good: "DataFrame", boots: list[Boot], skew_us: int) -> "DataFrame":
    """Return what going through the groups finds, with the columns of ``FINDINGS``; ``good`` are valid events."""
    last_us = {(boot.replica, boot.boot): boot.last_us for boot in boots}
    in_order = good.where("`group` != ''").repartition("group").sortWithinPartitions(*ORDER)
    return in_order.mapInArrow(_through_groups(last_us, skew_us), FINDINGS.ddl)


def _through_groups(
    last_us: Mapping[Process, int], skew_us: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        group, ownership = None, GroupOwnership(last_us, skew_us)
        for batch in batches:
            found = Found(skew_us)
            groups, *fields = (batch[name].to_pylist() for name in READ)
            for name, event in zip(groups, map(Event, *fields), strict=True):
                if name != group:
                    if group is not None:
                        found.add(group, ownership.end())
                    group, ownership = name, GroupOwnership(last_us, skew_us)
                found.add(name, ownership.take(event))
            yield found.batch()
        if group is not None:
            found = Found(skew_us)
            found.add(group, ownership.end())
            yield found.batch()

    return through
