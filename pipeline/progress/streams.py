"""Streams derived from the journal: windows of counts, transitions of members, events of members that have no other
protocol to move to, unreadable lines, and the live audit (:mod:`pipeline.progress.live`).

Each stream has its own checkpoint and writes every result once. All but the windows use Spark's file sink, which logs
the files that belong to it. Windows are updated while they fill, so each batch is written to a folder of its
number: a batch that is repeated after a crash replaces itself.

Events may come late by the watermark's delay, twice, and in any order. Spark drops later ones, and they are counted.
The events of the other protocols are written as they come, and each is counted once when the tables are derived.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.journal import events
from pipeline.progress import live, others
from pipeline.progress.live import LiveAudit
from pipeline.progress.output import COUNTED, OTHER_EVENTS, TRANSITIONS, WINDOWS
from pipeline.quarantine import QUARANTINE
from pipeline.rules.lines import CALL_REFUSED, ENDS, STATE_CHANGED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_IDENTITY = ["replica", "boot", "seq"]
CHECKPOINTS = "_checkpoints"
AUDIT = "audit"
"""The live audit's stream."""
_POOL = "spark.scheduler.pool"
"""Name of the local property that says to which of Spark's pools of tasks the jobs of a thread belong."""


class Audit(NamedTuple):
    """The options of the live audit."""

    skew_us: int = 100_000
    delay_s: float = 15.0
    """How long events wait for those of others. Processes write `alive` events more often than that."""
    shards: int = 4
    every_s: float = 5.0
    files_at_once: int | None = None
    """The limit of a batch, if the journal's files are read."""


class Options(NamedTuple):
    """The options of the streams; durations in Spark's notation (``30 minutes``)."""

    window: str = "1 minute"
    lateness: str = "1 hour"
    stuck_after_s: float = 120.0
    derive_every_s: float = 300.0
    """How often the tables that are derived are written while the journal is followed, at most."""
    audit: Audit | None = None


def deduplicated(good: "DataFrame", lateness: str) -> "DataFrame":
    """Return every event once, with its time as ``at``."""
    timed = good.withColumn("at", F.timestamp_micros("time_us"))
    if not good.isStreaming:
        return timed.dropDuplicates(_IDENTITY)
    return timed.withWatermark("at", lateness).dropDuplicatesWithinWatermark(_IDENTITY)


def windows(unique: "DataFrame", window: str) -> "DataFrame":
    """Return the table of windows, without the batch column."""
    counted = {
        "joined": F.col("kind") == "joined",
        "rebalanced": (F.col("kind") == STATE_CHANGED) & (F.col("state") == "PrepareRebalance"),
        "adopted": F.col("kind") == "adopted",
        "rejoined_after_loss": F.col("kind") == "rejoined_after_loss",
        "left": F.col("kind") == "left",
        "expired": F.col("kind").isin("session_expired", "rebalance_expired"),
        "fenced": F.col("kind") == "fenced",
        "refused": F.col("kind") == CALL_REFUSED,
        "passed_through": F.col("kind") == "passed_through",
    }
    return (
        unique.where("`group` != ''")
        .groupBy("group", F.window("at", window).alias("window"))
        .agg(
            F.max_by("mode", F.struct("time_us", *_IDENTITY)).alias("mode"),
            *(_seen(protocol) for protocol in ("translated", "classic", "consumer")),
            *(F.count_if(counted[name]).alias(name) for name in COUNTED),
            F.count("*").alias("events"),
        )
        .withColumn("from_us", F.unix_micros("window.start"))
        .withColumn("until_us", F.unix_micros("window.end"))
        .select(*WINDOWS.names)
    )


def transitions(unique: "DataFrame") -> "DataFrame":
    """Return the table of transitions."""
    ended = F.col("kind").isin(*sorted(ENDS))
    kept = unique.where(((F.col("kind") == STATE_CHANGED) | ended) & (F.col("member") != ""))
    return kept.withColumn("state", F.when(ended, "").otherwise(F.col("state"))).select(*TRANSITIONS.names)


def latest(windows_read: "DataFrame") -> "DataFrame":
    """Return the newest version of each window from windows as they were written, with their batch."""
    newest = Window.partitionBy("group", "from_us").orderBy(F.desc("batch"))
    return (
        windows_read.withColumn("rank", F.row_number().over(newest)).where("rank = 1").select(*WINDOWS.names)
    )


def start(
    lines: "DataFrame", out: str, options: Options, *, follow_s: float | None
) -> list["StreamingQuery"]:
    """Start all streams.

    With ``follow_s`` they look for more at that interval (seconds); without it they read everything there is, and end.
    """
    rows = events.parsed(lines)
    unique = deduplicated(events.valid(rows), options.lateness)
    of_others = others.events_of_others(events.valid(events.parsed(lines, OTHER_EVENTS.names)))
    writers = {
        WINDOWS.name: windows(unique, options.window)
        .writeStream.outputMode("update")
        .foreachBatch(_replace(out)),
        TRANSITIONS.name: _appending(transitions(unique), f"{out}/{TRANSITIONS.name}"),
        OTHER_EVENTS.name: _appending(of_others, f"{out}/{OTHER_EVENTS.name}"),
        QUARANTINE.name: _appending(events.rejected(rows), f"{out}/{QUARANTINE.name}"),
    }
    return [_start(name, writer, out, follow_s) for name, writer in writers.items()]


def _appending(rows: "DataFrame", folder: str) -> "DataStreamWriter":
    """Write one file a batch: a stream that runs for weeks writes many batches."""
    return rows.repartition(1).writeStream.format("parquet").option("path", folder)


def start_audit(
    lines: "DataFrame", out: str, options: Audit, audit: LiveAudit, follow_s: float | None
) -> "StreamingQuery":
    """Start the stream of the live audit; ``audit`` judges what it tells. With ``follow_s`` it goes on.

    Its tasks get half of the cores, if it needs as many: the tables' batches are longer, and not urgent.
    """
    delay_us = int(options.delay_s * 1_000_000)
    rules = live.Rules(options.shards, options.skew_us, delay_us, options.files_at_once)
    told = live.told(lines, rules)
    writer = told.writeStream.outputMode("append").foreachBatch(audit.write)
    settings, partitions = lines.sparkSession.conf, "spark.sql.shuffle.partitions"
    before = settings.get(partitions)
    settings.set(partitions, str(options.shards))  # the stream takes it when it starts, and keeps it
    context = lines.sparkSession.sparkContext
    context.setLocalProperty(_POOL, AUDIT)  # likewise
    try:
        return _start(AUDIT, writer, out, None if follow_s is None else options.every_s)
    finally:
        settings.set(partitions, before or "")
        context.setLocalProperty(_POOL, None)  # type: ignore[arg-type]  # takes it back


def _start(name: str, writer: "DataStreamWriter", out: str, every_s: float | None) -> "StreamingQuery":
    trigger = {"availableNow": True} if every_s is None else {"processingTime": f"{every_s} seconds"}
    return (
        writer.queryName(name)
        .option("checkpointLocation", f"{out}/{CHECKPOINTS}/{name}")
        .trigger(**trigger)
        .start()
    )


def _replace(out: str) -> Callable[["DataFrame", int], None]:
    def write(batch: "DataFrame", number: int) -> None:
        batch.repartition(1).write.mode("overwrite").parquet(f"{out}/{WINDOWS.name}/batch={number}")

    return write


def _seen(protocol: str) -> "Column":
    members = F.collect_set(
        F.when((F.col("protocol") == protocol) & (F.col("member") != ""), F.col("member"))
    )
    return F.size(members).alias(f"{protocol}_members")
