"""Reads the records of ``__consumer_offsets``, and checks what :mod:`superseded` leaves of them.

The topic may not be compacted yet, so a key can have several records; the one with the highest offset counts, and one
without value (a tombstone) deletes the entry of its key. A key is always in one partition.

:mod:`commits` proves by columns that commits can be read. Only what is not proved goes through the codec.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.errors import PipelineError
from pipeline.kafka_settings import of_connector
from pipeline.readiness import commits
from pipeline.readiness.cluster import OFFSETS_TOPIC
from pipeline.tables import BYTES, FLAG, INT, LONG, TEXT, Column, Table
from protocol_codecs import CodecError, Message
from protocol_codecs.codec import decode_prefix
from protocol_codecs.fields import string
from protocol_codecs.records import decode_record
from protocol_codecs.text import strict_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CAPTURED_RECORDS = "records"
_PREFIX_SIZE = 2
_UNKNOWN = -1

SHARE_TYPES = frozenset(range(9, 16))
"""Record types of share groups (KIP-932). Kafka 4.0 alone wrote type 9, which is not decoded."""
STREAMS_TYPES = frozenset(range(17, 24))
"""Record types of streams groups (KIP-1071)."""

_NOT_DECODED = STREAMS_TYPES | {9}

CAPTURED = Table(
    CAPTURED_RECORDS,
    "The records of `__consumer_offsets` as `epochgate capture` wrote them.",
    (
        Column("partition", INT, "partition of the topic"),
        Column("offset", LONG, "offset in the partition"),
        Column("time_ms", LONG, "the record's timestamp, milliseconds since 1970"),
        Column("key", BYTES, "the key, as it is"),
        Column("value", BYTES, "the value, as it is; null for a tombstone"),
    ),
)
MARKED = Table(
    "marked",
    "Records, and whether newer ones supersede them.",
    (*CAPTURED.columns, Column("newest", FLAG, "whether no record of this key has a higher offset")),
)
CHECKED = Table(
    "checked",
    "Records with what their keys say.",
    (
        *MARKED.columns,
        Column("type", INT, "the record type, by Kafka's number; -1 if the key has none"),
        Column("group_id", TEXT, "the group that the key names; null if it cannot be read"),
        Column("reason", TEXT, "why the record cannot be read; null if it can"),
    ),
)


class _GroupKey(Message, versions="0"):
    """The common beginning of every key of a share or streams group."""

    group_id: str = string()


def captured(spark: "SparkSession", folder: Path | str) -> "DataFrame":
    """Read the records that ``epochgate capture`` wrote to ``folder``. Raises PipelineError if there are none."""
    path = f"{folder}/{CAPTURED_RECORDS}"
    try:
        return spark.read.schema(CAPTURED.ddl).parquet(path)
    except Exception as error:
        raise PipelineError(f"{path}: no captured records there ({type(error).__name__})") from error


def from_kafka(
    spark: "SparkSession",
    bootstrap: str,
    partitions: int,
    settings: dict[str, str] | None = None,
    topic: str = OFFSETS_TOPIC,
) -> "DataFrame":
    """Read an internal topic with so many ``partitions`` through Spark's Kafka connector, without aborted transactions.

    By default the connector finds offsets with an admin client, which leaves internal topics out, so it would read
    nothing; its consumer-based way includes them. Raises PipelineError if the connector is not there.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    options = of_connector(settings or {})
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    try:
        rows = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("assign", json.dumps({topic: list(range(partitions))}))
            .option("startingOffsets", "earliest")
            .option("endingOffsets", "latest")
            .option("kafka.isolation.level", "read_committed")
            .option("includeHeaders", "false")
            .options(**options)
            .load()
        )
    except Exception as error:
        raise connector_missing(error) from error
    milliseconds = F.unix_millis("timestamp").alias("time_ms")
    return rows.select("partition", "offset", milliseconds, "key", "value")


def connector_missing(error: Exception) -> Exception:
    """Return a clearer error than Spark's if the connector is missing, else the same error."""
    if "Failed to find data source: kafka" not in str(error) and "DATA_SOURCE_NOT_FOUND" not in str(error):
        return error
    return PipelineError(
        "Spark's Kafka connector is not loaded: pass --conf spark.jars=... with the jars that "
        "`python3 -m tools.spark_connector.jars` prints, or "
        "--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION of this Spark"
    )


def checked(marked: "DataFrame") -> "DataFrame":
    """Add to marked records what their keys say, and whether they can be read."""
    return marked.mapInArrow(check_batches, CHECKED.ddl)


def newest(checked: "DataFrame") -> "DataFrame":
    """Return those that are marked as the newest of a key that can be read, tombstones included."""
    return checked.where("newest AND group_id IS NOT NULL")


def check(key: bytes | None, value: bytes | None) -> tuple[int, str | None, str | None]:
    """Return record type, group and error (null if there is none) of one record."""
    if key is None or len(key) < _PREFIX_SIZE:
        return _UNKNOWN, None, "the record has no key" if key is None else "the key is cut off"
    number = int.from_bytes(key[:_PREFIX_SIZE], "big", signed=True)
    try:
        with strict_text():
            group_id = decode_prefix(_GroupKey, 0, key, _PREFIX_SIZE)[0].group_id
            if number in _NOT_DECODED:
                return number, group_id, None
            if decode_record(key, None) is None:
                return number, None, f"record type {number} is unknown"
    except (CodecError, UnicodeDecodeError) as error:
        # What is no whole key names no group and supersedes no record.
        return number, None, str(error)
    try:
        with strict_text():
            decode_record(key, value)
    except (CodecError, UnicodeDecodeError) as error:
        return number, group_id, str(error)
    return number, group_id, None


def check_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do the work of :func:`checked` in one task."""
    for one in batches:
        batch = pa.RecordBatch.from_arrays(
            [one[column.name].cast(column.kind) for column in MARKED.columns], schema=MARKED.arrow
        )
        readable, bad = _divided(batch)
        if readable.num_rows:
            yield _with_key(readable)
        if bad.num_rows:
            yield bad


def _divided(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the readable records, and the unreadable ones with what is wrong."""
    readable = commits.proved(batch["key"], batch["value"])
    doubted = np.flatnonzero(~readable)
    rest = batch.take(pa.array(doubted))
    found = [
        check(key, value)
        for key, value in zip(rest["key"].to_pylist(), rest["value"].to_pylist(), strict=True)
    ]
    readable[doubted] = [reason is None for _, _, reason in found]
    types, groups, reasons = zip(*found, strict=True) if found else ((), (), ())
    bad = _completed(rest, pa.array(types, INT), pa.array(groups, TEXT), pa.array(reasons, TEXT))
    return batch.filter(pa.array(readable)), bad.filter(bad["reason"].is_valid())


def _with_key(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Add what the keys of readable records say."""
    types, groups = commits.types(batch["key"]), commits.group_ids(batch["key"])
    return _completed(batch, pa.array(types, INT), groups, pa.nulls(batch.num_rows, TEXT))


def _completed(batch: pa.RecordBatch, *added: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=CHECKED.arrow)
