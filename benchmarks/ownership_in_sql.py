"""A prototype that finds owners, and owners at once, by Spark SQL alone, beside the audit's Python on the same events.

`python -m benchmarks.ownership_in_sql 1000000` parses a journal once, and then finds intervals and overlaps in both
ways, each in its own processes. The prototype has only the main rule: a snapshot that differs from a member's last one
ends and begins ownerships, a membership ends with an event that says so. It knows nothing of processes that fell
silent, of events that are out of date, of clocks, of gaps, of bad snapshots. So it tells what the rest could cost at
least, and finds other overlaps.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from benchmarks.lib.watched_command import watched
from benchmarks.pipeline import BUILD, HEAP, MASTER, journal
from pipeline import spark as sessions
from pipeline.audit import job
from pipeline.audit.findings import rows_of
from pipeline.audit.output import INTERVALS, OVERLAPS
from pipeline.journal import events, losses
from pipeline.rules.lines import ENDS

_OWNED = "array<struct<topic: string, partitions: array<int>>>"
_FLAT = "flatten(transform(owned, one -> transform(one.partitions, number -> struct(one.topic, number))))"
_NONE = "array<struct<topic: string, number: int>>"
_LAST_US = 2**62


def parsed(size: int, spark: SparkSession) -> None:
    """Write the valid events of a journal as Parquet."""
    rows = events.valid(events.parsed(events.from_files(spark, journal(size)[0]), job.READ))
    rows.select(*job.READ).write.mode("overwrite").parquet(str(_parsed(size)))


def _parsed(size: int) -> Path:
    return BUILD / f"parsed-{size}"


def in_python(rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return intervals and overlaps as the audit finds them."""
    with losses.find_losses(rows) as (boots, _):
        found = job.findings(rows, boots, job.DEFAULT_SKEW_US).persist()
    return rows_of(found, INTERVALS), rows_of(found, OVERLAPS)


def in_sql(rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return intervals and overlaps by window functions."""
    told = rows.where(F.col("protocol").isNotNull() & (F.col("group") != "") & (F.col("member") != ""))
    ends = F.col("kind").isin(*ENDS)
    told = told.where(ends | F.col("owned").isNotNull()).withColumn(
        "owned", F.when(ends, "[]").otherwise(F.col("owned"))
    )
    by_member = Window.partitionBy("group", "member").orderBy("time_us", "replica", "boot", "seq")
    changed = told.withColumn("before", F.lag("owned", 1, "[]").over(by_member)).where("owned != before")
    has = changed.select(
        "group",
        "member",
        "time_us",
        F.from_json("owned", _OWNED).alias("owned"),
        F.from_json("before", _OWNED).alias("before"),
    )
    has = has.select(
        "group",
        "member",
        "time_us",
        F.expr(_FLAT).cast(_NONE).alias("now"),
        F.expr(_FLAT.replace("owned", "before")).cast(_NONE).alias("then"),
    )
    begun, ended = F.array_except("now", "then"), F.array_except("then", "now")
    edges = has.select(
        "group",
        "member",
        "time_us",
        F.explode(
            F.concat(
                F.transform(begun, lambda at: F.struct(at.alias("at"), F.lit(True).alias("begins"))),  # noqa: FBT003
                F.transform(ended, lambda at: F.struct(at.alias("at"), F.lit(False).alias("begins"))),  # noqa: FBT003
            )
        ).alias("edge"),
    ).select("group", "member", "time_us", "edge.at.*", "edge.begins")
    of_hold = Window.partitionBy("group", "topic", "number", "member").orderBy("time_us", "begins")
    held = edges.withColumn("until_us", F.coalesce(F.lead("time_us").over(of_hold), F.lit(_LAST_US))).where(
        "begins"
    )
    of_partition = Window.partitionBy("group", "topic", "number").orderBy("time_us", "until_us")
    before = F.max("until_us").over(of_partition.rowsBetween(Window.unboundedPreceding, -1))
    with_before = held.withColumn("held_until_us", before).persist()
    return with_before, with_before.where("held_until_us > time_us")


WAYS: dict[str, Callable[[DataFrame], tuple[DataFrame, DataFrame]]] = {"python": in_python, "sql": in_sql}


def main() -> None:
    """Run both ways, or one in this process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ownership_in_sql", description=__doc__)
    parser.add_argument("events", type=int)
    parser.add_argument("--way", choices=("parse", "start", *WAYS), help="do this in this process")
    chosen = parser.parse_args()
    if chosen.way is None:
        if not _parsed(chosen.events).exists():
            _measured("parse", chosen.events)
        start = _measured("start", chosen.events)
        for way in WAYS:
            cost = _measured(way, chosen.events)
            print(f"{way}: {cost:.0f} CPU s, {cost - start:.0f} without the start")
        return
    spark = sessions.start("benchmark", master=MASTER, conf={"spark.driver.memory": HEAP})
    if chosen.way == "parse":
        parsed(chosen.events, spark)
    else:
        rows = spark.read.parquet(str(_parsed(chosen.events)))
        if chosen.way == "start":
            rows = rows.limit(1_000)
        intervals, overlaps = WAYS["sql" if chosen.way == "start" else chosen.way](rows)
        intervals.write.format("noop").mode("overwrite").save()
        print(
            f"{chosen.way}: {intervals.count():,} intervals, {overlaps.count():,} overlaps", file=sys.stderr
        )
    spark.stop()


def _measured(way: str, size: int) -> float:
    arguments = [sys.executable, "-m", "benchmarks.ownership_in_sql", str(size), "--way", way]
    return float(watched(f"ownership {way}", size, arguments, os.environ, BUILD)["cpu_s"])


if __name__ == "__main__":
    main()
