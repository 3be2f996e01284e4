"""Runs the audit: Spark sorts the events, each group is replayed, and the findings are written as tables.

Events are partitioned by group and sorted within each partition, and go through Python as a stream: memory holds the
live members of one group, however long its history is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from msgspec.structs import astuple
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline import location, quarantine
from pipeline.audit.output import CLOCKS, GAPS, INTERVALS, LOSSES, OVERLAPS, PROCESSES
from pipeline.journal import events, losses, unfinished
from pipeline.journal.losses import Boot
from pipeline.location import Location
from pipeline.quarantine import QUARANTINE
from pipeline.rules.classes import (
    CLOCK,
    SHORTEST,
    VIOLATION,
    Handovers,
    OverlapClassifier,
    Replicas,
    explained_by_clocks,
)
from pipeline.rules.losses import Loss, Process
from pipeline.rules.ownership import (
    BadSnapshot,
    ClockProof,
    Event,
    Finding,
    Gap,
    GroupOwnership,
    Hold,
    Interval,
    Overlap,
)
from pipeline.rules.unfinished import Unfinished, by_file, unread
from pipeline.tables import TEXT, Column, Table
from pipeline.watch import step

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_SKEW_US = 100_000
_ORDER = ("group", "time_us", "replica", "boot", "seq")
_READ = ("group", *Event._fields)


_BAD = Table("bad", "", tuple(Column(name, TEXT, "") for name in BadSnapshot._fields))
_KINDS = (INTERVALS, OVERLAPS, GAPS, CLOCKS, _BAD)
FINDINGS = Table(
    "findings",
    "What going through the groups found, one kind a column; the others are null.",
    tuple(Column(table.name, pa.struct(list(table.arrow)), "") for table in _KINDS),
)


class Summary(NamedTuple):
    """The counts of an audit. Times are in microseconds."""

    events: int
    duplicates: int
    lost: int
    groups: int
    overlaps: dict[str, int]
    gaps: int
    longest_gap_us: int
    skew_us: int
    clocks: dict[Replicas, int]
    """For each two replicas (ahead, behind) whose clocks differ by more than the skew: what that accounts for."""
    quarantined: dict[str, int]
    unfinished: dict[str, int | None]
    """Files that nobody has finished, and how many of ``lost`` they have; None if no event can be read there."""
    unread: dict[str, int | None]
    """The same for files that are being written. What they have is not lost."""

    @property
    def violations(self) -> int:
        """Return how often a partition had two owners."""
        return self.overlaps.get(VIOLATION, 0)


def run(
    spark: "SparkSession",
    lines: "DataFrame",
    out: Location | Path,
    *,
    skew_us: int = DEFAULT_SKEW_US,
    hidden: Sequence[Unfinished] = (),
) -> Summary:
    """Write the tables of the audit into ``out``. ``lines`` come from ``journal.events``.

    ``hidden`` are the journal's files that were not finished before ``lines`` were read.

    Raises PipelineError if the journal has the same events from files and from a topic.
    """
    folder = location.of(out).uri
    # Kept on disk: each process's last event must be known before the first group is replayed.
    rows = events.parsed(lines, _READ).persist(StorageLevel.DISK_ONLY)
    with step(spark, "reading the journal"):
        boots, lost = losses.find_losses(events.valid(rows))
        losses.check_single_source((boot.replica, boot.boot) for boot in boots)
        PROCESSES.write(spark.createDataFrame(boots, PROCESSES.ddl).coalesce(1), folder)
        last_read = {(boot.replica, boot.boot): (boot.last_seq, boot.last_us) for boot in boots}
        beyond = unread(hidden, last_read)
        unfinished.write(spark, hidden, beyond, folder)
        lost += [loss for file, loss in beyond if file.is_gone]
        LOSSES.write(spark.createDataFrame(lost, LOSSES.ddl).coalesce(1), folder)
    found = _findings(events.valid(rows), boots, skew_us).persist(StorageLevel.DISK_ONLY)
    try:
        with step(spark, "going through the groups"):
            _write(found, INTERVALS, folder)
        with step(spark, "judging"):
            _write(found, GAPS, folder)
            _write(found, CLOCKS, folder)
            proofs = _proofs(CLOCKS.read(spark, folder))
            clocks = explained_by_clocks(skew_us, proofs, _handovers(GAPS.read(spark, folder), found))
            missing = lost + [loss for file, loss in beyond if not file.is_gone]
            _write_overlaps(found, OverlapClassifier(skew_us, clocks, missing), folder)
            QUARANTINE.write(events.rejected(rows).unionByName(_bad_snapshots(found)), folder)
            used = {(row["first_replica"], row["second_replica"]) for row in _told_by_clocks(spark, folder)}
            shown = {pair: us for pair, us in clocks.items() if pair in used or proofs.get(pair, 0) > skew_us}
        return _summary(spark, folder, boots, lost, skew_us, shown)._replace(
            unfinished=by_file(hidden, beyond, gone=True), unread=by_file(hidden, beyond, gone=False)
        )
    finally:
        found.unpersist()
        rows.unpersist()


def _findings(good: "DataFrame", boots: list[Boot], skew_us: int) -> "DataFrame":
    last_us = {(boot.replica, boot.boot): boot.last_us for boot in boots}
    in_order = good.where("`group` != ''").repartition("group").sortWithinPartitions(*_ORDER)
    return in_order.mapInArrow(_through_groups(last_us, skew_us), FINDINGS.ddl)


def _through_groups(
    last_us: Mapping[Process, int], skew_us: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        group, ownership = None, GroupOwnership(last_us, skew_us)
        for batch in batches:
            found = _Found(skew_us)
            groups, *fields = (batch[name].to_pylist() for name in _READ)
            for name, event in zip(groups, map(Event, *fields), strict=True):
                if name != group:
                    if group is not None:
                        found.add(group, ownership.end())
                    group, ownership = name, GroupOwnership(last_us, skew_us)
                found.add(name, ownership.take(event))
            yield found.batch()
        if group is not None:
            found = _Found(skew_us)
            found.add(group, ownership.end())
            yield found.batch()

    return through


class _Found:
    """Findings as rows of the tables of their kinds."""

    def __init__(self, skew_us: int) -> None:
        self._skew_us = skew_us
        self._rows: dict[str, list[Sequence[Any]]] = {table.name: [] for table in _KINDS}

    def add(self, group: str, findings: Iterable[Finding]) -> None:
        """Add the findings of a group."""
        for found in findings:
            table, row = _row(group, found, self._skew_us)
            self._rows[table.name].append(row)

    def batch(self) -> pa.RecordBatch:
        """Return all findings as one batch, ordered by kind."""
        count, before, columns = sum(map(len, self._rows.values())), 0, []
        for table in _KINDS:
            own = table.batch(self._rows[table.name]).to_struct_array()
            after = count - before - len(own)
            columns.append(pa.concat_arrays([pa.nulls(before, own.type), own, pa.nulls(after, own.type)]))
            before += len(own)
        return pa.RecordBatch.from_arrays(columns, schema=FINDINGS.arrow)


def _row(group: str, found: Finding, skew_us: int) -> tuple[Table, Sequence[Any]]:
    """Return the table of a finding, and its row there."""
    match found:
        case Interval(partition, hold, until_us, end_event, end_kind):
            values = (hold.member, hold.instance, hold.since_us, until_us, hold.event, end_event, end_kind)
            return INTERVALS, (group, *partition, *values)
        case Gap(partition):
            return GAPS, (group, *partition, *astuple(found)[1:-2])
        case Overlap(partition, first, one, second, other):
            same = first.instance is not None and first.instance == second.instance
            sides = (*_side(first, one), *_side(second, other))
            served_by = [".".join(process) for process in found.served_by]
            times = (found.from_us, found.until_us, found.end_event)
            judgement = (same, found.heard_us, served_by, found.proven)
            return OVERLAPS, (group, *partition, None, *sides, *times, *judgement)
        case ClockProof(ahead, behind, at_least_us, member, event, older_event):
            proof = (ahead[0], behind[0], at_least_us, member, event, older_event, at_least_us > skew_us)
            return CLOCKS, (group, *proof)
        case BadSnapshot():
            return _BAD, found


def _side(hold: Hold, process: Process) -> tuple[str, str, str, str]:
    return hold.member, *process, hold.event


def _write(found: "DataFrame", table: Table, folder: str) -> None:
    table.write(found.where(F.col(table.name).isNotNull()).select(f"{table.name}.*"), folder)


def _write_overlaps(found: "DataFrame", classifier: OverlapClassifier, folder: str) -> None:
    def classify(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.to_pylist()
            yield OVERLAPS.batch([tuple({**row, "class": classifier.class_of(row)}.values()) for row in rows])

    rows = found.where("overlaps is not null").select("overlaps.*")
    OVERLAPS.write(rows.mapInArrow(classify, OVERLAPS.ddl), folder)


def _told_by_clocks(spark: "SparkSession", folder: str) -> list[Any]:
    rows = OVERLAPS.read(spark, folder).where(F.col("class") == CLOCK)
    return rows.select("first_replica", "second_replica").distinct().collect()


def _bad_snapshots(found: "DataFrame") -> "DataFrame":
    return found.where("bad is not null").select(
        F.col("bad.event").alias("source"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        F.col("bad.reason").alias("reason"),
        F.lit(False).alias("superseded"),  # noqa: FBT003 - a literal of Spark's
        F.lit(None).cast("binary").alias("key"),
        F.encode("bad.content", "UTF-8").alias("content"),
    )


def _proofs(clocks: "DataFrame") -> dict[Replicas, int]:
    """Return the largest proof for each two replicas (ahead, behind)."""
    rows = clocks.groupBy("ahead", "behind").agg(F.max("at_least_us").alias("apart")).collect()
    return {(row["ahead"], row["behind"]): row["apart"] for row in rows}


def _handovers(gaps: "DataFrame", found: "DataFrame") -> dict[Replicas, Handovers]:
    """Return the handovers between replicas (from, to), whether they seem to leave a gap or an overlap."""
    overlap = F.col("overlaps")
    left = gaps.where("until_us is not null").select(
        _replica_of("from_event").alias("origin"),
        _replica_of("until_event").alias("target"),
        (F.col("until_us") - F.col("from_us")).alias("took_us"),
    )
    doubled = found.where("overlaps.proven").select(
        overlap["first_replica"].alias("origin"),
        overlap["second_replica"].alias("target"),
        (overlap["from_us"] - overlap["until_us"]).alias("took_us"),
    )
    both = (
        left.unionAll(doubled)
        .groupBy("origin", "target")
        .agg(F.count("*").alias("n"), F.percentile_approx("took_us", SHORTEST).alias("us"))
    )
    return {(row["origin"], row["target"]): Handovers(row["n"], row["us"]) for row in both.collect()}


def _replica_of(event: str) -> "SparkColumn":
    """Return the first part of an event's identity, which may contain dots itself."""
    boot_and_seq = F.substring_index(event, ".", -2)
    return F.left(F.col(event), F.length(event) - F.length(boot_and_seq) - F.lit(1))


def _summary(
    spark: "SparkSession",
    folder: str,
    boots: list[Boot],
    lost: list[Loss],
    skew_us: int,
    clocks: dict[Replicas, int],
) -> Summary:
    overlaps = OVERLAPS.read(spark, folder).groupBy("class").count().collect()
    gaps = GAPS.read(spark, folder).where("until_us is not null")
    gap = gaps.agg(
        F.count("*").alias("count"), F.max(F.col("until_us") - F.col("from_us")).alias("longest")
    ).first()
    groups = INTERVALS.read(spark, folder).select("group").distinct().count()
    return Summary(
        events=sum(boot.events for boot in boots),
        duplicates=sum(boot.duplicates for boot in boots),
        lost=sum(loss.events for loss in lost),
        groups=groups,
        overlaps={row["class"]: row["count"] for row in overlaps},
        gaps=gap["count"] if gap else 0,
        longest_gap_us=(gap["longest"] or 0) if gap else 0,
        skew_us=skew_us,
        clocks=clocks,
        quarantined=quarantine.counts(QUARANTINE.read(spark, folder)),
        unfinished={},
        unread={},
    )
