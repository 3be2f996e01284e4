"""What software the clients of each group are: brokers do not keep it, but a proxy in `observe` mode writes it down."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.journal import events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "group_id string, software array<string>"


def of_groups(lines: "DataFrame") -> "DataFrame":
    """Group ids with the software that their clients told, from lines as ``journal.events`` gives them."""
    told = events.good(events.judged(lines, ("group", "software"))).where("`group` != '' and software != ''")
    return told.groupBy(F.col("group").alias("group_id")).agg(
        F.sort_array(F.collect_set("software")).alias("software")
    )


def unknown(spark: "SparkSession") -> "DataFrame":
    """Nothing is known of any group."""
    return spark.createDataFrame([], _SCHEMA)
