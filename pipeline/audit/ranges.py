"""Which of a process's events are here, as ranges of their numbers: small, and yesterday's and today's make one.

The same answer as :mod:`pipeline.journal.losses`, which looks at all events, where a number never comes twice with two
times.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.journal.losses import Boot
from pipeline.tables import LONG, TEXT, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RANGES = Table(
    "ranges",
    "Events of a process whose numbers have no hole.",
    (
        Column("replica", TEXT, "the replica"),
        Column("boot", TEXT, "its boot"),
        Column("first_seq", LONG, "the first number"),
        Column("last_seq", LONG, "the last number"),
        Column("at_first_us", LONG, "the time of the first"),
        Column("at_last_us", LONG, "the time of the last"),
        Column("first_us", LONG, "the earliest time"),
        Column("last_us", LONG, "the latest time"),
        Column("lines", LONG, "lines, those that came twice too"),
    ),
)
_PROCESS = ("replica", "boot")
_AT_ONCE = 32_768
"""So many numbers are sorted together."""


def of_events(events: "DataFrame") -> "DataFrame":
    """Return the ranges of events with ``replica``, ``boot``, ``seq`` and ``time_us``, not joined into the longest."""
    numbers = events.groupBy(*_PROCESS, "seq").agg(
        F.max("time_us").alias("at_us"), F.min("time_us").alias("first_us"), F.count("*").alias("lines")
    )
    block = F.floor(F.col("seq") / _AT_ONCE).alias("block")
    placed = numbers.select("*", block)
    in_order = Window.partitionBy(*_PROCESS, "block").orderBy("seq")
    island = placed.withColumn("island", F.col("seq") - F.row_number().over(in_order))
    return island.groupBy(*_PROCESS, "block", "island").agg(
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
        F.min_by("at_us", "seq").alias("at_first_us"),
        F.max_by("at_us", "seq").alias("at_last_us"),
        F.min("first_us").alias("first_us"),
        F.max("at_us").alias("last_us"),
        F.sum("lines").alias("lines"),
    ).select(*RANGES.names)  # fmt: skip


def joined(ranges: "DataFrame") -> "DataFrame":
    """Return the longest ranges that these make together; they may overlap."""
    in_order = Window.partitionBy(*_PROCESS).orderBy("first_seq", "last_seq")
    before = F.max("last_seq").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce((F.col("first_seq") > before + 1).cast("int"), F.lit(1))
    running = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    islands = ranges.withColumn("begins", begins).withColumn("island", F.sum("begins").over(running))
    return islands.groupBy(*_PROCESS, "island").agg(
        F.min("first_seq").alias("first_seq"),
        F.max("last_seq").alias("last_seq"),
        F.min_by("at_first_us", "first_seq").alias("at_first_us"),
        F.max_by("at_last_us", "last_seq").alias("at_last_us"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
        F.sum("lines").alias("lines"),
    ).select(*RANGES.names)  # fmt: skip


def boots_of(ranges: "DataFrame") -> list[Boot]:
    """Return the processes. They are few: each is a start of one."""
    rows = ranges.groupBy(*_PROCESS).agg(
        F.min("first_us"),
        F.max("last_us"),
        F.max("last_seq"),
        F.sum(F.expr("last_seq - first_seq + 1")).alias("events"),
        F.sum(F.expr("lines - (last_seq - first_seq + 1)")),
    )
    return [Boot(*row) for row in rows.orderBy(*_PROCESS).collect()]


def losses_of(ranges: "DataFrame") -> "DataFrame":
    """Return what is missing between the ranges and before the first, with the columns of the table of losses."""
    in_order = Window.partitionBy(*_PROCESS).orderBy("first_seq")
    before = F.greatest(F.lag("last_seq", 1, 0).over(in_order), F.lit(0))
    holes = ranges.select(
        *_PROCESS,
        (before + 1).alias("hole_begins"),
        (F.greatest("first_seq", F.lit(1)) - 1).alias("hole_ends"),
        F.coalesce(F.lag("at_last_us").over(in_order), F.lit(0)).alias("from_us"),
        F.col("at_first_us").alias("to_us"),
    ).where("hole_ends >= hole_begins")
    return holes.withColumnsRenamed({"hole_begins": "first_seq", "hole_ends": "last_seq"})
