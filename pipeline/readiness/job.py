"""Runs readiness from end to end: records in, tables and policy files out."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline import location, quality, quarantine
from pipeline.file_systems import FileSystems
from pipeline.location import Location
from pipeline.publish import Run, run_of
from pipeline.quality import QUALITY
from pipeline.quarantine import QUARANTINE
from pipeline.readiness import content, groups, policy_file, records, share_partitions, software, superseded
from pipeline.readiness.cluster import OFFSETS_TOPIC, BrokerSettings, Cluster
from pipeline.readiness.output import (
    GROUPS,
    MEMBERS,
    NOT_READY,
    OFFSETS,
    SHARE_PARTITIONS,
    TABLES,
    VERDICTS,
    WAVES,
)
from pipeline.readiness.staying import does_not_move, other_protocol
from pipeline.readiness.verdicts import AT_ONCE, judge
from pipeline.readiness.waves import Candidate, Limits, plan
from pipeline.runs import PARQUET, Form
from pipeline.watch import step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLICY = "policy"


class Options(NamedTuple):
    """The options that a user can set."""

    limits: Limits = Limits()
    allowed_assignors: frozenset[str] = frozenset()


DEFAULTS = Options()


class Summary(NamedTuple):
    """The counts of a run."""

    groups: int
    verdicts: dict[str, int]
    other_protocols: dict[str, int]
    """Those that have nothing to move to, by protocol; they are not ready. See :mod:`pipeline.readiness.staying`."""
    waves: int
    policies: list[Location]
    quarantined: dict[str, int]


def run(
    spark: "SparkSession",
    rows: "DataFrame",
    cluster: Cluster,
    out: Location | Path,
    options: Options = DEFAULTS,
    journal: "DataFrame | None" = None,
    share_rows: "DataFrame | None" = None,
    form: Form = PARQUET,
) -> Summary:
    """Write every table and the policy files into ``out``: the tables of a run hold all at once.

    ``rows`` are records from ``records.captured`` or ``records.from_kafka``, ``journal`` lines from ``journal.events``,
    ``share_rows`` records of the share state topic from ``share_partitions.captured`` or ``records.from_kafka``.
    """
    with run_of(spark, location.of(out), "readiness", form) as into:
        return _run(spark, rows, cluster, into, options, journal, share_rows)


def _run(
    spark: "SparkSession",
    rows: "DataFrame",
    cluster: Cluster,
    into: Run,
    options: Options,
    journal: "DataFrame | None",
    share_rows: "DataFrame | None",
) -> Summary:
    folder = into.folder
    if not rows.inputFiles():  # brokers may delete what is superseded between two readings
        rows = rows.persist(StorageLevel.DISK_ONLY)
    with step(spark, "newest offsets"):
        latest = superseded.newest_offsets(rows)
    checked = records.checked(superseded.dropped(rows, latest)).persist(StorageLevel.DISK_ONLY)
    of_share = share_rows
    if of_share is None:
        of_share = spark.createDataFrame([], records.CAPTURED.ddl)
    share = share_partitions.with_last_snapshot(share_partitions.checked(of_share)).persist(
        StorageLevel.DISK_ONLY
    )
    try:
        with step(spark, "decoding records"):
            newest = records.newest(superseded.one_of_each(checked, latest))
            bad = _quarantined(checked).unionByName(share_partitions.quarantined(share))
            QUARANTINE.write(bad, folder)
        with step(spark, "groups, members, offsets"):
            names = _topic_names(spark, newest, cluster, folder)
            seen = software.unknown(spark) if journal is None else software.of_groups(journal)
            groups.write(newest, names, cluster.settings, seen, folder)
        with step(spark, "share partitions"):
            SHARE_PARTITIONS.write(share_partitions.table(share, cluster), folder)
        with step(spark, "verdicts"):
            VERDICTS.write(_verdicts(spark, folder, cluster.settings, options.allowed_assignors), folder)
        with step(spark, "waves"):
            waves, policies = _write_waves(spark, folder, options)
        counted = VERDICTS.read(spark, folder).groupBy("verdict").count().collect()
        by_verdict = {row["verdict"]: row["count"] for row in counted}
        staying = (
            GROUPS.read(spark, folder).where(does_not_move()).groupBy(other_protocol().alias("protocol"))
        )
        others = {row["protocol"]: row["count"] for row in staying.count().collect()}
        reasons = quarantine.counts(QUARANTINE.read(spark, folder))
        checks = quality.of_readiness(sum(by_verdict.values()), QUARANTINE.read(spark, folder))
        QUALITY.write(spark.createDataFrame(checks, QUALITY.ddl).coalesce(1), folder)
        into.commit((*TABLES, QUARANTINE, QUALITY))
        written = _replace_policies(FileSystems(spark), into.out / POLICY, policies)
        return Summary(sum(by_verdict.values()), by_verdict, others, waves, written, reasons)
    finally:
        share.unpersist()
        checked.unpersist()
        latest.words.unpersist()
        rows.unpersist()


def _quarantined(checked: "DataFrame") -> "DataFrame":
    return checked.where(F.col("reason").isNotNull()).select(
        F.lit(OFFSETS_TOPIC).alias("source"),
        "partition",
        "offset",
        "reason",
        (F.col("group_id").isNotNull() & ~F.col("newest")).alias("superseded"),
        "key",
        F.col("value").alias("content"),
    )


def _topic_names(spark: "SparkSession", newest: "DataFrame", cluster: Cluster, folder: str) -> dict[str, str]:
    """Return topic names by id, from the cluster and from commits (which name topics deleted meanwhile)."""
    OFFSETS.write(content.offsets(newest), folder)
    told = OFFSETS.read(spark, folder).where("topic_id is not null").select("topic_id", "topic").distinct()
    return {row["topic_id"]: row["topic"] for row in told.collect()} | cluster.topic_names


def _verdicts(
    spark: "SparkSession", folder: str, broker: BrokerSettings, allowed: frozenset[str]
) -> "DataFrame":
    members = MEMBERS.read(spark, folder)
    together = members.groupBy(F.col("group_id").alias("of_group")).agg(
        F.collect_list(F.struct(*members.columns)).alias("its_members")
    )
    rows = GROUPS.read(spark, folder)
    rows = rows.join(together, rows["group_id"] == together["of_group"], "left").drop("of_group")

    def judge_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            judged = []
            for group in batch.to_pylist():
                verdict, reasons = judge(group, group["its_members"] or (), broker, allowed)
                judged.append((group["group_id"], verdict, [reason._asdict() for reason in reasons]))
            yield VERDICTS.batch(judged)

    return rows.mapInArrow(judge_groups, VERDICTS.ddl)


def _write_waves(spark: "SparkSession", folder: str, options: Options) -> tuple[int, list[tuple[str, bytes]]]:
    """Plan the waves on the driver, because each depends on the one before: one small row per group that can move.

    Returns how many there are, and the policy files: name and content.
    """
    groups_read, verdicts = GROUPS.read(spark, folder), VERDICTS.read(spark, folder)
    movable = groups_read.where("kind = 'classic'").join(
        verdicts.where(F.col("verdict") != NOT_READY), "group_id"
    )
    at_once = F.exists("reasons", lambda reason: reason["code"].isin(*AT_ONCE))
    moved_at_once = {row["group_id"] for row in verdicts.where(at_once).select("group_id").collect()}
    candidates = (
        Candidate(row["group_id"], row["members"], row["last_commit_ms"], row["verdict"])
        for row in movable.select("group_id", "members", "last_commit_ms", "verdict").toLocalIterator()
    )
    places = list(plan(candidates, options.limits))
    allowed = sorted(options.allowed_assignors)
    rows = [
        (
            one.group_id,
            place.wave,
            place.position,
            one.members,
            one.last_commit_ms,
            one.verdict,
            one.group_id in moved_at_once,
            allowed,
        )
        for place in places
        for one in (place.candidate,)
    ]
    WAVES.write(spark.createDataFrame(rows, WAVES.ddl).coalesce(1), folder)
    made = policy_file.contents(places, assignors_allowed=options.allowed_assignors)
    return (places[-1].wave if places else 0), list(made)


def _replace_policies(
    files: FileSystems, folder: Location, made: Iterable[tuple[str, bytes]]
) -> list[Location]:
    """Write the policy files in place of those of an earlier run."""
    files.make_folder(folder)
    for name in files.names(folder):
        if policy_file.is_generated(name):
            files.delete(folder / name)
    written = []
    for name, text in made:
        files.write(folder / name, text)
        written.append(folder / name)
    return written
