"""The report's figures about groups that have no other protocol to move to. No figure about the migration has them."""

from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.progress.output import OTHER_GROUPS, OTHER_MEMBERS
from pipeline.readiness.staying import other_protocol
from pipeline.report.rows import Rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST = 100
"""Groups that are listed one by one, and members of these."""

_CONNECT = "connect"
_CONNECTOR = -1


class Others(NamedTuple):
    """Counts by protocol, then groups and members up to :data:`MOST`. ``has`` names what a member has assigned."""

    totals: Rows
    groups: Rows
    members: Rows


def of_readiness(groups: "DataFrame") -> Rows:
    """Count such groups of readiness, and their members as far as they are known."""
    return rows_of(
        groups.groupBy(other_protocol().alias("protocol"))
        .agg(F.count("*").alias("groups"), F.sum("members").alias("members"))
        .orderBy("protocol")
    )


def of_progress(spark: "SparkSession", folder: str) -> Others:
    """Read what progress has written of such groups: those with most members first."""
    groups = OTHER_GROUPS.read(spark, folder)
    listed = groups.orderBy(F.desc("members"), "protocol", "group").limit(MOST)
    members = OTHER_MEMBERS.read(spark, folder).join(listed.select("group"), "group")
    counts = (F.sum(name).alias(name) for name in ("members", "rebalances"))
    return Others(
        rows_of(groups.groupBy("protocol").agg(F.count("*").alias("groups"), *counts).orderBy("protocol")),
        rows_of(listed),
        [
            {**member, "has": ", ".join(names(member["assignment"]))}
            for member in rows_of(members.orderBy("protocol", "group", "member").limit(MOST))
        ],
    )


def names(assignment: list[dict[str, Any]] | None) -> list[str]:
    """Name partitions, tasks and connectors as Kafka does: ``orders-0``, ``0_1``, Connect's ``sink`` and ``sink-0``."""
    return sorted(_name(one, number) for one in assignment or () for number in one["partitions"])


def _name(one: dict[str, Any], number: int) -> str:
    if one["role"] is None:
        return f"{one['topic'] or one['id']}-{number}"
    if one["role"] == _CONNECT:
        return one["topic"] if number == _CONNECTOR else f"{one['topic']}-{number}"
    task = f"{one['topic']}_{number}"
    return task if one["role"] == "active" else f"{task} ({one['role'].replace('_', '-')})"
