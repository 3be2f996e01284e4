"""Builds the tables of groups and members from records of all their types."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.readiness import content
from pipeline.readiness.cluster import BrokerSettings
from pipeline.readiness.output import GROUPS, MEMBERS, OFFSETS
from pipeline.readiness.records import SHARE_TYPES, STREAMS_TYPES
from protocol_codecs.records import RecordType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ABOUT = ("kind", "protocol_type", "protocol", "state", "epoch", "assignment_epoch", "leader")
_NOTHING_ASSIGNED = "array<struct<topic: string, topic_id: string, partitions: array<int>>>"


def write(
    newest: "DataFrame",
    topic_names: Mapping[str, str],
    broker: BrokerSettings,
    software: "DataFrame",
    folder: str,
) -> None:
    """Write the tables of groups and members; the table of offsets must exist. ``software`` comes from software.py."""
    spark = newest.sparkSession
    classic = content.classic(newest).persist(StorageLevel.DISK_ONLY)
    consumer = _consumer(content.consumer(newest, topic_names)).persist(StorageLevel.DISK_ONLY)
    share = _consumer(content.share(newest, topic_names)).persist(StorageLevel.DISK_ONLY)
    try:
        members = _classic_members(classic).unionByName(_consumer_members(consumer))
        MEMBERS.write(members.unionByName(_consumer_members(share)), folder)
        members, offsets = MEMBERS.read(spark, folder), OFFSETS.read(spark, folder)
        found = (
            _consumer_groups(consumer, broker)
            .unionByName(_classic_groups(classic), allowMissingColumns=True)
            .unionByName(_share_groups(share), allowMissingColumns=True)
            .unionByName(_by_type(newest), allowMissingColumns=True)
        )
        one_each = found.groupBy("group_id").agg(
            F.min_by(F.struct(*_ABOUT), "rank").alias("about"),
            F.max("coordinator_partition").alias("coordinator_partition"),
            F.max("unreadable_records").alias("unreadable_records"),
        )
        counted = _counted(one_each.select("*", "about.*"), members, offsets)
        GROUPS.write(counted.join(software, "group_id", "left"), folder)
    finally:
        share.unpersist()
        consumer.unpersist()
        classic.unpersist()


def _classic_members(classic: "DataFrame") -> "DataFrame":
    return classic.select("group_id", F.explode("members").alias("member")).select("group_id", "member.*")


def _classic_groups(classic: "DataFrame") -> "DataFrame":
    return classic.select(
        "group_id",
        F.lit(2).alias("rank"),
        F.lit("classic").alias("kind"),
        "protocol_type",
        F.coalesce("protocol", F.lit("")).alias("protocol"),
        F.when(F.size("members") == 0, "Empty").otherwise("Stable").alias("state"),
        "epoch",
        "leader",
        "coordinator_partition",
    )


def _consumer(facts: "DataFrame") -> "DataFrame":
    """Return one row for each group of the new protocol, or each share group, with its members."""
    numbers = ("coordinator_partition", "epoch", "assignment_epoch", "assignor", "member_epoch", "stable")
    lists = ("declared", "target", "assignment")
    merged = facts.groupBy("group_id", "member_id").agg(
        *(F.max(name).alias(name) for name in numbers),
        *(F.first(name, ignorenulls=True).alias(name) for name in lists),
    )
    member = F.struct("declared", "target", "assignment", "member_epoch", "stable")
    return (
        merged.groupBy("group_id")
        .agg(
            *(F.max(name).alias(name) for name in ("coordinator_partition", "epoch", "assignment_epoch")),
            F.mode("assignor", True).alias("assignor"),  # noqa: FBT003 - pyspark's way to ask for one answer in a tie
            F.collect_list(F.when(F.col("declared").isNotNull(), member)).alias("members"),
        )
        .where("epoch is not null")
    )


def _consumer_members(groups: "DataFrame") -> "DataFrame":
    one = groups.select("group_id", "assignment_epoch", F.explode("members").alias("member"))
    nothing = F.array().cast(_NOTHING_ASSIGNED)
    from_records = {
        "assignment": F.coalesce("member.assignment", nothing),
        "target": F.coalesce("member.target", nothing),
        "member_epoch": F.col("member.member_epoch"),
        "reconciled": _reconciled(F.col("member")),
    }
    declared = (name for name in MEMBERS.names if name != "group_id" and name not in from_records)
    return one.select(
        "group_id",
        *(F.col(f"member.declared.{name}").alias(name) for name in declared),
        *(column.alias(name) for name, column in from_records.items()),
    )


def _reconciled(member: Column) -> Column:
    """Whether a member has reached the target assignment, by the rule of the broker's coordinator."""
    there = member["member_epoch"] == F.col("assignment_epoch")
    return F.coalesce(member["stable"] & there, F.lit(False))  # noqa: FBT003 - a literal of Spark's


def _consumer_groups(groups: "DataFrame", broker: BrokerSettings) -> "DataFrame":
    """Return groups of the new protocol; the state follows from the records as in the broker's coordinator."""
    state = (
        F.when(F.size("members") == 0, "Empty")
        .when(F.col("epoch") > F.coalesce("assignment_epoch", F.lit(0)), "Assigning")
        .when(~F.forall("members", _reconciled), "Reconciling")
        .otherwise("Stable")
    )
    default = broker.group_consumer_assignors.split(",", maxsplit=1)[0].strip()
    return groups.select(
        "group_id",
        F.lit(1).alias("rank"),
        F.lit("consumer").alias("kind"),
        F.lit("consumer").alias("protocol_type"),
        F.coalesce("assignor", F.lit(default)).alias("protocol"),
        state.alias("state"),
        "epoch",
        "assignment_epoch",
        F.lit(None).cast("string").alias("leader"),
        "coordinator_partition",
    )


def _share_groups(groups: "DataFrame") -> "DataFrame":
    """Return share groups. Kafka knows no other states of them than these, and no other assignor."""
    return groups.select(
        "group_id",
        F.lit(3).alias("rank"),
        F.lit("share").alias("kind"),
        F.lit("share").alias("protocol_type"),
        F.lit("simple").alias("protocol"),
        F.when(F.size("members") == 0, "Empty").otherwise("Stable").alias("state"),
        "epoch",
        "assignment_epoch",
        "coordinator_partition",
    )


def _by_type(newest: "DataFrame") -> "DataFrame":
    """Return groups classified by the types of their records; for streams groups that is all.

    It includes groups whose own record cannot be read, so that they get a verdict.
    """
    number = F.col("type")
    consumer = (*content.CONSUMER_TYPES, int(RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION))
    kinds = (
        ("share", 4, SHARE_TYPES),
        ("streams", 5, STREAMS_TYPES),
        ("classic", 6, (int(RecordType.GROUP_METADATA),)),
        ("consumer", 7, consumer),
        ("simple", 8, content.OFFSET_TYPES),
    )
    kind = F.coalesce(*(F.when(number.isin(*types), name) for name, _, types in kinds))
    rank = F.coalesce(*(F.when(F.col("kind") == name, rank) for name, rank, _ in kinds))
    unreadable = F.col("reason").isNotNull()
    telling = F.col("value").isNotNull() & (
        unreadable | ~number.isin(*consumer, int(RecordType.GROUP_METADATA))
    )
    protocol_type = F.when(F.col("kind").isin("consumer", "share"), F.col("kind")).otherwise("")
    return (
        newest.where(telling)
        .withColumn("kind", kind)
        .groupBy("group_id", "kind")
        .agg(
            F.max("partition").alias("coordinator_partition"),
            F.count_if(unreadable).alias("unreadable_records"),
        )
        .select(
            "group_id",
            "coordinator_partition",
            "unreadable_records",
            rank.alias("rank"),
            "kind",
            protocol_type.alias("protocol_type"),
            F.lit("").alias("protocol"),
            F.when(F.col("kind") == "simple", "Empty").alias("state"),
        )
    )


def _counted(groups: "DataFrame", members: "DataFrame", offsets: "DataFrame") -> "DataFrame":
    of_members = members.groupBy("group_id").agg(
        F.count("*").cast("int").alias("members"), F.count("instance_id").cast("int").alias("static_members")
    )
    of_offsets = offsets.groupBy("group_id").agg(
        F.count("*").cast("int").alias("partitions"), F.max("commit_time_ms").alias("last_commit_ms")
    )
    unknown = F.col("kind").isin("share", "streams") & F.col("state").isNull()
    nothing = F.when(unknown, F.lit(None)).otherwise(F.lit(0))
    counted = groups.join(of_members, "group_id", "left").join(of_offsets, "group_id", "left")
    return counted.withColumns(
        {
            "members": F.coalesce("members", nothing),
            "static_members": F.coalesce("static_members", nothing),
            "partitions": F.coalesce("partitions", F.lit(0)),
            "unreadable_records": F.coalesce("unreadable_records", F.lit(0)),
        }
    )
