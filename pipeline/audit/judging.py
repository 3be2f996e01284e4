"""Judges what was found, with what the whole journal says of clocks and losses; sums it up, and checks its quality."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline import quality, quarantine
from pipeline.audit.output import CLOCKS, GAPS, INTERVALS, LOSSES, OVERLAPS
from pipeline.journal.losses import Boot
from pipeline.quality import Check
from pipeline.quarantine import QUARANTINE
from pipeline.rules.classes import (
    CLOCK,
    LOST,
    SHORTEST,
    UNPROVEN,
    VIOLATION,
    Handovers,
    OverlapClassifier,
    Replicas,
    explained_by_clocks,
)
from pipeline.rules.losses import Loss
from pipeline.rules.unfinished import Unfinished
from pipeline.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

_WHICH = ("group", "topic", "partition", "first_event", "second_event", "from_us", "until_us")
"""What tells an overlap from others. None of these is null."""

Read = Callable[[Table], "DataFrame"]
"""Reads a table of this run."""


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


class Clocks(NamedTuple):
    """What is known of clocks that differ, for each two replicas (ahead, behind), in microseconds."""

    proofs: dict[Replicas, int]
    """The largest proof."""
    explains: dict[Replicas, int]
    """The longest overlap that they explain."""


def clocks_of(read: Read, overlaps: "DataFrame", skew_us: int) -> Clocks:
    """Return what all clock proofs and handovers say; ``overlaps`` need no class yet."""
    proofs = _proofs(read(CLOCKS))
    return Clocks(proofs, explained_by_clocks(skew_us, proofs, _handovers(read(GAPS), overlaps)))


def write_losses(
    spark: "SparkSession", lost: "DataFrame", beyond: Iterable[tuple[Unfinished, Loss]], folder: str
) -> None:
    """Write the table of losses: ``lost``, and what is only in files that nobody will finish."""
    of_gone = [loss for file, loss in beyond if file.is_gone]
    LOSSES.write(lost.unionByName(spark.createDataFrame(of_gone, LOSSES.ddl)) if of_gone else lost, folder)


def missing(
    spark: "SparkSession", lost: "DataFrame", beyond: Iterable[tuple[Unfinished, Loss]]
) -> "DataFrame | None":
    """Return what may have happened unseen: ``lost``, and what is in files that are still written; None if nothing."""
    being_written = [loss for file, loss in beyond if not file.is_gone]
    if being_written:
        return lost.unionByName(spark.createDataFrame(being_written, LOSSES.ddl))
    return None if lost.isEmpty() else lost


def classified(
    overlaps: "DataFrame", skew_us: int, clocks: Mapping[Replicas, int], losses: "DataFrame | None"
) -> "DataFrame":
    """Return the overlaps with their class. ``clocks``: the longest overlaps that they explain.

    The driver does not learn the losses, which may be many: their overlaps are found by a sort.
    """
    classifier = OverlapClassifier(skew_us, clocks, ())
    by_clocks = _by(classifier, overlaps)
    if losses is None:
        return by_clocks
    lost = _in_losses(overlaps.where("proven AND NOT same_instance"), losses).withColumn(
        "in_loss", F.lit(LOST)
    )
    is_lost = (F.col("class") == VIOLATION) & F.col("in_loss").isNotNull()
    joined = by_clocks.join(lost, list(_WHICH), "left")
    return joined.withColumn("class", F.when(is_lost, LOST).otherwise(F.col("class"))).select(*OVERLAPS.names)


def _by(classifier: OverlapClassifier, overlaps: "DataFrame") -> "DataFrame":

    def classify(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.to_pylist()
            yield OVERLAPS.batch([tuple({**row, "class": classifier.class_of(row)}.values()) for row in rows])

    return overlaps.select(*OVERLAPS.names).mapInArrow(classify, OVERLAPS.ddl)


def _in_losses(overlaps: "DataFrame", losses: "DataFrame") -> "DataFrame":
    """Return which overlaps have a loss of one of their processes that may touch them.

    Losses and overlaps of a process are sorted together by time: a loss touches an overlap if it begins before the
    overlap ends, and the latest end of all that do is not before the overlap begins.
    """
    asks = overlaps.select(
        *_WHICH,
        F.explode("served_by").alias("process"),
        F.col("until_us").alias("at_us"),
        F.least("heard_us", "from_us").alias("since_us"),
    )
    told = losses.select(
        F.concat_ws(".", "replica", "boot").alias("process"), F.col("from_us").alias("at_us"), "to_us"
    )
    in_order = Window.partitionBy("process").orderBy("at_us", F.col("since_us").isNotNull())
    until_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    both = asks.unionByName(told, allowMissingColumns=True)
    latest = both.withColumn("latest_us", F.max("to_us").over(until_now))
    return latest.where("latest_us >= since_us").select(*_WHICH).distinct()


def summed_up(read: Read, boots: list[Boot], skew_us: int, clocks: Clocks) -> Summary:
    """Return the counts of an audit whose tables are written."""
    told = read(OVERLAPS).where(F.col("class") == CLOCK).select("first_replica", "second_replica")
    used = {(row["first_replica"], row["second_replica"]) for row in told.distinct().collect()}
    overlaps = read(OVERLAPS).groupBy("class").count().collect()
    gap = (
        read(GAPS)
        .where("until_us is not null")
        .agg(F.count("*").alias("count"), F.max(F.col("until_us") - F.col("from_us")).alias("longest"))
        .first()
    )
    lost = read(LOSSES).agg(F.sum(F.expr("last_seq - first_seq + 1")).alias("events")).first()
    return Summary(
        events=sum(boot.events for boot in boots),
        duplicates=sum(boot.duplicates for boot in boots),
        lost=(lost["events"] or 0) if lost else 0,
        groups=read(INTERVALS).select("group").distinct().count(),
        overlaps={row["class"]: row["count"] for row in overlaps},
        gaps=gap["count"] if gap else 0,
        longest_gap_us=(gap["longest"] or 0) if gap else 0,
        skew_us=skew_us,
        clocks={
            pair: us
            for pair, us in clocks.explains.items()
            if pair in used or clocks.proofs.get(pair, 0) > skew_us
        },
        quarantined=quarantine.counts(read(QUARANTINE)),
        unfinished={},
        unread={},
    )


def checked(read: Read, summary: Summary, clocks: Clocks) -> list[Check]:
    """Return the checks of the audit's quality."""
    unknown = read(QUARANTINE).where("reason LIKE 'schema version % is not known'").count()
    share = (
        read(INTERVALS)
        .groupBy("group")
        .count()
        .agg((F.max("count") * F.lit(100) / F.sum("count")).cast("bigint").alias("percent"))
        .first()
    )
    return quality.of_audit(
        quality.OfAudit(
            events=summary.events,
            duplicates=summary.duplicates,
            lost=summary.lost,
            quarantined=sum(summary.quarantined.values()),
            unknown_versions=unknown,
            skew_us=summary.skew_us,
            clocks_apart_us=max(clocks.proofs.values(), default=0),
            unproven=summary.overlaps.get(UNPROVEN, 0),
            in_losses=summary.overlaps.get(LOST, 0),
            largest_group_percent=(share["percent"] or 0) if share else 0,
        )
    )


def _proofs(clocks: "DataFrame") -> dict[Replicas, int]:
    """Return the largest proof for each two replicas (ahead, behind)."""
    rows = clocks.groupBy("ahead", "behind").agg(F.max("at_least_us").alias("apart")).collect()
    return {(row["ahead"], row["behind"]): row["apart"] for row in rows}


def _handovers(gaps: "DataFrame", overlaps: "DataFrame") -> dict[Replicas, Handovers]:
    """Return the handovers between replicas (from, to), whether they seem to leave a gap or an overlap."""
    left = gaps.where("until_us is not null").select(
        _replica_of("from_event").alias("origin"),
        _replica_of("until_event").alias("target"),
        (F.col("until_us") - F.col("from_us")).alias("took_us"),
    )
    doubled = overlaps.where("proven").select(
        F.col("first_replica").alias("origin"),
        F.col("second_replica").alias("target"),
        (F.col("from_us") - F.col("until_us")).alias("took_us"),
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
