"""Goes on with an audit where the run before ended: its tables are those of a full run over all events until now.

What is kept between runs lies beside the tables:

- the state of each group at the *cut*, a while before the newest event, and the events (parsed, and only what the rules
  need);
- which numbers of each process are here, as ranges, so that losses and duplicates are known without all events;
- which files were read.

A run reads the new files only. A group goes on from its state, with the events after the cut; what is found until the
new cut is settled, and what is found later is found again by the next run. A group is replayed from its first event if

- an event came that is older than the cut (and is not one that is here already), or
- a finding took a process to have ended, and that process has gone on writing.

So no late event is lost, and none makes the result another one than that of a full run; it only costs time. What the
whole journal decides (clocks, losses, and so the class of each overlap) is decided anew in each run.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline import location
from pipeline.audit import judging, ranges
from pipeline.audit.findings import BAD, KINDS, Found, bad_snapshots, one_kind_a_column, rows_of
from pipeline.audit.job import DEFAULT_SKEW_US, ORDER, READ, WRITTEN
from pipeline.audit.judging import Summary
from pipeline.audit.output import CLOCKS, GAPS, INTERVALS, LOSSES, OVERLAPS, PROCESSES
from pipeline.audit.ranges import RANGES
from pipeline.errors import PipelineError
from pipeline.journal import events, losses, unfinished
from pipeline.location import Location
from pipeline.publish import KEPT, OPEN, SETTLED, Parts, Run, run_of
from pipeline.quality import QUALITY
from pipeline.quarantine import QUARANTINE
from pipeline.rules.events import Event
from pipeline.rules.lines import NUMBERS
from pipeline.rules.losses import Loss, Process
from pipeline.rules.ownership import STATE_VERSION, GroupOwnership
from pipeline.rules.unfinished import Unfinished, by_file, unread
from pipeline.runs import PARQUET, Form, State
from pipeline.tables import BYTES, FLAG, LONG, TEXT, Column, Table, list_of
from pipeline.watch import step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT_SETTLE_US = 3_600_000_000
"""So long before the newest event the cut is: files of replicas come at different times."""

_FILES = Table("files", "Journal files that were read.", (Column("file", TEXT, ""),))
_EVENTS = Table(
    "events",
    "Events, as far as the rules need them.",
    tuple(Column(name, LONG if name in NUMBERS else TEXT, "") for name in READ),
)
_PROCESSES = list_of(pa.struct([pa.field("replica", TEXT), pa.field("boot", TEXT)]))
_GROUPS = Table(
    "groups",
    "The state of a group at the cut.",
    (
        Column("group", TEXT, ""),
        Column("state", BYTES, "of GroupOwnership"),
        Column("relied_on", _PROCESSES, "processes that were taken to have ended"),
    ),
)
_RAW = one_kind_a_column("raw", (OVERLAPS, BAD))
"""What is judged anew in each run."""
_IN_PARTS = (INTERVALS, GAPS, CLOCKS)
_FOUND = one_kind_a_column("found", (*KINDS, _GROUPS))
_OUT = Table("out", "", (*_FOUND.columns, Column(SETTLED, FLAG, "")))
_IN = Table("in", "", (*_EVENTS.columns, Column("state", BYTES, "")))
_PATTERN = re.compile(r"([{}\[\]*?\\])")
_STATE_FIRST_US = -1


class _Input(NamedTuple):
    """What goes through the groups."""

    rows: "DataFrame"
    replayed: "DataFrame"
    """Groups that are replayed from their first event."""
    any_replayed: bool


def run(
    spark: "SparkSession",
    journal: Location | Path,
    out: Location | Path,
    *,
    skew_us: int = DEFAULT_SKEW_US,
    settle_us: int = DEFAULT_SETTLE_US,
    hidden: Sequence[Unfinished] = (),
    form: Form = PARQUET,
) -> Summary:
    """Read the files that are new in the folder ``journal``, and write the tables of all events into ``out``.

    ``hidden`` are its files that were not finished before.

    Raises PipelineError.
    """
    with run_of(spark, location.of(out), "audit", form) as into:
        return _Incremental(spark, into, skew_us, settle_us, hidden).run(location.of(journal).uri)


class _Incremental:
    def __init__(
        self,
        spark: "SparkSession",
        into: Run,
        skew_us: int,
        settle_us: int,
        hidden: Sequence[Unfinished],
    ) -> None:
        self._spark = spark
        self._into = into
        self._skew_us = skew_us
        self._settle_us = settle_us
        self._hidden = hidden
        before = into.before
        self._state = before.state if before is not None and before.command == "audit" else None
        if self._state is not None and before is not None and before.form != into.form:
            raise PipelineError(
                f"{into.out}: goes on from tables in {before.form}: "
                f"give --format {before.form}, or leave --incremental out"
            )
        self._goes_on = (
            self._state is not None
            and self._state.rules_version == STATE_VERSION
            and self._state.skew_us == skew_us
        )
        """Whether the groups' states and the settled findings are of any use; the events are, anyway."""

    def run(self, journal: str) -> Summary:
        state, folder, spark = self._state, self._into.folder, self._spark
        new_files = self._new_files(journal)
        lines = self._lines(new_files)
        rows = events.parsed(lines, READ).persist(StorageLevel.DISK_ONLY)
        try:
            with step(spark, "reading what is new"):
                self._write(
                    _FILES, spark.createDataFrame([(one,) for one in new_files], _FILES.ddl).coalesce(1)
                )
                old_ranges = self._read(RANGES, (state.ranges,) if state else ())
                old_boots = {(one.replica, one.boot): one for one in ranges.boots_of(old_ranges)}
                self._write(
                    RANGES,
                    ranges.joined(ranges.of_events(events.valid(rows)).unionByName(old_ranges)),
                )
                known = RANGES.read(spark, folder)
                boots, lost = ranges.boots_of(known), ranges.losses_of(known)
                losses.check_single_source((boot.replica, boot.boot) for boot in boots)
                PROCESSES.write(spark.createDataFrame(boots, PROCESSES.ddl).coalesce(1), folder)
                last_read = {(boot.replica, boot.boot): (boot.last_seq, boot.last_us) for boot in boots}
                beyond = unread(self._hidden, last_read)
                unfinished.write(spark, self._hidden, beyond, folder)
                judging.write_losses(spark, lost, beyond, folder)
            last_us = {(boot.replica, boot.boot): boot.last_us for boot in boots}
            gone_on = [process for process, boot in old_boots.items() if last_us[process] != boot.last_us]
            before_us = state.cut_us if state and self._goes_on else _STATE_FIRST_US
            cut_us = max(before_us, max(last_us.values(), default=0) - self._settle_us)
            given = self._input(events.valid(rows).where("`group` != ''"), before_us, gone_on)
            found = (
                given.rows.repartition("group")
                .sortWithinPartitions(*ORDER)
                .mapInArrow(_through_groups(last_us, self._skew_us, cut_us), _OUT.ddl)
                .persist(StorageLevel.DISK_ONLY)
            )
            try:
                with step(spark, "going through the groups"):
                    self._write(_GROUPS, rows_of(found, _GROUPS))
                with step(spark, "judging"):
                    return self._judged(rows, found, given, boots, beyond, cut_us)
            finally:
                found.unpersist()
                given.replayed.unpersist()
        finally:
            rows.unpersist()

    def _judged(
        self,
        rows: "DataFrame",
        found: "DataFrame",
        given: _Input,
        boots: list[losses.Boot],
        beyond: Sequence[tuple[Unfinished, Loss]],
        cut_us: int,
    ) -> Summary:
        into, spark = self._into, self._spark
        parts = {table.name: self._in_parts(table, found, given) for table in _IN_PARTS}
        is_settled = F.col(SETTLED)
        raw = found.where("overlaps IS NOT NULL OR bad IS NOT NULL")
        kept_raw = self._kept_raw(given)
        all_raw = kept_raw.unionByName(raw.select(*_RAW.names)).persist(StorageLevel.DISK_ONLY)
        try:
            if given.any_replayed:
                self._write(_RAW, kept_raw.unionByName(raw.where(is_settled).select(*_RAW.names)))
            else:
                self._write(_RAW, raw.where(is_settled).select(*_RAW.names))
            parts[QUARANTINE.name] = self._quarantine(rows, all_raw)

            def read(table: Table) -> "DataFrame":
                if table.name not in parts:
                    return table.read(spark, into.folder)
                return into.parts_of(table, parts[table.name])

            overlaps = rows_of(all_raw, OVERLAPS)
            clocks = judging.clocks_of(read, overlaps, self._skew_us)
            missing = judging.missing(spark, read(LOSSES), beyond)
            classified = judging.classified(overlaps, self._skew_us, clocks.explains, missing)
            OVERLAPS.write(classified, into.folder)
        finally:
            all_raw.unpersist()
        summary = judging.summed_up(read, boots, self._skew_us, clocks)._replace(
            unfinished=by_file(self._hidden, beyond, gone=True),
            unread=by_file(self._hidden, beyond, gone=False),
        )
        checks = judging.checked(read, summary, clocks)
        QUALITY.write(spark.createDataFrame(checks, QUALITY.ddl).coalesce(1), into.folder)
        into.commit(WRITTEN, parts, self._next_state(given, cut_us))
        return summary

    def _next_state(self, given: _Input, cut_us: int) -> State:
        state = self._state
        raw = (self._part(_RAW),)
        return State(
            rules_version=STATE_VERSION,
            skew_us=self._skew_us,
            cut_us=cut_us,
            events=(*(state.events if state else ()), self._part(_EVENTS)),
            files=(*(state.files if state else ()), self._part(_FILES)),
            groups=self._part(_GROUPS),
            ranges=self._part(RANGES),
            overlaps=raw if given.any_replayed or state is None else (*state.overlaps, *raw),
        )

    # What is new

    def _new_files(self, journal: str) -> list[str]:
        try:
            there = self._spark.read.option("pathGlobFilter", "*.jsonl").option("recursiveFileLookup", "true")
            listed = [unquote(file) for file in there.text(journal).inputFiles()]
        except Exception as error:
            raise PipelineError(
                f"{journal}: no journal can be read there ({type(error).__name__})"
            ) from error
        known = self._read(_FILES, self._state.files if self._state else ())
        return sorted(set(listed) - {row["file"] for row in known.collect()})

    def _lines(self, files: list[str]) -> "DataFrame":
        if not files:
            return self._spark.createDataFrame(
                [], "source string, at_partition int, at_offset bigint, line binary"
            )
        return events.with_source(self._spark.read.text([_PATTERN.sub(r"\\\1", file) for file in files]))

    def _input(self, new: "DataFrame", before_us: int, gone_on: list[Process]) -> _Input:
        """Return the rows that go through the groups, and write the new events for later runs."""
        state, spark = self._state, self._spark
        stored = self._read(_EVENTS, state.events if state else ())
        identity = ["group", "time_us", "replica", "boot", "seq"]
        late = new.where(F.col("time_us") <= before_us).join(stored.select(*identity), identity, "left_anti")
        fresh = new.where(F.col("time_us") > before_us).unionByName(late.select(*READ))
        self._write(_EVENTS, fresh.repartition("group").sortWithinPartitions(*ORDER))
        fresh = _EVENTS.read_parts(spark, [f"{self._into.folder}/{_EVENTS.name}"])
        everything = stored.unionByName(fresh)
        if state is None or not self._goes_on:
            none = spark.createDataFrame([], "`group` string")
            return _Input(everything.withColumn("state", F.lit(None).cast("binary")), none, True)  # noqa: FBT003
        groups = self._read(_GROUPS, (state.groups,))
        relied = groups.select("group", F.explode("relied_on").alias("process")).select("group", "process.*")
        again = spark.createDataFrame(gone_on, "replica string, boot string")
        replayed = (
            fresh.where(F.col("time_us") <= before_us)
            .select("group")
            .unionByName(relied.join(F.broadcast(again), ["replica", "boot"]).select("group"))
            .distinct()
            .persist(StorageLevel.DISK_ONLY)
        )
        after = everything.where(F.col("time_us") > before_us).join(replayed, "group", "left_anti")
        anew = everything.join(replayed, "group", "left_semi")
        states = groups.join(replayed, "group", "left_anti").select(
            "group", F.lit(_STATE_FIRST_US).cast("bigint").alias("time_us"), "state"
        )
        rows = (
            after.select(*READ).unionByName(anew.select(*READ)).unionByName(states, allowMissingColumns=True)
        )
        return _Input(rows.select(*_IN.names), replayed, not replayed.isEmpty())

    # What is found

    def _in_parts(self, table: Table, found: "DataFrame", given: _Input) -> Parts:
        into = self._into
        own = found.where(F.col(table.name).isNotNull())
        for name, is_settled in ((SETTLED, True), (OPEN, False)):
            rows = own.where(F.col(SETTLED) == is_settled).select(f"{table.name}.*")
            table.write(rows, f"{into.folder}/{name}")
        settled = [f"{into.part}/{SETTLED}/{table.name}"]
        anew = given.any_replayed
        if anew and self._goes_on:
            kept = into.settled_before(table).join(given.replayed, "group", "left_anti")
            table.write(kept, f"{into.folder}/{KEPT}")
            settled.insert(0, f"{into.part}/{KEPT}/{table.name}")
        before = into.parts_before(table) if self._goes_on else ()
        return Parts(before, tuple(settled), f"{into.part}/{OPEN}/{table.name}", anew)

    def _quarantine(self, rows: "DataFrame", all_raw: "DataFrame") -> Parts:
        """Lines that can't be read stay as they are; bad snapshots are found again if their group is replayed."""
        into = self._into
        QUARANTINE.write(events.rejected(rows), f"{into.folder}/{SETTLED}")
        QUARANTINE.write(bad_snapshots(rows_of(all_raw, BAD)), f"{into.folder}/{OPEN}")
        name = QUARANTINE.name
        settled = (f"{into.part}/{SETTLED}/{name}",)
        return Parts(
            into.parts_before(QUARANTINE), settled, f"{into.part}/{OPEN}/{name}", self._state is None
        )

    def _kept_raw(self, given: _Input) -> "DataFrame":
        kept = self._read(_RAW, self._state.overlaps if self._state and self._goes_on else ())
        if not given.any_replayed:
            return kept
        group = F.coalesce(F.col("overlaps.group"), F.col("bad.group"))
        return kept.withColumn("group", group).join(given.replayed, "group", "left_anti").drop("group")

    # Where it lies

    def _part(self, table: Table) -> str:
        return f"{self._into.part}/{table.name}"

    def _write(self, table: Table, rows: "DataFrame") -> None:
        table.write(rows, self._into.folder)

    def _read(self, table: Table, parts: Iterable[str]) -> "DataFrame":
        places = [f"{self._into.out.uri}/{part}" for part in parts]
        if not places:
            return self._spark.createDataFrame([], table.ddl)
        return table.read_parts(self._spark, places)


def _through_groups(
    last_us: Mapping[Process, int], skew_us: int, cut_us: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what goes through the events of groups, each with its state first if it has one."""

    def through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        group = _Group("", last_us, skew_us)
        settled, later = Found(skew_us), Found(skew_us)
        for batch in batches:
            groups, *fields, states = (batch[name].to_pylist() for name in _IN.names)
            kept: list[tuple[str, bytes, list[Process]]] = []
            for name, event, state in zip(groups, map(Event, *fields), states, strict=True):
                if name != group.name:
                    group.end(kept, later)
                    group = _Group(name, last_us, skew_us)
                if state is not None:
                    group.ownership.go_on_from(state)
                    group.has_state = True
                    continue
                if event.time_us > cut_us and not group.is_beyond_cut:
                    group.keep(kept)
                (later if group.is_beyond_cut else settled).add(name, group.ownership.take(event))
                group.has_state = True
            yield from _batches(settled, later, kept)
            settled, later = Found(skew_us), Found(skew_us)
        kept = []
        group.end(kept, later)
        yield from _batches(settled, later, kept)

    return through


class _Group:
    """The group that is being replayed."""

    def __init__(self, name: str, last_us: Mapping[Process, int], skew_us: int) -> None:
        self.name = name
        self.ownership = GroupOwnership(last_us, skew_us)
        self.has_state = False
        self.is_beyond_cut = False

    def keep(self, kept: list[tuple[str, bytes, list[Process]]]) -> None:
        """Note the state at the cut; nothing that comes later is settled."""
        self.is_beyond_cut = True
        if self.has_state:
            kept.append((self.name, self.ownership.state(), sorted(self.ownership.relied_on)))

    def end(self, kept: list[tuple[str, bytes, list[Process]]], later: Found) -> None:
        """Note what is open at the end of the journal."""
        if not self.is_beyond_cut:
            self.keep(kept)
        later.add(self.name, self.ownership.end())


def _batches(
    settled: Found, later: Found, kept: list[tuple[str, bytes, list[Process]]]
) -> Iterator[pa.RecordBatch]:
    for found, is_settled in ((settled, True), (later, False)):
        batch = found.batch()
        states = [
            {
                "group": group,
                "state": state,
                "relied_on": [{"replica": one[0], "boot": one[1]} for one in relied],
            }
            for group, state, relied in (kept if is_settled else ())
        ]
        kind = pa.struct(list(_GROUPS.arrow))
        nothing = [pa.nulls(len(states), column.type) for column in batch.columns]
        columns = [pa.concat_arrays([one, none]) for one, none in zip(batch.columns, nothing, strict=True)]
        columns.append(pa.array([None] * batch.num_rows + states, kind))
        columns.append(pa.array([is_settled] * (batch.num_rows + len(states)), pa.bool_()))
        yield pa.RecordBatch.from_arrays(columns, schema=_OUT.arrow)
