"""The report's figures about the move: how far each group is, since when, and what it gained.

How far a group is follows from the members that were seen in its newest window with any: a member that says nothing for
the whole window is not seen, so a group that is moving may be told as moved while some classic members are silent.
"""

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.report.rebalances import Gained, gained
from pipeline.report.rows import Rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOVED, MOVING, BACK, BY_ITSELF, NOT_BEGUN = (
    "moved",
    "moving",
    "moved back",
    "new protocol by itself",
    "not begun",
)
STATES = (MOVED, MOVING, BACK, NOT_BEGUN, BY_ITSELF)
"""In the order in which they are told."""
_POINTS = 240


class Move(NamedTuple):
    """How far the fleet is. ``moved_at`` counts groups by the time of their first translated member, added up."""

    states: dict[str, int]
    moved_at: Rows
    last_us: int
    gained: Gained


def of_groups(windows: "DataFrame") -> "DataFrame":
    """Return each group with its ``state``, and when its move began (``moved_us``) and had settled (``settled_us``).

    It begins with the window in which the first translated member was seen, and has settled after the last one with a
    classic member; null if the group has not moved.
    """
    seen = {name: F.col(f"{name}_members") > 0 for name in ("translated", "classic", "consumer")}
    last = {name: F.max(F.when(there, F.col("from_us"))) for name, there in seen.items()}
    found = windows.groupBy("group").agg(
        F.min(F.when(seen["translated"], F.col("from_us"))).alias("moved_us"),
        F.min(F.when(seen["translated"], F.col("until_us"))).alias("first_until_us"),
        F.max(F.when(seen["classic"], F.col("until_us"))).alias("classic_until_us"),
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
    settled = F.when(state == MOVED, F.greatest("first_until_us", "classic_until_us"))
    return found.select("group", state.alias("state"), "moved_us", settled.alias("settled_us"))


def move(groups: "DataFrame", windows: "DataFrame", found: "DataFrame") -> Move:
    """Sum up groups (see :func:`of_groups`) and their rebalances (:func:`pipeline.report.rebalances.rebalances`)."""
    states = {row["state"]: row["count"] for row in groups.groupBy("state").count().collect()}
    last = windows.agg(F.max("until_us").alias("us")).first()
    return Move(
        {state: states[state] for state in STATES if state in states},
        _added_up(groups),
        (last["us"] if last else None) or 0,
        gained(found, groups),
    )


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
