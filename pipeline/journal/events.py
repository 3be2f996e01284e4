"""Journal lines to events. A line that is no event of a version known here is set aside with the reason."""

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.errors import PipelineError
from pipeline.readiness.records import connector_missing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

VERSION = 1

JOINED, ASSIGNED, REVOKED = "joined", "assigned", "revoked"
ADOPTED, REJOINED = "adopted", "rejoined_after_loss"
STATE_CHANGED, CALL_REFUSED, LOST = "state_changed", "call_refused", "lost"

ENDS = frozenset({"left", "fenced", "session_expired", "rebalance_expired"})
"""The membership is over."""

CALLS = frozenset({JOINED, ASSIGNED, REVOKED, ADOPTED, REJOINED})
"""Only the process that a client talks to writes these: they tell which process serves a member."""

KINDS = CALLS | ENDS | {
    "revoke_requested", "epoch_moved", STATE_CHANGED, "policy_changed", "passed_through", CALL_REFUSED,
    "started", "stopped", LOST,
}  # fmt: skip

_TEXTS = ("replica", "boot", "kind", "group", "mode", "protocol", "member", "instance", "client_id", "client_host",
          "software", "state", "previous_state", "reason")  # fmt: skip
_NUMBERS = ("v", "seq", "time_us", "generation", "epoch")
_LISTS = ("partitions", "owned")
_NEVER_MISSING = ("replica", "boot", "seq", "time_us", "kind", "group", "member")
_CORRUPT = "_corrupt"
_SCHEMA = ", ".join(
    [
        *(f"`{name}` string" for name in (*_TEXTS, *_LISTS, _CORRUPT)),
        *(f"`{name}` bigint" for name in _NUMBERS),
    ]
)
"""Lists stay JSON here: most events repeat the one before, and equal text needs no reading."""

COLUMNS = (*_TEXTS, *_LISTS, *(name for name in _NUMBERS if name != "v"))


def from_files(spark: "SparkSession", folder: Path | str) -> "DataFrame":
    """The lines of the finished files under ``folder`` (those whose names begin with ``_`` are being written).

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
    """Lines of text files with the name of their file."""
    return lines.select(
        F.col("_metadata.file_name").alias("source"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        F.col("value").alias("line"),
    )


def from_topic(spark: "SparkSession", bootstrap: str, topic: str, settings: dict[str, str]) -> "DataFrame":
    """The lines of a Kafka topic, through Spark's connector."""
    options = {f"kafka.{key}": value for key, value in settings.items()}
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
    """Records of the connector as lines."""
    return rows.select(
        F.col("topic").alias("source"), "partition", "offset", F.col("value").cast("string").alias("line")
    )


def judged(lines: "DataFrame") -> "DataFrame":
    """Every line with its fields, and ``why_not``: the reason if it is no event that is known here."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    # A list of one, taken apart: else Spark reads the JSON again wherever one of its fields is looked at.
    event = F.inline_outer(F.array(F.from_json("line", _SCHEMA, options)))
    places = lines.withColumnsRenamed({"partition": "at_partition", "offset": "at_offset"})
    return places.select("*", event).withColumn("why_not", _why_not())


def _why_not() -> "Column":
    no_version = F.when(F.col("line").isNull(), "no content").when(
        F.get_json_object("line", "$").isNull(), "not JSON"
    )
    reason = (
        F.when(F.col("v").isNull(), no_version.otherwise("no version of the schema"))
        .when(F.col("v") != VERSION, F.concat(F.lit("schema version "), F.col("v"), F.lit(" is not known")))
        .when(F.col(_CORRUPT).isNotNull(), "a field has another type than the schema says")
    )
    for name in _NEVER_MISSING:
        reason = reason.when(F.col(name).isNull(), f"field {name!r} is missing")
    reason = reason.when(
        ~F.col("kind").isin(*sorted(KINDS)), F.concat(F.lit("kind '"), F.col("kind"), F.lit("' is not known"))
    )
    for name in _LISTS:
        reason = reason.when(~F.col(name).startswith("["), f"field {name!r} is not a list")
    return reason


def good(rows: "DataFrame") -> "DataFrame":
    """The events."""
    return rows.where("why_not is null").select(*COLUMNS)


def bad(rows: "DataFrame") -> "DataFrame":
    """What was set aside, with the columns of the quarantine table."""
    return rows.where("why_not is not null").select(
        "source",
        F.col("at_partition").alias("partition"),
        F.col("at_offset").alias("offset"),
        F.col("why_not").alias("reason"),
        F.lit(False).alias("superseded"),  # noqa: FBT003 - a literal of Spark's
        F.lit(None).cast("binary").alias("key"),
        F.col("line").cast("binary").alias("content"),  # bytes that are no UTF-8 stay what they are
    )
