"""Finds the files of a journal that were not finished, which Spark passes over, and lists them in a table."""

import contextlib
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pipeline.file_systems import FileSystems, NotThereError
from pipeline.location import Location
from pipeline.rules.losses import Loss
from pipeline.rules.unfinished import EDGE, GONE_AFTER_S, Unfinished, looked_at
from pipeline.tables import FLAG, LONG, TEXT, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNFINISHED = Table(
    "unfinished",
    "Files of the journal that were not finished, and so not read.",
    (
        Column("file", TEXT, "its name, which begins with `_`"),
        Column("gone", FLAG, "whether its process is taken to be gone; if not, it is being written"),
        Column("replica", TEXT, "the replica that wrote it; null if no event in it can be read"),
        Column("boot", TEXT, "its boot"),
        Column("first_seq", LONG, "sequence number of the first event in it"),
        Column("last_seq", LONG, "and of the last whole one"),
        Column("first_us", LONG, "time of the first event, microseconds since 1970"),
        Column("last_us", LONG, "and of the last whole one"),
        Column(
            "unread", LONG, "events up to its last one that no finished file has; null if that is not known"
        ),
        Column("size", LONG, "its size in bytes"),
        Column("changed_ms", LONG, "when it was changed last, milliseconds since 1970"),
    ),
)


def find(
    spark: "SparkSession", folder: Location, gone_after_s: float = GONE_AFTER_S, now_ms: int | None = None
) -> list[Unfinished]:
    """Look for such files in a folder and its sub-folders. Raises PipelineError."""
    files = FileSystems(spark)
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    found = []
    for one in files.hidden(folder, ".jsonl"):
        is_gone = now_ms - one.changed_ms > gone_after_s * 1000
        with contextlib.suppress(NotThereError):  # it is finished by now
            edges = files.edges(one.place, EDGE)
            found.append(looked_at(str(one.place), one.size, one.changed_ms, edges, is_gone=is_gone))
    return found


def write(
    spark: "SparkSession", files: Iterable[Unfinished], unread: Iterable[tuple[Unfinished, Loss]], folder: str
) -> None:
    """Write the table into ``folder``."""
    beyond = {file.file: loss.events for file, loss in unread}
    rows = [
        (
            one.file,
            one.is_gone,
            *(one.process or (None, None)),
            one.first_seq,
            one.last_seq,
            one.first_us,
            one.last_us,
            None if one.process is None else beyond.get(one.file, 0),
            one.size,
            one.changed_ms,
        )
        for one in files
    ]
    UNFINISHED.write(spark.createDataFrame(rows, UNFINISHED.ddl).coalesce(1), folder)
