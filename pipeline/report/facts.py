"""Reads the figures of the report from the tables, with sums that Spark makes: small whatever the fleet's size."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline import location
from pipeline.audit.output import CLOCKS, GAPS, LOSSES, OVERLAPS, PROCESSES
from pipeline.journal.unfinished import UNFINISHED
from pipeline.location import Location
from pipeline.progress.job import windows_written
from pipeline.progress.output import CONVERGENCES, OTHER_GROUPS, PAUSES, STUCK, TRANSITIONS
from pipeline.progress.streams import latest
from pipeline.quarantine import QUARANTINE, counts
from pipeline.readiness.output import GROUPS, VERDICTS, WAVES
from pipeline.readiness.staying import does_not_move
from pipeline.report.left import Left, left
from pipeline.report.move import Move, move, of_groups
from pipeline.report.others import Others, of_progress, of_readiness
from pipeline.report.rebalances import clients, memberships, phase, rebalances
from pipeline.report.rows import Rows, rows_of
from pipeline.rules.classes import VIOLATION
from pipeline.rules.gains import APART_S, PHASES
from pipeline.rules.lines import NOT_MIGRATING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORST = 15
_POINTS = 240
_BINS_PER_TENFOLD = 5


class Readiness(NamedTuple):
    """Figures about the fleet before the migration. ``others`` are the groups that do not have to move."""

    verdicts: Rows
    others: Rows
    reasons: Rows
    waves: Rows
    quarantined: dict[str, int]


class Progress(NamedTuple):
    """Figures about the migration; ``stuck`` and ``others`` alone have the groups of other protocols."""

    fleet: Rows
    move: Move
    pauses: Rows
    quantiles: Rows
    worst: Rows
    stuck: Rows
    convergence: Rows
    others: Others
    late_or_bad: dict[str, int]


class Audit(NamedTuple):
    """Figures about ownership. ``unfinished`` are the journal's files that were not read."""

    totals: dict[str, int]
    losses: Rows
    unfinished: Rows
    overlaps: dict[str, int]
    violations: Rows
    gaps: Rows
    gap_quantiles: Rows
    clocks: Rows
    quarantined: dict[str, int]


def readiness(spark: "SparkSession", folder: Location | Path) -> Readiness:
    """Read the output of ``epochgate pipeline readiness``."""
    where = location.of(folder).uri
    judged, waves = VERDICTS.read(spark, where), WAVES.read(spark, where)
    groups = GROUPS.read(spark, where).withColumn("stays", does_not_move())
    verdicts = judged.join(groups.where("stays"), "group_id", "left_anti")
    reasons = (
        verdicts.select("group_id", F.explode("reasons").alias("reason"))
        .groupBy("reason.code", "reason.blocks")
        .agg(F.countDistinct("group_id").alias("groups"), F.min("reason.text").alias("example"))
        .orderBy(F.desc("blocks"), F.desc("groups"), "code")
    )
    kinds = groups.select("group_id", "kind").join(verdicts, "group_id")
    per_wave = waves.groupBy("wave").agg(
        F.count("*").alias("groups"),
        F.sum("members").alias("members"),
        F.min_by("group_id", "position").alias("first"),
    )
    return Readiness(
        rows_of(kinds.groupBy("kind", "verdict").count().orderBy("kind", "verdict")),
        of_readiness(groups.where("stays")),
        rows_of(reasons.limit(50)),
        rows_of(per_wave.orderBy("wave").limit(50)),
        counts(QUARANTINE.read(spark, where)),
    )


def progress(spark: "SparkSession", folder: Location | Path, apart_s: float = APART_S) -> Progress:
    """Read the output of ``epochgate pipeline progress``; rebalances of a group are ``apart_s`` apart."""
    where = location.of(folder).uri
    others = OTHER_GROUPS.read(spark, where)
    windows = latest(windows_written(spark, where)).join(others, "group", "left_anti").persist()
    groups = of_groups(windows)
    pauses = _migrating(PAUSES.read(spark, where), others).where("until_us is not null")
    members = memberships(_migrating(TRANSITIONS.read(spark, where), others))
    took = pauses.where("not first").withColumn("took_ms", (F.col("until_us") - F.col("from_us")) / 1000)
    phased = took.join(groups, "group", "left").withColumn(
        "phase", phase(F.col("from_us"), F.col("until_us"))
    )
    worst = (
        took.groupBy("group")
        .agg(
            F.count("*").alias("pauses"),
            (F.sum("took_ms") / 1000).alias("stood_s"),
            F.max("took_ms").alias("longest_ms"),
        )
        .orderBy(F.desc("stood_s"), "group")
        .limit(WORST)
    )
    worst = worst.join(clients(members.join(worst, "group", "left_semi")), "group", "left")
    converged = CONVERGENCES.read(spark, where).join(others, "group", "left_anti")
    converged = converged.withColumn("took_ms", (F.col("until_us") - F.col("from_us")) / 1000)
    try:
        return Progress(
            _fleet(windows),
            move(groups, windows, rebalances(members, pauses, apart_s)),
            _binned(phased, "phase"),
            sorted(_quantiles(phased, "phase"), key=lambda row: PHASES.index(row["by"])),
            rows_of(worst.orderBy(F.desc("stood_s"), "group")),
            rows_of(STUCK.read(spark, where).orderBy("from_us").limit(WORST)),
            _quantiles(converged.withColumn("all", F.lit("all groups")), "all"),
            of_progress(spark, where),
            counts(QUARANTINE.read(spark, where)),
        )
    finally:
        windows.unpersist()


def _migrating(rows: "DataFrame", others: "DataFrame") -> "DataFrame":
    """Return the rows without members and groups that have no other protocol to move to."""
    return rows.where(~F.col("protocol").isin(*NOT_MIGRATING)).join(others, "group", "left_anti")


def still_there(spark: "SparkSession", folder: Location | Path, progressed: Location | Path | None) -> Left:
    """Return what is left, from the output of readiness and, if there is one, that of progress."""
    where = location.of(folder).uri
    groups = GROUPS.read(spark, where).where(~does_not_move())
    states = None
    if progressed is not None:
        states = of_groups(latest(windows_written(spark, location.of(progressed).uri)))
    return left(VERDICTS.read(spark, where), groups, states)


def audit(spark: "SparkSession", folder: Location | Path) -> Audit:
    """Read the output of ``epochgate pipeline audit``."""
    where = location.of(folder).uri
    overlaps, gaps = OVERLAPS.read(spark, where), GAPS.read(spark, where)
    closed = gaps.where("until_us is not null").withColumn(
        "took_ms", (F.col("until_us") - F.col("from_us")) / 1000
    )
    processes = PROCESSES.read(spark, where).agg(
        F.coalesce(F.sum("events"), F.lit(0)).alias("events"),
        F.coalesce(F.sum("duplicates"), F.lit(0)).alias("duplicates"),
        F.count("*").alias("processes"),
    )
    losses = LOSSES.read(spark, where).withColumn("events", F.expr("last_seq - first_seq + 1"))
    lost = losses.agg(F.coalesce(F.sum("events"), F.lit(0)).alias("lost"))
    by_process = losses.groupBy("replica", "boot").agg(
        F.sum("events").alias("events"), F.min("from_us").alias("from_us"), F.max("to_us").alias("to_us")
    )
    unfinished: Rows = []
    if UNFINISHED.is_in(spark, where):  # older audits have written none
        unfinished = rows_of(UNFINISHED.read(spark, where).orderBy("file").limit(WORST))
    totals = {
        **rows_of(processes)[0],
        **rows_of(lost)[0],
        "open_gaps": gaps.where("until_us is null").count(),
    }
    clocks = (
        CLOCKS.read(spark, where)
        .where("beyond_skew")
        .groupBy("ahead", "behind")
        .agg(F.max("at_least_us").alias("at_least_us"), F.count("*").alias("proofs"))
    )
    return Audit(
        totals,
        rows_of(by_process.orderBy(F.desc("events"), "replica", "boot").limit(WORST)),
        unfinished,
        {row["class"]: row["count"] for row in overlaps.groupBy("class").count().collect()},
        rows_of(
            overlaps.where(F.col("class") == VIOLATION).orderBy(F.expr("from_us - until_us")).limit(WORST)
        ),
        _binned(closed, "cause"),
        _quantiles(closed, "cause"),
        rows_of(clocks.orderBy(F.desc("at_least_us")).limit(WORST)),
        counts(QUARANTINE.read(spark, where)),
    )


def _fleet(windows: "DataFrame") -> Rows:
    """Return members by protocol over time, in at most a few hundred points, each the maximum within its span."""
    ends = windows.agg(F.min("from_us").alias("first"), F.max("from_us").alias("last")).first()
    if ends is None or ends["first"] is None:
        return []
    width = max((ends["last"] - ends["first"]) // _POINTS, 1)
    point = (F.lit(ends["first"]) + F.floor((F.col("from_us") - ends["first"]) / width) * width).cast(
        "bigint"
    )
    names = ("translated_members", "classic_members", "consumer_members")
    by_group = windows.groupBy(point.alias("at_us"), "group").agg(
        *(F.max(name).alias(name) for name in names), F.sum("rebalanced").alias("rebalanced")
    )
    return rows_of(
        by_group.groupBy("at_us")
        .agg(*(F.sum(name).alias(name) for name in (*names, "rebalanced")))
        .orderBy("at_us")
    )


def _binned(took: "DataFrame", by: str) -> Rows:
    """Count durations in bins of equal ratio; ``from_ms`` is where a bin begins."""
    step = F.floor(F.log10(F.greatest("took_ms", F.lit(0.1))) * _BINS_PER_TENFOLD)
    binned = took.withColumn("from_ms", F.pow(F.lit(10.0), step / _BINS_PER_TENFOLD))
    return rows_of(binned.groupBy(F.col(by).alias("by"), "from_ms").count().orderBy("by", "from_ms"))


def _quantiles(took: "DataFrame", by: str) -> Rows:
    at = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    return rows_of(
        took.groupBy(F.col(by).alias("by"))
        .agg(
            F.count("*").alias("count"),
            *(F.percentile_approx("took_ms", share, 1000).alias(name) for name, share in at.items()),
            F.max("took_ms").alias("longest"),
        )
        .orderBy(F.desc("count"))
    )
