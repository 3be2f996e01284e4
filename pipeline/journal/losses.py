"""Finds losses in a journal: missing sequence numbers, and the first and last event of each process.

Which numbers exist is noted in words of 64 bits, which Spark's hash aggregation makes where the events are read, so
duplicates and order do not matter and little is shuffled. All is done by executors; the driver learns the processes, of
which there is one for each start.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.errors import PipelineError
from pipeline.rules.losses import Process, of_two_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PROCESS = ("replica", "boot")
_HOLE = (*_PROCESS, "first_seq", "last_seq")
LOSSES = "replica string, boot string, first_seq bigint, last_seq bigint, from_us bigint, to_us bigint"
_WORD = "shiftright(seq, 6)"
_BIT = "shiftleft(1L, CAST(seq & 63 AS INT))"
_THERE = "filter(sequence(first_seq, last_seq), one -> getbit(bits, CAST(one & 63 AS INT)) = 1)"
"""The numbers of a word that exist, in order."""
_BETWEEN = (
    "transform(sequence(1, size(there) - 1), at -> struct(there[at - 1] + 1 AS first, there[at] - 1 AS last))"
)
_HOLES = f"filter({_BETWEEN}, one -> one.first <= one.last AND one.first > 0)"


class Boot(NamedTuple):
    """One start of a process, as its events show it: first and last time (microseconds), number of events."""

    replica: str
    boot: str
    first_us: int
    last_us: int
    last_seq: int
    events: int
    duplicates: int


def check_single_source(processes: Iterable[Process]) -> None:
    """Raise PipelineError if a journal contains both the files and the topic of one process."""
    if (told := of_two_sources(processes)) is not None:
        raise PipelineError(told)


@contextlib.contextmanager
def find_losses(events: "DataFrame") -> "Iterator[tuple[list[Boot], DataFrame]]":
    """Give the boots, which are few, and the losses with the columns of the table, as long as the context is open."""
    words = (
        events.groupBy(*_PROCESS, F.expr(_WORD).alias("word"))
        .agg(
            F.bit_or(F.expr(_BIT)).alias("bits"),
            F.min("time_us").alias("first_us"),
            F.max("time_us").alias("last_us"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
            F.count("*").alias("lines"),
        )
        .withColumn("events", F.bit_count("bits"))
        .persist(StorageLevel.DISK_ONLY)
    )
    boots = [
        Boot(*row)
        for row in words.groupBy(*_PROCESS)
        .agg(
            F.min("first_us"),
            F.max("last_us"),
            F.max("last_seq"),
            F.sum("events"),
            F.sum("lines") - F.sum("events"),
        )
        .orderBy(*_PROCESS)
        .collect()
    ]
    holes = _between(words).unionAll(_inside(words)).persist(StorageLevel.DISK_ONLY)
    try:
        if holes.count():  # and now Spark chooses the join by the size of what is kept
            yield boots, _timed(events, holes)
        else:
            yield boots, events.sparkSession.createDataFrame([], LOSSES)
    finally:
        holes.unpersist()
        words.unpersist()


def _between(words: "DataFrame") -> "DataFrame":
    """Return what is missing between the numbers of one word and those of the next; the first number is 1."""
    in_order = Window.partitionBy(*_PROCESS).orderBy("word")
    before = F.greatest(F.lag("last_seq", 1, 0).over(in_order), F.lit(0))
    first = (before + 1).alias("first_seq")
    last = (F.greatest("first_seq", F.lit(1)) - 1).alias("last_seq")
    return words.select(*_PROCESS, first, last).where("first_seq <= last_seq")


def _inside(words: "DataFrame") -> "DataFrame":
    """Return what is missing among the numbers of one word."""
    holed = words.where("events < last_seq - first_seq + 1").withColumn("there", F.expr(_THERE))
    holes = holed.select(*_PROCESS, F.explode(F.expr(_HOLES)).alias("hole"))
    return holes.select(
        *_PROCESS, F.col("hole.first").alias("first_seq"), F.col("hole.last").alias("last_seq")
    )


def _timed(events: "DataFrame", holes: "DataFrame") -> "DataFrame":
    """Return the holes with the times of the events around them."""
    edges = F.explode(F.array(F.col("first_seq") - 1, F.col("last_seq") + 1)).alias("seq")
    before, after = F.col("seq") < F.col("first_seq"), F.col("seq") > F.col("last_seq")
    return (
        events.join(holes.select(*_HOLE, edges), [*_PROCESS, "seq"])
        .groupBy(*_HOLE)
        .agg(
            F.coalesce(F.max(F.when(before, F.col("time_us"))), F.lit(0)).alias("from_us"),
            F.max(F.when(after, F.col("time_us"))).alias("to_us"),
        )
    )
