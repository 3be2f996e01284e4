"""Writes unreadable input to a quarantine table with the reason, and counts it."""

from typing import TYPE_CHECKING

from pipeline.tables import BYTES, FLAG, INT, LONG, TEXT, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUARANTINE = Table(
    "quarantine",
    "Records and journal lines that could not be read, as they were, each with the reason.",
    (
        Column("source", TEXT, "`__consumer_offsets`, `__share_group_state`, or the journal file or topic"),
        Column("partition", INT, "partition of the record; null for a line of a file"),
        Column("offset", LONG, "offset of the record; null for a line of a file"),
        Column("reason", TEXT, "why it could not be read"),
        Column("superseded", FLAG, "whether a newer record of the same key was read instead"),
        Column("key", BYTES, "the record's key"),
        Column("content", BYTES, "the record's value, or the line"),
    ),
)


OTHERS = "other reasons (see the table quarantine)"
_REASONS = 50


def counts(quarantine: "DataFrame") -> dict[str, int]:
    """Count quarantined rows by reason, ignoring numbers in it, so that a thousand bad records are one line.

    Returns the most frequent reasons, and the rest as ``OTHERS``; the sum is that of all rows.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the name that all of Spark's docs use

    short = F.regexp_replace(F.regexp_replace("reason", r"at byte \d+.*", "..."), r"\[\d+\]", "[]")
    by_reason = quarantine.groupBy(short.alias("why")).count().orderBy(F.desc("count"), "why").limit(_REASONS)
    found = {row["why"]: row["count"] for row in by_reason.collect()}
    others = quarantine.count() - sum(found.values()) if len(found) == _REASONS else 0
    return found | ({OTHERS: others} if others else {})
