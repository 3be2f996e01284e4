"""What is left to move and what blocks it: readiness's verdicts beside how far the journal says that each group is."""

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.readiness.output import NOT_READY
from pipeline.report.move import BY_ITSELF, MOVED
from pipeline.report.rows import Rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST = 20
"""Groups that are listed one by one: the largest first."""
NOT_SEEN = "not seen"
"""State of a group of which the journal has nothing."""


class Left(NamedTuple):
    """Groups that have not moved, by verdict and state, why those can't move, and the largest of these."""

    counts: Rows
    reasons: Rows
    largest: Rows


def left(verdicts: "DataFrame", groups: "DataFrame", states: "DataFrame | None") -> Left:
    """Return what is left. ``groups`` have ``members``; without ``states`` nobody knows what has moved."""
    known = verdicts.join(groups.select("group_id", "members", "kind"), "group_id")
    if states is None:
        still = known.withColumn("state", F.lit(NOT_SEEN))
    else:
        seen = states.select(F.col("group").alias("group_id"), "state")
        still = known.join(seen, "group_id", "left").fillna(NOT_SEEN, ["state"])
    still = still.where(~F.col("state").isin(MOVED, BY_ITSELF) & (F.col("kind") == "classic")).persist()
    blocked = still.where(F.col("verdict") == NOT_READY)
    blocking = blocked.select("group_id", "members", F.explode("reasons").alias("reason")).where(
        "reason.blocks"
    )
    try:
        return Left(
            rows_of(still.groupBy("verdict", "state").count().orderBy("verdict", "state")),
            rows_of(
                blocking.groupBy(F.col("reason.code").alias("code"))
                .agg(
                    F.countDistinct("group_id").alias("groups"),
                    F.sum("members").alias("members"),
                    F.min("reason.text").alias("example"),
                )
                .orderBy(F.desc("groups"), "code")
            ),
            rows_of(
                blocking.groupBy("group_id")
                .agg(F.max("members").alias("members"), F.collect_set("reason.code").alias("codes"))
                .withColumn("codes", F.array_sort("codes"))
                .orderBy(F.desc("members"), "group_id")
                .limit(MOST)
            ),
        )
    finally:
        still.unpersist()
