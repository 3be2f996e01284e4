"""Runs the progress job: follows the journal, then derives the tables."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline import location
from pipeline.file_systems import FileSystems
from pipeline.journal import events, losses, unfinished
from pipeline.kafka_settings import of_connector
from pipeline.location import Location
from pipeline.progress import checkpoint, others, pauses, streams
from pipeline.progress.live import LiveAudit
from pipeline.progress.metrics import Progress, served
from pipeline.progress.output import (
    CONVERGENCES,
    LIVE_OVERLAPS,
    OTHER_EVENTS,
    OTHER_GROUPS,
    OTHER_MEMBERS,
    PAUSES,
    STUCK,
    TABLES,
    TRANSITIONS,
    WINDOWS,
)
from pipeline.progress.streams import Options
from pipeline.quarantine import QUARANTINE
from pipeline.readiness.records import connector_missing
from pipeline.rules.unfinished import Unfinished, by_file, unread
from pipeline.single_run import single_run
from pipeline.watch import console, step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DEFAULTS = Options()
FILES_AT_ONCE = 200
RECORDS_AT_ONCE = 200_000
"""So a batch takes seconds, and the first one is not the whole backlog."""
EVER = "36500d"
"""By default Spark silently skips files that are a week older than the newest one."""
_LOOK_S = 0.5
_DERIVE_SHARE = 9
"""The derived tables are not written again before this times as long as it took has passed."""


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
    violations: int = 0
    """Partitions with two owners at once, which the live audit found in this run."""


def lines_of_files(
    spark: "SparkSession", folder: Path | str, files_at_once: int = FILES_AT_ONCE
) -> "DataFrame":
    """Stream the finished files under ``folder`` and its sub-folders, in any order and however old."""
    options = {
        "pathGlobFilter": "*.jsonl",
        "recursiveFileLookup": "true",
        "maxFilesPerTrigger": str(files_at_once),
        "maxFileAge": EVER,
    }
    return events.with_source(spark.readStream.format("text").options(**options).load(str(folder)))


def lines_of_topic(
    spark: "SparkSession",
    bootstrap: str,
    topic: str,
    settings: dict[str, str],
    records_at_once: int = RECORDS_AT_ONCE,
) -> "DataFrame":
    """Stream a Kafka topic, through Spark's connector."""
    options = of_connector(settings) | {"maxOffsetsPerTrigger": str(records_at_once)}
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    try:
        rows = (
            reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()
        )
    except Exception as error:
        raise connector_missing(error) from error
    return events.of_topic(rows)


class Serving(NamedTuple):
    """Where the metrics are served; nowhere without a port."""

    host: str = "127.0.0.1"
    port: int | None = None


def run(
    spark: "SparkSession",
    lines: "DataFrame",
    out: Location | Path,
    options: Options = DEFAULTS,
    *,
    every_s: float | None = None,
    hidden: Callable[[], list[Unfinished]] | None = None,
    source: str = "",
    serving: Serving = Serving(),  # noqa: B008 - immutable
    replay: bool = False,
    end_at_violation: bool = False,
) -> Summary:
    """Process everything since the last run, and write every table into ``out``. Raises PipelineError.

    With ``every_s`` it looks for more at that interval until Ctrl-C (with ``end_at_violation`` until the live audit
    finds one), then writes the derived tables. ``hidden`` finds the journal's files that were not finished, when all
    others have been read. ``source`` names the journal: runs of one folder read the same one. ``replay`` begins anew.
    """
    this = _Run(spark, lines, out, options, serving, source=source, replay=replay, hidden=hidden)
    return this.do(every_s, end_at_violation=end_at_violation)


class _Run:
    """One run in a folder."""

    def __init__(
        self,
        spark: "SparkSession",
        lines: "DataFrame",
        out: Location | Path,
        options: Options,
        serving: Serving,
        *,
        source: str,
        replay: bool,
        hidden: Callable[[], list[Unfinished]] | None,
    ) -> None:
        self._spark = spark
        self._lines = lines
        self._source = source
        self._out = location.of(out)
        self._options = options
        self._serving = serving
        self._replay = replay
        self._hidden = hidden
        self._progress = Progress()

    def do(self, every_s: float | None, *, end_at_violation: bool) -> Summary:
        """Run the streams, write the derived tables, and return the counts."""
        text = "following the journal" + ("" if every_s is None else " (Ctrl-C ends)")
        spark, folder = self._spark, self._out.uri
        with (
            single_run(spark, self._out) as check_alone,
            served(self._progress, self._serving.host, self._serving.port) as port,
        ):
            if port is not None:
                console().print(f"metrics: http://{self._serving.host}:{port}/metrics")
            self._prepare()
            audit = self._audit()
            queries = streams.start(self._lines, folder, self._options, follow_s=every_s)
            if audit is not None and (of_audit := self._options.audit) is not None:
                queries.append(streams.start_audit(self._lines, folder, of_audit, audit, every_s))
            running = Running(queries, self._progress)
            by_hand = contextlib.nullcontext(_never) if every_s is None else _told_to_end()
            with by_hand as is_told_to_end, step(spark, text):

                def is_over() -> bool:
                    return is_told_to_end() or (
                        end_at_violation and audit is not None and audit.violations > 0
                    )

                deriving = None if every_s is None else self._derive
                running.wait(is_over, check_alone, deriving, self._options.derive_every_s)
            running.stop()
            check_alone()
            with step(spark, "pauses"):
                violations = 0 if audit is None else audit.violations
                return self._written()._replace(late=running.late, violations=violations)

    def _prepare(self) -> None:
        """Make the folders, where the tables are from the start; look whether the checkpoint can be gone on with."""
        files, checkpoints = FileSystems(self._spark), self._out / streams.CHECKPOINTS
        if self._replay:
            names = (streams.CHECKPOINTS, *(table.name for table in (*TABLES, QUARANTINE)))
            aside = checkpoint.set_aside(files, self._out, names)
            if aside is not None:
                console().print(f"what was there is in {aside} now")
        form = checkpoint.running(self._source, self._options.window, self._options.lateness)
        if (audit := self._options.audit) is not None:
            form = structs.replace(form, skew_us=audit.skew_us, delay_s=audit.delay_s, shards=audit.shards)
        checkpoint.check(files, checkpoints, form)
        checkpoint.forget_unbegun(files, checkpoints)
        files.make_folder(self._out / WINDOWS.name)
        if audit is not None:
            files.make_folder(self._out / LIVE_OVERLAPS.name)

    def _audit(self) -> LiveAudit | None:
        if self._options.audit is None:
            return None
        checkpoints = self._out / streams.CHECKPOINTS
        audit = LiveAudit(self._spark, self._out, checkpoints, skew_us=self._options.audit.skew_us)
        self._progress.audit = audit
        return audit

    def _written(self) -> Summary:
        """Write the derived tables, and that of the files that are not finished."""
        found = derive(self._spark, self._out.uri, self._options)
        hidden = [] if self._hidden is None else self._hidden()
        found = _with_unfinished(self._spark, self._out.uri, found, hidden)
        self._progress.unfinished = {"gone": found.unfinished, "written": found.unread}
        return found

    def _derive(self) -> float:
        """Write the derived tables while the journal is followed; return how long it took."""
        began = time.monotonic()
        self._written()
        self._progress.derive_s = time.monotonic() - began
        self._progress.derived_us = time.time_ns() // 1000
        return self._progress.derive_s


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
    """The streams that run, and what they have done so far.

    Spark keeps the numbers of the newest hundred batches only, so they are added up while it runs.
    """

    def __init__(self, queries: "list[StreamingQuery]", progress: Progress | None = None) -> None:
        self._queries = queries
        self._progress = progress or Progress()

    @property
    def late(self) -> int:
        """Return how many events were dropped because they arrived too late."""
        known = self._progress.streams.get(TRANSITIONS.name)
        return 0 if known is None else known.late

    def wait(
        self,
        is_told_to_end: Callable[[], bool],
        check_alone: Callable[[], None],
        deriving: Callable[[], float] | None = None,
        derive_every_s: float = 0.0,
    ) -> None:
        """Wait until all streams have ended or are asked to stop. If one fails, end the others and raise its error.

        ``check_alone`` raises PipelineError when another run has taken the folder; then all are ended too.
        ``deriving`` is called now and then, and takes no more than a tenth of the time.
        """
        derive_at = time.monotonic() + derive_every_s
        go_on = True
        while go_on and not is_told_to_end():
            time.sleep(_LOOK_S)
            go_on = any(query.isActive for query in self._queries)
            try:
                check_alone()
                self._raise_failures()
                self._count()
                if deriving is not None and time.monotonic() >= derive_at:
                    took_s = deriving()
                    derive_at = time.monotonic() + max(derive_every_s, _DERIVE_SHARE * took_s)
            except Exception:
                self.stop()
                raise

    def _raise_failures(self) -> None:
        for query in self._queries:
            failure = query.exception()
            if failure is not None:
                raise failure

    def stop(self) -> None:
        """Stop the streams; the next run repeats an unfinished batch."""
        for query in self._queries:
            query.stop()
        self._count()

    def _count(self) -> None:
        for query in self._queries:
            newest = query.lastProgress
            if newest is None:
                continue
            known = self._progress.streams.get(query.name)
            follows = known is not None and newest["batchId"] <= known.batch + 1
            self._progress.add(query.name, [newest] if follows else query.recentProgress)


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
