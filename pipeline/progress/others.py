"""Derives the groups that have no other protocol to move to, and their members, from the events of these members.

A member is served by the process that reported its newest call, as in the audit; what other processes write of it
meanwhile does not count. It is a member until that process says that it is none any more.
"""

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.progress.output import ASSIGNMENT, OTHER_EVENTS, OTHER_GROUPS, OTHER_MEMBERS
from pipeline.rules.lines import ADOPTED, CALLS, ENDS, NOT_MIGRATING
from pipeline.tables import ddl_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CLASSIC, CONNECT, SHARE, STREAMS = "classic", "connect", "share", "streams"
_IDENTITY = ["replica", "boot", "seq"]
_IN_ORDER = ("time_us", "replica", "boot", "seq")
_OF_MEMBER = ("group", "member")
_FIRST_AND_LAST = (ADOPTED, *sorted(ENDS))
_WORKER = ("url", "config_offset", "leader", "leader_url", "delay_ms")
_CONNECTOR = -1
"""The number that stands for the connector itself among its tasks, as in Connect's own protocol."""


def events_of_others(good: "DataFrame") -> "DataFrame":
    """Return the table of the events that are needed here, from parsed ones."""
    of_others = F.col("protocol").isin(*NOT_MIGRATING)
    of_classic = (F.col("protocol") == CLASSIC) & F.col("kind").isin(*_FIRST_AND_LAST)
    return good.where((F.col("member") != "") & (of_others | of_classic)).select(*OTHER_EVENTS.names)


def members_ever(events: "DataFrame") -> "DataFrame":
    """Return a row for each member of these protocols that there has been, as of its newest event that counts.

    It has the columns of the members' table, ``assignment`` parsed, and ``is_present``, ``leader``, ``leader_url``,
    ``told_us`` (since when its worker's values are the same), ``delay_ms`` and ``longest_delay_ms``.
    """
    member = Window.partitionBy(*_OF_MEMBER).orderBy(*_IN_ORDER)
    process = F.struct("replica", "boot")
    called = F.when(F.col("kind").isin(*sorted(CALLS)), process)
    server = F.last(called, ignorenulls=True).over(
        member.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    counted = (
        events.dropDuplicates(_IDENTITY)
        .withColumn("server", server)
        .where(F.col("server").isNull() | (F.col("server") == process))
    )
    worker = F.when(F.col("url").isNotNull(), F.struct(*_WORKER))
    before = F.last(worker, ignorenulls=True).over(member.rowsBetween(Window.unboundedPreceding, -1))
    told = counted.withColumn("worker", worker).withColumn(
        "told_us", F.when(F.col("worker").isNotNull() & ~F.col("worker").eqNullSafe(before), F.col("time_us"))
    )
    newest = F.struct("time_us", "kind", "state", "client_id", "client_host", "software")
    return (
        told.groupBy(*_OF_MEMBER)
        .agg(
            _newest(F.when(F.col("protocol").isin(*NOT_MIGRATING), F.col("protocol"))).alias("protocol"),
            _newest(newest).alias("newest"),
            _newest(F.col("owned")).alias("owned"),
            _newest(F.col("worker")).alias("worker"),
            F.max("told_us").alias("told_us"),
            F.max("delay_ms").alias("longest_delay_ms"),
        )
        .where("protocol is not null")
        .select(
            *_OF_MEMBER,
            "protocol",
            *(
                F.col(f"newest.{name}").alias(name)
                for name in ("client_id", "client_host", "software", "state")
            ),
            F.col("newest.time_us").alias("updated_us"),
            F.from_json("owned", ddl_of(ASSIGNMENT)).alias("assignment"),
            *(F.col(f"worker.{name}").alias(name) for name in _WORKER),
            (F.col("worker.leader") == F.col("member")).alias("is_leader"),
            (~F.col("newest.kind").isin(*sorted(ENDS))).alias("is_present"),
            "told_us",
            "longest_delay_ms",
        )
    )


def members(ever: "DataFrame") -> "DataFrame":
    """Return the table of members, from :func:`members_ever`."""
    return ever.where("is_present").select(*OTHER_MEMBERS.names)


def groups(ever: "DataFrame", pauses: "DataFrame", now_us: int) -> "DataFrame":
    """Return the table of groups at ``now_us``, from :func:`members_ever` and the table of all pauses."""
    present = F.col("is_present")
    ends_us = F.col("told_us") + F.col("delay_ms") * 1000
    waiting = F.when((F.col("delay_ms") > 0) & (ends_us > now_us), ends_us).alias("waiting_until_us")
    assigned = F.when(present & (F.col("leader_url") != ""), F.struct("leader", "leader_url", waiting))
    by_group = ever.groupBy("group").agg(
        F.max_by("protocol", F.struct("updated_us", "member")).alias("protocol"),
        F.count_if(present).cast("int").alias("members"),
        F.count_if(~present).cast("int").alias("ended_members"),
        F.max("updated_us").alias("updated_us"),
        F.max_by(assigned, F.when(assigned.isNotNull(), F.struct("updated_us", "member"))).alias("assigned"),
        F.max("longest_delay_ms").alias("longest_delay_ms"),
    )
    counted = by_group.join(_assigned(ever), "group", "left").join(_rebalances(pauses), "group", "left")
    return counted.select(
        "group",
        "protocol",
        "members",
        "ended_members",
        F.coalesce("rebalances", F.lit(0)).alias("rebalances"),
        "updated_us",
        *(
            _of(protocol, F.coalesce(name, F.lit(0))).cast("int").alias(name)
            for name, protocol in _COUNTED.items()
        ),
        *(_of(CONNECT, F.col(f"assigned.{name}")).alias(name) for name in ("leader", "leader_url")),
        _of(CONNECT, F.col("assigned.waiting_until_us")).alias("waiting_until_us"),
        _of(CONNECT, F.coalesce("longest_delay_ms", F.lit(0))).alias("longest_delay_ms"),
    ).select(*OTHER_GROUPS.names)


_COUNTED = {
    "partitions": SHARE,
    "active_tasks": STREAMS,
    "standby_tasks": STREAMS,
    "warm_up_tasks": STREAMS,
    "connectors": CONNECT,
    "tasks": CONNECT,
}
"""What is counted of the members' assignments, by column, and of which protocol."""


def _assigned(ever: "DataFrame") -> "DataFrame":
    """Return what the members of each group have. Of a share group several may read the same partition."""
    each = (
        ever.where("is_present")
        .select("group", F.explode("assignment").alias("one"))
        .select("group", _topic().alias("topic"), "one.role", F.explode("one.partitions").alias("number"))
    )
    is_connector = F.col("number") == _CONNECTOR
    return each.groupBy("group").agg(
        F.count_distinct("topic", "number").alias("partitions"),
        *(
            F.count_if(F.col("role") == role).alias(f"{role}_tasks")
            for role in ("active", "standby", "warm_up")
        ),
        F.count_if((F.col("role") == CONNECT) & is_connector).alias("connectors"),
        F.count_if((F.col("role") == CONNECT) & ~is_connector).alias("tasks"),
    )


def _topic() -> "Column":
    """Return what tells topics apart: the names of some are not known, or known later only."""
    return F.coalesce("one.id", "one.topic")


def _rebalances(pauses: "DataFrame") -> "DataFrame":
    """Count how often the first member of a group left Stable (pauses that overlap are one rebalance)."""
    group = Window.partitionBy("group").orderBy("from_us", "member")
    ended_us = F.coalesce("until_us", F.lit(2**62))
    before = F.max(ended_us).over(group.rowsBetween(Window.unboundedPreceding, -1))
    apart = before.isNull() | (F.col("from_us") > before)
    return (
        pauses.withColumn("apart", apart)
        .groupBy("group")
        .agg(F.count_if("apart").cast("int").alias("rebalances"))
    )


def _newest(value: "Column") -> "Column":
    """Return the newest value that is not null."""
    return F.max_by(value, F.when(value.isNotNull(), F.struct(*_IN_ORDER)))


def _of(protocol: str, value: "Column") -> "Column":
    return F.when(F.col("protocol") == protocol, value)
