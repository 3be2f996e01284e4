"""Parses journal lines into events. A line that is not an event of a known version is quarantined with the reason.

Lines are parsed by msgspec, a batch at a time, at a fraction of the cost of Spark's ``from_json``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.errors import PipelineError
from pipeline.kafka_settings import of_connector
from pipeline.readiness.records import connector_missing
from pipeline.rules.lines import NUMBERS, WORKER_FIELDS, Line, owned_text, parse_line, worker_value
from pipeline.tables import BYTES, INT, LONG, TEXT, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIELDS = tuple(
    name for name in Line.__struct_fields__ if name not in ("v", "partitions", "worker", "commits")
)
"""The fields that every event has. Those of a worker of Kafka Connect are :data:`lines.WORKER_FIELDS`."""
_PLACE = (Column("source", TEXT, ""), Column("at_partition", INT, ""), Column("at_offset", LONG, ""),
          Column("line", BYTES, ""))  # fmt: skip
"""Lines, and where they were found."""

_WHY_NOT = Column("why_not", TEXT, "")
_SET_ASIDE = (*_PLACE, _WHY_NOT)


def from_files(spark: "SparkSession", folder: Path | str) -> "DataFrame":
    """Read the lines of the finished files under ``folder`` (those whose names begin with ``_`` are being written).

    Raises PipelineError if there is no such folder.
    """
    try:
        lines = (
            spark.read.option("pathGlobFilter", "*.jsonl")
            .option("recursiveFileLookup", "true")
            .text(str(folder))
        )
    except Exception as error:
        raise PipelineError(f"{folder}: no journal can be read there ({type(error).__name__})") from error
    return with_source(lines)


def with_source(lines: "DataFrame") -> "DataFrame":
    """Return the lines of text files with the name of their file."""
    return lines.select(
        F.col("_metadata.file_name").alias("source"),
        F.lit(None).cast("int").alias("at_partition"),
        F.lit(None).cast("bigint").alias("at_offset"),
        F.col("value").cast("binary").alias("line"),  # bytes that are no UTF-8 stay what they are
    )


def from_topic(spark: "SparkSession", bootstrap: str, topic: str, settings: dict[str, str]) -> "DataFrame":
    """Read the lines of a Kafka topic, through Spark's connector."""
    options = of_connector(settings)
    try:
        rows = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .options(**options)
            .load()
        )
    except Exception as error:
        raise connector_missing(error) from error
    return of_topic(rows)


def of_topic(rows: "DataFrame") -> "DataFrame":
    """Convert records of the connector to lines."""
    return rows.select(
        F.col("topic").alias("source"),
        F.col("partition").alias("at_partition"),
        F.col("offset").alias("at_offset"),
        F.col("value").alias("line"),
    )


def parsed(lines: "DataFrame", fields: Sequence[str] = FIELDS) -> "DataFrame":
    """Parse lines into events with these fields; other lines become rows with the line, its place and ``why_not``.

    ``fields`` may name those of a worker of Kafka Connect beside those of every event.
    """
    kinds = tuple(Column(name, LONG if name in NUMBERS else TEXT, "") for name in fields)
    table = Table("parsed", "", (*kinds, *_SET_ASIDE))

    def parse_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            answers = [parse_line(line) for line in batch["line"].to_pylist()]
            events = [answer for answer in answers if isinstance(answer, Line)]
            values = {one.name: pa.array(_values(events, one.name), one.kind) for one in kinds}
            yield _batch(table, values, len(events))
            if len(events) < len(answers):
                reasons = pa.array([None if isinstance(one, Line) else one for one in answers], TEXT)
                rows = batch.append_column(_WHY_NOT.name, reasons).filter(reasons.is_valid())
                yield _batch(table, {one.name: rows[one.name] for one in _SET_ASIDE}, rows.num_rows)

    return lines.mapInArrow(parse_batches, table.ddl)


def _values(events: list[Line], field: str) -> list[Any]:
    if field in WORKER_FIELDS:
        return [worker_value(event, field) for event in events]
    return list(map(owned_text if field == "owned" else attrgetter(field), events))


def _batch(table: Table, known: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
    """Return rows of which some columns are known; the others are null."""
    arrays = [known[one.name] if one.name in known else pa.nulls(rows, one.kind) for one in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow)


def valid(rows: "DataFrame") -> "DataFrame":
    """Return the events."""
    return rows.where("why_not is null").drop(*(column.name for column in _SET_ASIDE))


def rejected(rows: "DataFrame") -> "DataFrame":
    """Return the lines that are no events, with the columns of the quarantine table."""
    return rows.where("why_not is not null").select(
        "source",
        F.col("at_partition").alias("partition"),
        F.col("at_offset").alias("offset"),
        F.col("why_not").alias("reason"),
        F.lit(False).alias("superseded"),  # noqa: FBT003 - a literal of Spark's
        F.lit(None).cast("binary").alias("key"),
        F.col("line").alias("content"),
    )
