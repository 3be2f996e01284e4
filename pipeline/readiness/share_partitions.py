"""Builds the table of share partitions from the records of ``__share_group_state``.

The topic is not compacted: a share partition's state is its last snapshot with the updates after it. Both have keys of
their own, which are the same but for the record type, and are in one partition of the topic.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline import location
from pipeline.file_systems import FileSystems
from pipeline.location import Location
from pipeline.readiness.cluster import SHARE_STATE_TOPIC, Cluster
from pipeline.readiness.output import SHARE_PARTITIONS
from pipeline.readiness.records import CAPTURED
from pipeline.readiness.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    ShareState,
    state_of,
)
from pipeline.tables import INT, TEXT, Column, Table
from protocol_codecs import CodecError, uuid_to_text
from protocol_codecs.records import (
    ShareSnapshotKey,
    ShareStateRecordType,
    ShareUpdateKey,
    decode_share_state_record,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CAPTURED_SHARE_RECORDS = "share_records"
_PREFIX_SIZE = 2
_UNKNOWN = -1
_MAX_LONG = (1 << 63) - 1
_IDENTITY = ("group_id", "topic_id", "share_partition")

CAPTURED_SHARE = Table(
    CAPTURED_SHARE_RECORDS,
    "The records of `__share_group_state` as `epochgate capture` wrote them. There is no such folder where the cluster "
    "has no such topic, or it may not be read.",
    CAPTURED.columns,
)
CHECKED_SHARE = Table(
    "checked_share",
    "Every record with what its key says.",
    (
        *CAPTURED.columns,
        Column("type", INT, "the record type, by Kafka's number; -1 if the key has none"),
        Column("group_id", TEXT, "the group that the key names; null if it cannot be read"),
        Column("topic_id", TEXT, "the topic that the key names, in Kafka's text form"),
        Column("share_partition", INT, "the partition that the key names"),
        Column("reason", TEXT, "why the record cannot be read; null if it can"),
    ),
)

Checked = tuple[int, str | None, str | None, int | None, str | None]


def captured(spark: "SparkSession", folder: Location | Path) -> "DataFrame | None":
    """Read the records that ``epochgate capture`` wrote to ``folder``; None if it wrote none of this topic."""
    path = location.of(folder) / CAPTURED_SHARE_RECORDS
    if not FileSystems(spark).is_folder(path):
        return None
    return spark.read.schema(CAPTURED_SHARE.ddl).parquet(path.uri)


def check(key: bytes | None, value: bytes | None) -> Checked:
    """Return record type, group, topic, partition and error (null if there is none) of one record."""
    if key is None or len(key) < _PREFIX_SIZE:
        return _UNKNOWN, None, None, None, "the record has no key" if key is None else "the key is cut off"
    number = int.from_bytes(key[:_PREFIX_SIZE], "big", signed=True)
    try:
        record = decode_share_state_record(key, None)
    except CodecError as error:
        return number, None, None, None, str(error)
    if record is None or not isinstance(record.key, ShareSnapshotKey | ShareUpdateKey):
        return number, None, None, None, f"record type {number} is unknown"
    named = record.key.group_id, uuid_to_text(record.key.topic_id), record.key.partition
    try:
        decode_share_state_record(key, value)
    except CodecError as error:
        return number, *named, str(error)
    if value is None and number == ShareStateRecordType.SHARE_UPDATE:
        return number, *named, "an update without a value"
    return number, *named, None


def checked(records: "DataFrame") -> "DataFrame":
    """Decode every record once, and add whether it is readable."""
    return records.mapInArrow(_check_batches, CHECKED_SHARE.ddl)


def with_last_snapshot(checked_records: "DataFrame") -> "DataFrame":
    """Add ``last_snapshot``, the offset of the share partition's last readable snapshot; null if there is none."""
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    is_snapshot = (F.col("type") == int(ShareStateRecordType.SHARE_SNAPSHOT)) & F.col("reason").isNull()
    of_partition = Window.partitionBy("partition", *_IDENTITY)
    last = F.max(F.when(is_snapshot, F.col("offset"))).over(of_partition)
    return checked_records.withColumn("last_snapshot", F.when(F.col("group_id").isNotNull(), last))


def table(records: "DataFrame", cluster: Cluster) -> "DataFrame":
    """Return the table from records of :func:`with_last_snapshot`."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    readable = F.col("reason").isNull()
    since = F.col("last_snapshot").isNull() | (F.col("offset") >= F.col("last_snapshot"))
    entry = F.struct("offset", "key", "value")
    grouped = (
        records.where(F.col("group_id").isNotNull() & since)
        .groupBy("partition", *_IDENTITY)
        .agg(
            F.array_sort(F.collect_list(F.when(readable, entry))).alias("records"),
            F.count_if(~readable).cast("int").alias("unreadable_records"),
        )
    )
    names, limit = cluster.topic_names, cluster.settings.group_share_delivery_count_limit

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = (_row(row, names, limit, cluster.time_ms) for row in batch.to_pylist())
            yield SHARE_PARTITIONS.batch([row for row in rows if row is not None])

    return grouped.mapInArrow(merge, SHARE_PARTITIONS.ddl)


def quarantined(records: "DataFrame") -> "DataFrame":
    """Return the rows of the quarantine. A record before the last snapshot is superseded: nothing depends on it."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    superseded = F.coalesce(F.col("offset") < F.col("last_snapshot"), F.lit(False))  # noqa: FBT003 - a literal of Spark's
    return records.where(F.col("reason").isNotNull()).select(
        F.lit(SHARE_STATE_TOPIC).alias("source"),
        "partition",
        "offset",
        "reason",
        superseded.alias("superseded"),
        "key",
        F.col("value").alias("content"),
    )


def _row(
    row: Mapping[str, Any], names: Mapping[str, str], delivery_limit: int, now_ms: int
) -> tuple[Any, ...] | None:
    """Return the row of a share partition; None if its state was deleted or nothing of it can be read."""
    decoded = (decode_share_state_record(one["key"], one["value"]) for one in row["records"])
    state = state_of(record for record in decoded if record is not None)
    if state is None:
        return None
    return (
        row["group_id"],
        names.get(row["topic_id"]),
        row["topic_id"],
        row["share_partition"],
        None if state.state_epoch < 0 else state.state_epoch,
        None if state.leader_epoch < 0 else state.leader_epoch,
        None if state.start_offset < 0 else state.start_offset,
        *(_count(state, kind) for kind in (AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED)),
        _count(state, AVAILABLE, at_least=delivery_limit - 1),
        None if state.delivery_complete_count < 0 else state.delivery_complete_count,
        state.snapshot_time_ms,
        _age(state.snapshot_time_ms, now_ms),
        state.updates,
        row["unreadable_records"],
        row["partition"],
    )


def _count(state: ShareState, delivery_state: int, *, at_least: int = -_MAX_LONG) -> int:
    return min(state.count(delivery_state, at_least=at_least), _MAX_LONG)


def _age(time_ms: int | None, now_ms: int) -> int | None:
    if time_ms is None or not now_ms:
        return None
    return max(-_MAX_LONG, min(now_ms - time_ms, _MAX_LONG))


def _check_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    added = CHECKED_SHARE.columns[len(CAPTURED.columns) :]
    for batch in batches:
        found = [
            check(key, value)
            for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
        ]
        by_column = list(zip(*found, strict=True)) or [()] * len(added)
        arrays = [batch[column.name].cast(column.kind) for column in CAPTURED.columns]
        arrays += [pa.array(values, column.kind) for values, column in zip(by_column, added, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=CHECKED_SHARE.arrow)
