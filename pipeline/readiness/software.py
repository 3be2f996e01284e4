"""Finds the client software of each group: brokers do not store it, but a proxy in `observe` mode journals it."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.journal import events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "group_id string, software array<string>"


def of_groups(lines: "DataFrame") -> "DataFrame":
    """Return group ids with their clients' software, from lines as ``journal.events`` returns them."""
    told = events.valid(events.parsed(lines, ("group", "software"))).where("`group` != '' and software != ''")
    return told.groupBy(F.col("group").alias("group_id")).agg(
        F.sort_array(F.collect_set("software")).alias("software")
    )


def unknown(spark: "SparkSession") -> "DataFrame":
    """Return an empty table: no software is known."""
    return spark.createDataFrame([], _SCHEMA)
