"""Runs the progress job: follows the journal, then derives the tables."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline import location
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.journal import events, losses, unfinished
from pipeline.kafka_settings import of_connector
from pipeline.location import Location
from pipeline.progress import others, pauses, streams
from pipeline.progress.output import (
    CONVERGENCES,
    OTHER_EVENTS,
    OTHER_GROUPS,
    OTHER_MEMBERS,
    PAUSES,
    STUCK,
    TRANSITIONS,
    WINDOWS,
)
from pipeline.progress.single_run import single_run
from pipeline.progress.streams import Options
from pipeline.readiness.records import connector_missing
from pipeline.rules.unfinished import Unfinished, by_file, unread
from pipeline.watch import step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DEFAULTS = Options()
FILES_AT_ONCE = 200
EVER = "36500d"
"""By default Spark silently skips files that are a week older than the newest one."""
_LOOK_S = 0.5


class Summary(NamedTuple):
    """The counts of a run."""

    groups: int
    """All but ``other_groups``."""
    other_groups: dict[str, int]
    """Groups that have no other protocol to move to, by the protocol that they have."""
    pauses: int
    stuck: int
    late: int
    """Events of this run that arrived too late: Spark counts and drops them."""
    unfinished: dict[str, int | None]
    """Files that nobody has finished, and how many events they have, which are lost; None if not known."""
    unread: dict[str, int | None]
    """The same for files that are being written, which a later run reads."""


def lines_of_files(spark: "SparkSession", folder: Path | str) -> "DataFrame":
    """Stream the finished files under ``folder`` and its sub-folders, in any order and however old."""
    options = {
        "pathGlobFilter": "*.jsonl",
        "recursiveFileLookup": "true",
        "maxFilesPerTrigger": str(FILES_AT_ONCE),
        "maxFileAge": EVER,
    }
    return events.with_source(spark.readStream.format("text").options(**options).load(str(folder)))


def lines_of_topic(
    spark: "SparkSession", bootstrap: str, topic: str, settings: dict[str, str]
) -> "DataFrame":
    """Stream a Kafka topic, through Spark's connector."""
    options = of_connector(settings)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    try:
        rows = (
            reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()
        )
    except Exception as error:
        raise connector_missing(error) from error
    return events.of_topic(rows)


def run(
    spark: "SparkSession",
    lines: "DataFrame",
    out: Location | Path,
    options: Options = DEFAULTS,
    *,
    every_s: float | None = None,
    hidden: Callable[[], list[Unfinished]] | None = None,
) -> Summary:
    """Process everything since the last run, and write every table into ``out``. Raises PipelineError.

    With ``every_s`` it looks for more at that interval until Ctrl-C, then writes the derived tables. ``hidden`` finds
    the journal's files that were not finished, when all others have been read.
    """
    text = "following the journal" + ("" if every_s is None else " (Ctrl-C ends)")
    into = location.of(out)
    folder = into.uri
    with single_run(spark, into) as check_alone:
        FileSystems(spark).make_folder(into / WINDOWS.name)  # the other tables are there from the start
        running = Running(streams.start(lines, folder, options, follow_s=every_s))
        by_hand = contextlib.nullcontext(_never) if every_s is None else _told_to_end()
        with by_hand as is_told_to_end, step(spark, text):
            running.wait(is_told_to_end, check_alone)
        running.stop()
        check_alone()
        with step(spark, "pauses"):
            summary = derive(spark, folder, options)._replace(late=running.late)
            return _with_unfinished(spark, folder, summary, hidden() if hidden is not None else [])


def _with_unfinished(
    spark: "SparkSession", folder: str, summary: Summary, files: list[Unfinished]
) -> Summary:
    """Write the table of unfinished files, and add them to the summary. None of their events has been read."""
    before = {file.process: ((file.first_seq or 1) - 1, file.first_us or 0) for file in files if file.process}
    beyond = unread(files, before)
    unfinished.write(spark, files, beyond, folder)
    of_gone, of_others = (by_file(files, beyond, gone=gone) for gone in (True, False))
    return summary._replace(unfinished=of_gone, unread=of_others)


def _never() -> bool:
    return False


@contextlib.contextmanager
def _told_to_end() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C or SIGTERM has come since.

    An exception in the middle of a call would break the connection to Spark's JVM (py4j), which is still needed.
    """
    told: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _frame: told.append(number)) for number in numbers}
    try:
        yield lambda: bool(told)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Running:
    """The streams that run. ``late`` is how many rows arrived too late so far.

    Spark keeps the numbers of the newest hundred batches only, so they are added up while it runs.
    """

    def __init__(self, queries: "list[StreamingQuery]") -> None:
        self._queries = queries
        self._late: dict[int, int] = {}

    @property
    def late(self) -> int:
        """Return how many events were dropped because they arrived too late."""
        return sum(self._late.values())

    def wait(self, is_told_to_end: Callable[[], bool], check_alone: Callable[[], None]) -> None:
        """Wait until all streams have ended or are asked to stop. If one fails, end the others and raise its error.

        ``check_alone`` raises PipelineError when another run has taken the folder; then all are ended too.
        """
        while not is_told_to_end() and any(query.isActive for query in self._queries):
            time.sleep(_LOOK_S)
            try:
                check_alone()
            except PipelineError:
                self.stop()
                raise
            for query in self._queries:
                failure = query.exception()
                if failure is not None:
                    self.stop()
                    raise failure
            self._count()

    def stop(self) -> None:
        """Stop the streams; the next run repeats an unfinished batch."""
        for query in self._queries:
            query.stop()
        self._count()

    def _count(self) -> None:
        for query in self._queries:
            if query.name == TRANSITIONS.name:
                for told in query.recentProgress:
                    dropped = sum(one["numRowsDroppedByWatermark"] for one in told["stateOperators"])
                    self._late[told["batchId"]] = max(dropped, self._late.get(told["batchId"], 0))


def derive(spark: "SparkSession", folder: str, options: Options) -> Summary:
    """Write the tables that are derived from what the streams have written."""
    transitions = TRANSITIONS.read(spark, folder)
    losses.check_single_source(map(tuple, transitions.select("replica", "boot").distinct().collect()))
    PAUSES.write(pauses.pauses(transitions), folder)
    found = PAUSES.read(spark, folder)
    CONVERGENCES.write(pauses.convergences(found), folder)
    now_us = _newest_us(transitions)
    STUCK.write(pauses.stuck(found, now_us, options.stuck_after_s).coalesce(1), folder)
    _derive_others(spark, folder, now_us)
    of_others = OTHER_GROUPS.read(spark, folder)
    by_protocol = {row["protocol"]: row["count"] for row in of_others.groupBy("protocol").count().collect()}
    seen = streams.latest(windows_written(spark, folder)).select("group").distinct()
    groups = seen.join(of_others, "group", "left_anti").count()
    return Summary(groups, by_protocol, found.count(), STUCK.read(spark, folder).count(), 0, {}, {})


def _derive_others(spark: "SparkSession", folder: str, now_us: int) -> None:
    rows = OTHER_EVENTS.read(spark, folder)
    ever = others.members_ever(rows).persist(StorageLevel.DISK_ONLY)
    try:
        OTHER_MEMBERS.write(others.members(ever), folder)
        found = others.groups(ever, PAUSES.read(spark, folder), max(now_us, _newest_us(rows)))
        OTHER_GROUPS.write(found, folder)
    finally:
        ever.unpersist()


def _newest_us(rows: "DataFrame") -> int:
    newest = rows.agg(F.max("time_us").alias("newest")).first()
    return (newest["newest"] if newest else None) or 0


def windows_written(spark: "SparkSession", folder: str) -> "DataFrame":
    """Read the windows as they were written, with their batch."""
    return spark.read.schema(f"{WINDOWS.ddl}, batch bigint").parquet(f"{folder}/{WINDOWS.name}")
