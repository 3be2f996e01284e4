"""What the move changed: rebalances of one kind before it and after it settled, the move itself apart.

:mod:`pipeline.rules.gains` says what one rebalance is, and counts them while the journal is written; this does the same
with tables. A member that joins has nothing to stop, so only the pauses of those that stay are counted; on the new
protocol there may be none.
"""

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.progress.pauses import STABLE
from pipeline.report.rows import Rows, rows_of
from pipeline.rules.gains import (
    AFTER,
    APART_S,
    BEFORE,
    CAUSES,
    ENOUGH,
    JOINED,
    KINDS,
    MOVING,
    NOT_MOVED,
    PAUSED,
    PHASES,
    SAME,
    VERDICTS,
)
from pipeline.rules.lines import ENDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LISTED = 15
_ACCURACY = 1000


class Gained(NamedTuple):
    """The comparison. ``kinds`` has a row for each kind and phase, of groups that settled.

    ``compared`` counts pairs of a group and a kind: ``shorter``, ``longer`` and ``same`` by the median of how long a
    rebalance stopped clients, all together, and ``too_few``. ``longer`` has the pairs that became longer.
    """

    kinds: Rows
    compared: dict[str, int]
    longer: Rows


def memberships(transitions: "DataFrame") -> "DataFrame":
    """Return each member with its client, when it was first seen, and how and when it ended; null if it has not.

    An end that a process reports of a member which another one serves since then is none.
    """
    ends = F.col("kind").isin(*sorted(ENDS))
    of_member = transitions.groupBy("group", "member").agg(
        F.max("client_id").alias("client_id"),
        F.min_by("protocol", F.struct("time_us", "seq")).alias("protocol"),
        F.min("time_us").alias("first_us"),
        F.min_by("state", F.struct("time_us", "seq")).alias("state"),
        F.min_by("previous_state", F.struct("time_us", "seq")).alias("previous_state"),
        F.max(F.when(F.col("state") != "", F.col("time_us"))).alias("lived_us"),
        F.max(F.when(ends, F.struct("time_us", "kind"))).alias("end"),
    )
    over = F.col("end.time_us") >= F.coalesce("lived_us", F.lit(0))
    # A member that another process had served appears in PrepareRebalance, one that was converted in place in Stable:
    # neither has joined then. A native member appears in the state that it has.
    appears = F.col("state").isin("CompletingRebalance", F.when(F.col("protocol") == "consumer", STABLE))
    joined = F.coalesce((F.col("previous_state") == "") & appears, F.lit(False))  # noqa: FBT003 - a literal of Spark's
    return of_member.select(
        "group",
        "member",
        "client_id",
        "first_us",
        joined.alias("joined"),
        F.when(over, F.col("end.time_us")).alias("ended_us"),
        F.when(over, F.col("end.kind")).alias("ended_by"),
    )


def clients(members: "DataFrame") -> "DataFrame":
    """Return how many ``clients`` each group had: of each client id as many as were there at the same time.

    A client gets other member ids as it joins again, so memberships are more than clients.
    """
    came = members.select("group", "client_id", F.col("first_us").alias("at_us"), F.lit(1).alias("by"))
    went = members.where("ended_us is not null").select(
        "group", "client_id", F.col("ended_us").alias("at_us"), F.lit(-1).alias("by")
    )
    in_order = Window.partitionBy("group", "client_id").orderBy("at_us", "by")
    there = F.sum("by").over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    most = came.union(went).withColumn("there", there).groupBy("group", "client_id").agg(F.max("there"))
    return most.groupBy("group").agg(F.sum("max(there)").alias("clients"))


def phase(from_us: "Column", until_us: "Column") -> "Column":
    """Return the phase of a span, beside the columns ``moved_us`` and ``settled_us`` of its group."""
    return (
        F.when(F.col("moved_us").isNull(), NOT_MOVED)
        .when(until_us < F.col("moved_us"), BEFORE)
        .when(from_us >= F.col("settled_us"), AFTER)
        .otherwise(MOVING)
    )


def rebalances(members: "DataFrame", pauses: "DataFrame", apart_s: float = APART_S) -> "DataFrame":
    """Return each rebalance with its ``kind``, how many members it ``stopped``, and for how long.

    ``stood_us`` is the sum of their pauses, ``longest_us`` the longest one. ``pauses`` are those that have ended.
    """
    who = {
        "joined": (F.col("joined"), "first_us"),
        "ended": (F.col("ended_us").isNotNull(), "ended_us"),
    }
    nobody = F.lit(None).cast("string").alias("paused")
    changes = [
        members.where(is_so).select(
            "group",
            F.col(at).alias("from_us"),
            F.col(at).alias("until_us"),
            F.lit(JOINED) if what == "joined" else F.col("ended_by"),
            nobody,
        )
        for what, (is_so, at) in who.items()
    ]
    stayed = pauses.where((F.col("ended_by") == STABLE) & ~F.col("first"))
    paused = stayed.select(
        "group", "from_us", "until_us", F.lit(PAUSED).alias("what"), F.col("member").alias("paused")
    )
    every = paused.union(changes[0]).union(changes[1])
    of_group = Window.partitionBy("group").orderBy("from_us", "until_us")
    reached = F.coalesce(
        F.max("until_us").over(of_group.rowsBetween(Window.unboundedPreceding, -1)), F.lit(-(10**18))
    )
    numbered = every.withColumn("apart", F.col("from_us") > reached + int(apart_s * 1_000_000)).withColumn(
        "number", F.count_if("apart").over(of_group.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    took = F.when(F.col("what") == PAUSED, F.col("until_us") - F.col("from_us"))
    seen = {name: F.count_if(F.col("what").isin(*kinds)) for name, kinds in CAUSES.items()}
    return (
        numbered.groupBy("group", "number")
        .agg(
            F.min("from_us").alias("from_us"),
            F.max("until_us").alias("until_us"),
            F.countDistinct("paused").alias("stopped"),
            F.coalesce(F.sum(took), F.lit(0)).alias("stood_us"),
            F.coalesce(F.max(took), F.lit(0)).alias("longest_us"),
            *(count.alias(name) for name, count in seen.items()),
        )
        .withColumn("kind", _kind())
    )


def _kind() -> "Column":
    joins, leaves = F.col("joins") > 0, F.col("leaves") > 0
    return (
        F.when(F.col("kills") > 0, "kill")
        .when(joins & leaves, "deploy")
        .when(joins, "join")
        .when(leaves, "leave")
        .otherwise("other")
    )


def gained(found: "DataFrame", groups: "DataFrame") -> Gained:
    """Compare rebalances of groups that settled (``groups``: see :func:`pipeline.report.move.of_groups`)."""
    settled = groups.where("settled_us is not null").select("group", "moved_us", "settled_us")
    phased = (
        found.join(settled, "group")
        .withColumn("phase", phase(F.col("from_us"), F.col("until_us")))
        .withColumn("stood_ms", F.col("stood_us") / 1000)
        .persist()
    )
    sides = {name: F.col("phase") == side for name, side in (("before", BEFORE), ("after", AFTER))}
    pairs = phased.groupBy("group", "kind").agg(
        *(F.count_if(side).alias(f"{name}_count") for name, side in sides.items()),
        *(
            F.percentile_approx(F.when(side, F.col("stood_ms")), 0.5, _ACCURACY).alias(f"{name}_ms")
            for name, side in sides.items()
        ),
    )
    before, after = F.col("before_ms"), F.col("after_ms")
    few = (F.col("before_count") < ENOUGH) | (F.col("after_count") < ENOUGH)
    verdict = (
        F.when(few, "too_few")
        .when(after > before * (1 + SAME), "longer")
        .when(after < before * (1 - SAME), "shorter")
        .otherwise("same")
    )
    judged = pairs.where("before_count + after_count > 0").withColumn("verdict", verdict).persist()
    try:
        kinds = rows_of(
            phased.groupBy("kind", "phase").agg(
                F.count("*").alias("count"),
                F.countDistinct("group").alias("groups"),
                *(
                    F.percentile_approx(name, 0.5, _ACCURACY).alias(alias)
                    for name, alias in (("stopped", "stopped"), ("stood_ms", "stood_ms"))
                ),
                (F.max("longest_us") / 1000).alias("longest_ms"),
            )
        )
        counts = {row["verdict"]: row["count"] for row in judged.groupBy("verdict").count().collect()}
        return Gained(
            sorted(kinds, key=lambda row: (KINDS.index(row["kind"]), PHASES.index(row["phase"]))),
            {name: counts.get(name, 0) for name in VERDICTS},
            rows_of(
                judged.where("verdict = 'longer'")
                .orderBy(F.desc(after - before), "group", "kind")
                .limit(_LISTED)
            ),
        )
    finally:
        judged.unpersist()
        phased.unpersist()
