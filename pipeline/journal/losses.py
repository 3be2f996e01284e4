"""Finds losses in a journal: missing sequence numbers, and the first and last event of each process.

It is one pass with partial sums: a bitmap for each 32,768 numbers of a boot records which of them exist, so duplicates
and order do not matter. Only bitmaps with holes are examined one by one.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.errors import PipelineError
from pipeline.rules.losses import Loss, Process, of_two_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BITS = 32_768


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


def find_losses(events: "DataFrame") -> tuple[list[Boot], list[Loss]]:
    """Return the boots and the losses of a journal. Both are few: a boot is a start of a process, a loss a fault."""
    buckets = (
        events.groupBy("replica", "boot", F.bitmap_bucket_number("seq").alias("bucket"))
        .agg(
            F.bitmap_construct_agg(F.bitmap_bit_position("seq")).alias("bits"),
            F.min("time_us").alias("first_us"),
            F.max("time_us").alias("last_us"),
            F.max("seq").alias("last_seq"),
            F.count("*").alias("lines"),
        )
        .withColumn("events", F.bitmap_count("bits"))
        .localCheckpoint()
    )
    boots = [
        Boot(*row)
        for row in buckets.groupBy("replica", "boot")
        .agg(
            F.min("first_us"),
            F.max("last_us"),
            F.max("last_seq"),
            F.sum("events"),
            F.sum("lines") - F.sum("events"),
        )
        .orderBy("replica", "boot")
        .collect()
    ]
    if all(boot.events == boot.last_seq for boot in boots):
        return boots, []
    holes = _holes(buckets, {(boot.replica, boot.boot): boot.last_seq for boot in boots})
    return boots, _timed(events, holes)


def _holes(buckets: "DataFrame", last_seq: dict[Process, int]) -> list[tuple[str, str, int, int]]:
    """Return ranges of missing numbers."""
    present: dict[Process, dict[int, bytes]] = {}
    incomplete = buckets.select("replica", "boot", "bucket", "bits", "events")
    for row in incomplete.toLocalIterator():
        full = row["events"] == _BITS
        present.setdefault((row["replica"], row["boot"]), {})[row["bucket"]] = (
            b"" if full else bytes(row["bits"])
        )
    return [
        (*process, first, last)
        for process, bits in sorted(present.items())
        for first, last in _ranges(bits, last_seq[process])
    ]


def _ranges(buckets: dict[int, bytes], last_seq: int) -> Iterator[tuple[int, int]]:
    """Yield missing numbers between 1 and ``last_seq``; bucket n holds (n-1) * 32,768 + 1 and what follows."""
    start: int | None = None
    for bucket in range(1, (last_seq - 1) // _BITS + 2):
        bits = buckets.get(bucket)
        base = (bucket - 1) * _BITS + 1
        if bits == b"":
            if start is not None:
                yield start, base - 1
                start = None
            continue
        for number in range(base, min(base + _BITS, last_seq + 1)):
            position = number - base
            there = bits is not None and bool(bits[position // 8] >> (position % 8) & 1)
            if not there and start is None:
                start = number
            elif there and start is not None:
                yield start, number - 1
                start = None


def _timed(events: "DataFrame", holes: Iterable[tuple[str, str, int, int]]) -> list[Loss]:
    """Return the holes with the times of the events around them."""
    wanted = events.sparkSession.createDataFrame(
        [(*hole, edge) for hole in holes for edge in (hole[2] - 1, hole[3] + 1)],
        "replica string, boot string, first_seq bigint, last_seq bigint, seq bigint",
    )
    around = (
        events.join(F.broadcast(wanted), ["replica", "boot", "seq"])
        .groupBy("replica", "boot", "first_seq", "last_seq")
        .agg(
            F.max(F.when(F.col("seq") < F.col("first_seq"), F.col("time_us"))).alias("from_us"),
            F.max(F.when(F.col("seq") > F.col("last_seq"), F.col("time_us"))).alias("to_us"),
        )
        .orderBy("replica", "boot", "first_seq")
    )
    return [
        Loss(
            row["replica"], row["boot"], row["first_seq"], row["last_seq"], row["from_us"] or 0, row["to_us"]
        )
        for row in around.collect()
    ]
