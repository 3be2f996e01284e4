"""Computes how long members paused and how long groups took to converge, from their members' transitions."""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.progress.output import CONVERGENCES, PAUSES, STUCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STABLE = "Stable"
_IN_ORDER = ("time_us", "replica", "boot", "seq")
_ABOUT = ("mode", "protocol", "software", "client_id", "reason")


def pauses(transitions: "DataFrame") -> "DataFrame":
    """Return the table of pauses: from where a member stops being Stable until it is Stable again or ends."""
    member = Window.partitionBy("group", "member").orderBy(*_IN_ORDER)
    still = ~F.col("state").isin(STABLE, "")
    begins = still & ~F.coalesce(F.lag(still).over(member), F.lit(False))  # noqa: FBT003 - a literal of Spark's
    ends = F.when(
        ~still, F.struct("time_us", F.when(F.col("state") == STABLE, STABLE).otherwise(F.col("kind")))
    )
    numbered = transitions.withColumns({"begins": begins, "ends": ends}).withColumn(
        "number", F.count_if("begins").over(member.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    found = (
        numbered.where("number > 0")
        .groupBy("group", "member", "number")
        .agg(
            F.min("time_us").alias("from_us"),
            F.min("ends").alias("end"),
            F.min_by(F.struct("previous_state", *_ABOUT), F.struct(*_IN_ORDER)).alias("about"),
        )
        .select(
            "group",
            "member",
            "from_us",
            F.col("end.time_us").alias("until_us"),
            F.col("end")["col2"].alias("ended_by"),
            (F.col("about.previous_state") == "").alias("first"),
            *(F.col(f"about.{name}").alias(name) for name in _ABOUT),
        )
    )
    return found.select(*PAUSES.names)


def convergences(found: "DataFrame") -> "DataFrame":
    """Return the table of convergences: overlapping or adjacent pauses of one group, merged."""
    group = Window.partitionBy("group").orderBy("from_us", "until_us", "member")
    before = group.rowsBetween(Window.unboundedPreceding, -1)
    apart = F.col("from_us") > F.coalesce(F.max("until_us").over(before), F.lit(0))
    closed = found.where("until_us is not null").withColumn("apart", apart)
    numbered = closed.withColumn(
        "number", F.count_if("apart").over(group.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    return (
        numbered.groupBy("group", "number")
        .agg(
            F.min("from_us").alias("from_us"),
            F.max("until_us").alias("until_us"),
            F.size(F.collect_set("member")).alias("members"),
            F.count("*").cast("int").alias("pauses"),
        )
        .select(*CONVERGENCES.names)
    )


def stuck(found: "DataFrame", now_us: int, after_s: float) -> "DataFrame":
    """Return the table of stuck members, at ``now_us``."""
    limit_us = now_us - int(after_s * 1_000_000)
    return found.where(F.col("until_us").isNull() & (F.col("from_us") <= limit_us)).select(*STUCK.names)
