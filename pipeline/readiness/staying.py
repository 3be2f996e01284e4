"""Tells which groups have nothing to move to: share and streams groups, Kafka Connect, and what else is no consumer."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

if TYPE_CHECKING:
    from pyspark.sql import Column


def does_not_move() -> "Column":
    """Whether a row of the table of groups is such a group."""
    no_consumers = (F.col("kind") == "classic") & ~F.col("protocol_type").isin("consumer", "")
    return F.col("kind").isin("share", "streams") | no_consumers


def other_protocol() -> "Column":
    """Return the protocol of such a group: ``share``, ``streams``, or the protocol type (``connect``, ``sr``, ...)."""
    return F.when(F.col("kind") == "classic", F.col("protocol_type")).otherwise(F.col("kind"))
