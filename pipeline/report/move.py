"""The report's figures about the move: how far each group is, since when, and whether its pauses became shorter.

How far a group is follows from the members that were seen in its newest window with any: a member that says nothing for
the whole window is not seen, so a group that is moving may be told as moved while some classic members are silent.
"""

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.report.rows import Rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOVED, MOVING, BACK, BY_ITSELF, NOT_BEGUN = (
    "moved",
    "moving",
    "moved back",
    "new protocol by itself",
    "not begun",
)
STATES = (MOVED, MOVING, BACK, NOT_BEGUN, BY_ITSELF)
"""In the order in which they are told."""
BEFORE, AFTER = "classic", "translated"
"""Protocols of members before the move and after it."""
_POINTS = 240
_LISTED = 15
_SAME = 0.1
"""Medians that differ by less than this share count as equal."""


class Move(NamedTuple):
    """How far the fleet is. ``moved_at`` counts groups by the time of their first translated member, added up.

    ``gained`` and ``longer`` are about groups whose members paused both before and after the move.
    """

    states: dict[str, int]
    moved_at: Rows
    last_us: int
    compared: dict[str, int]
    gained: Rows
    longer: Rows


def of_groups(windows: "DataFrame") -> "DataFrame":
    """Return each group with its ``state`` and ``moved_us``: when its first translated member was seen, or null."""
    seen = {name: F.col(f"{name}_members") > 0 for name in ("translated", "classic", "consumer")}
    last = {name: F.max(F.when(there, F.col("from_us"))) for name, there in seen.items()}
    found = windows.groupBy("group").agg(
        F.min(F.when(seen["translated"], F.col("from_us"))).alias("moved_us"),
        *(us.alias(name) for name, us in last.items()),
    )
    newest = F.greatest("translated", "classic")
    state = (
        F.when(newest.isNull(), F.when(F.col("consumer").isNotNull(), BY_ITSELF).otherwise(NOT_BEGUN))
        .when(F.col("translated") == F.col("classic"), MOVING)
        .when(F.col("translated") == newest, MOVED)
        .when(F.col("moved_us").isNotNull(), BACK)
        .otherwise(NOT_BEGUN)
    )
    return found.select("group", state.alias("state"), "moved_us")


def move(groups: "DataFrame", windows: "DataFrame", took: "DataFrame") -> Move:
    """Sum up groups (see :func:`of_groups`), and pauses with how long they took (``took_ms``)."""
    states = {row["state"]: row["count"] for row in groups.groupBy("state").count().collect()}
    last = windows.agg(F.max("until_us").alias("us")).first()
    both = took.where(F.col("protocol").isin(BEFORE, AFTER))
    medians = (
        both.groupBy("group")
        .agg(*(one for protocol in (BEFORE, AFTER) for one in _of_protocol(protocol)))
        .where(f"{BEFORE}_median is not null and {AFTER}_median is not null")
        .persist()
    )
    before, after = F.col(f"{BEFORE}_median"), F.col(f"{AFTER}_median")
    longer = after > before * (1 + _SAME)
    try:
        counts = medians.agg(
            F.count("*").alias("groups"),
            F.count_if(after < before * (1 - _SAME)).alias("shorter"),
            F.count_if(longer).alias("longer"),
        ).first()
        return Move(
            {state: states[state] for state in STATES if state in states},
            _added_up(groups),
            (last["us"] if last else None) or 0,
            counts.asDict() if counts else {},
            _quantiles(both.join(medians.select("group"), "group", "left_semi")),
            rows_of(medians.where(longer).orderBy(F.desc(after - before), "group").limit(_LISTED)),
        )
    finally:
        medians.unpersist()


def _of_protocol(protocol: str) -> tuple["Column", "Column"]:
    """Return the median and the number of a group's pauses with this protocol."""
    took = F.when(F.col("protocol") == protocol, F.col("took_ms"))
    return F.percentile_approx(took, 0.5, 1000).alias(f"{protocol}_median"), F.count(took).alias(
        f"{protocol}_pauses"
    )


def _quantiles(took: "DataFrame") -> Rows:
    at = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    found = rows_of(
        took.groupBy(F.col("protocol").alias("by")).agg(
            F.count("*").alias("count"),
            *(F.percentile_approx("took_ms", share, 1000).alias(name) for name, share in at.items()),
            F.max("took_ms").alias("longest"),
        )
    )
    return sorted(found, key=lambda row: (BEFORE, AFTER).index(row["by"]))


def _added_up(groups: "DataFrame") -> Rows:
    """Return how many groups had moved by when, in at most a few hundred points."""
    began = groups.where("moved_us is not null")
    ends = began.agg(F.min("moved_us").alias("first"), F.max("moved_us").alias("last")).first()
    if ends is None or ends["first"] is None:
        return []
    width = max((ends["last"] - ends["first"]) // _POINTS, 1)
    point = F.floor((F.col("moved_us") - ends["first"]) / width)
    counted = rows_of(began.groupBy(point.alias("point")).count().orderBy("point"))
    found, total = [], 0
    for row in counted:
        total += row["count"]
        found.append({"at_us": ends["first"] + row["point"] * width, "groups": total})
    return found
