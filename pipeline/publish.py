"""Runs a command that writes tables: they are written where nobody reads, and then made those that hold, all at once.

A run that is killed leaves the tables of the run before. What it has written lies under ``runs/`` (and, with Delta
Lake, in versions that no manifest names) until the next run deletes it.
"""

import contextlib
import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipeline import delta, location, runs
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.location import Location
from pipeline.rules.lines import VERSION as JOURNAL_VERSION
from pipeline.runs import TABLES_VERSION, Form, Manifest, State
from pipeline.single_run import PATIENCE_S, single_run
from pipeline.tables import Table
from pipeline.watch import step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPEN = "open"
"""The part of a table with rows that the next incremental run may change."""
KEPT, SETTLED = "kept", "settled"


class Parts(NamedTuple):
    """What an incremental run has written of a table, in folders relative to that of the tables."""

    before: tuple[str, ...]
    """Parquet: what holds of earlier runs."""
    settled: tuple[str, ...]
    """What this run has written for good; with ``anew`` it is all that is settled."""
    open: str
    anew: bool


class Run:
    """A run that writes tables."""

    def __init__(
        self,
        spark: "SparkSession",
        out: Location,
        command: str,
        form: Form,
        before: Manifest | None,
        check_alone: Callable[[], None],
    ) -> None:
        """``before`` is the run that holds now; ``check_alone`` raises PipelineError once another has the folder."""
        self.started = dt.datetime.now(dt.UTC)
        self.id = f"{self.started:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
        self.out = out
        self.part = f"{runs.RUNS}/{self.id}"
        self.folder = (out / self.part).uri
        """Where the command writes."""
        self.before = before
        self.form: Form = form
        self._spark = spark
        self._files = FileSystems(spark)
        self._command = command
        self._check_alone = check_alone

    def commit(
        self, tables: Sequence[Table], parts: Mapping[str, Parts] | None = None, state: State | None = None
    ) -> None:
        """Make these tables the ones that hold. ``parts`` names those that an incremental run has written in parts."""
        in_parts = parts or {}
        if self.form == runs.PARQUET:
            versions = dict[str, int]()
            folders = {table.name: self._folders(table, in_parts) for table in tables}
        else:
            folders = dict[str, tuple[str, ...]]()
            with step(self._spark, "writing to Delta Lake"):
                versions = {table.name: self._to_delta(table, in_parts.get(table.name)) for table in tables}
        manifest = Manifest(
            tables_version=TABLES_VERSION,
            journal_version=JOURNAL_VERSION,
            run=self.id,
            command=self._command,
            form=self.form,
            parts=folders,
            versions=versions,
            state=state,
        )
        self._check_alone()
        runs.replace_if(self._files, self.out, manifest, self.before)
        if self.form == runs.DELTA:
            self._forget_own(tables, state)
        else:
            for table in tables:
                self._forget_older_form(table)

    def _forget_older_form(self, table: Table) -> None:
        """Delete a table as versions without a manifest wrote it: it would be taken for the one that holds."""
        at = self.out / table.name
        if not self._files.is_folder(at / "_delta_log"):
            self._files.delete_folder(at)

    def _forget_own(self, tables: Sequence[Table], state: State | None) -> None:
        """Delete what this run has written as Parquet and that is in Delta Lake now."""
        own = self.out / self.part
        if state is None:
            self._files.delete_folder(own)
            return
        for name in (SETTLED, OPEN, KEPT, *(table.name for table in tables)):
            self._files.delete_folder(own / name)

    def parts_before(self, table: Table) -> tuple[str, ...]:
        """Return the folders with what earlier runs have settled of a table, where they are Parquet."""
        before = self.before
        if before is None or before.form != runs.PARQUET:
            return ()
        return tuple(
            part for part in before.parts.get(table.name, ()) if not part.endswith(f"/{OPEN}/{table.name}")
        )

    def settled_before(self, table: Table) -> "DataFrame":
        """Read what earlier runs have settled of a table."""
        before = self.before
        if before is not None and before.form == runs.DELTA:
            rows = delta.read(self._spark, self.out / table.name, before.versions[table.name])
            return table.of(rows.where(delta.SETTLED))
        parts = self.parts_before(table)
        if not parts:
            return self._spark.createDataFrame([], table.ddl)
        return table.read_parts(self._spark, self._places(parts))

    def parts_of(self, table: Table, part: Parts) -> "DataFrame":
        """Read a table as it will hold."""
        own = table.read_parts(self._spark, self._places((*part.settled, part.open)))
        return own if part.anew else own.unionByName(self.settled_before(table))

    def _places(self, parts: Sequence[str]) -> list[str]:
        return [f"{self.out.uri}/{part}" for part in parts]

    def _folders(self, table: Table, in_parts: Mapping[str, Parts]) -> tuple[str, ...]:
        if table.name not in in_parts:
            return (f"{self.part}/{table.name}",)
        part = in_parts[table.name]
        return (*(() if part.anew else part.before), *part.settled, part.open)

    def _to_delta(self, table: Table, part: Parts | None) -> int:
        """Write a table; return the version that it has now."""
        self._check_alone()
        self._forget_older_form(table)
        at = self.out / table.name
        self._hold(table, at)
        if part is None:
            rows = self._placed(table, (f"{self.part}/{table.name}",), settled=True)
            delta.overwrite(self._spark, rows, at, self.id)
        else:
            rows = self._placed(table, part.settled, settled=True).unionByName(
                self._placed(table, (part.open,), settled=False)
            )
            self._write_parts(rows, at, anew=part.anew)
        version = delta.latest_version(self._files, at)
        return 0 if version is None else version

    def _hold(self, table: Table, at: Location) -> None:
        """Take back what a killed run has written, so that what holds is replaced now, and not when that one wrote."""
        version = self.before.versions.get(table.name) if self.before is not None else None
        if version is not None and delta.latest_version(self._files, at) is not None:
            delta.hold(self._spark, self._files, at, version)

    def _write_parts(self, rows: "DataFrame", at: Location, *, anew: bool) -> None:
        if anew or self.before is None:
            delta.overwrite(self._spark, rows, at, self.id)
        elif delta.latest_version(self._files, at) is None:
            raise PipelineError(f"{at}: the table to go on from is gone: leave --incremental out once")
        else:
            delta.replace_unsettled(self._spark, rows, at, self.id)

    def _placed(self, table: Table, folders: Sequence[str], *, settled: bool) -> "DataFrame":
        return self._of_parquet(table, table.read_parts(self._spark, self._places(folders)), settled=settled)

    def _of_parquet(self, table: Table, rows: "DataFrame", *, settled: bool) -> "DataFrame":
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the name that all of Spark's docs use

        today = F.lit(self.started.date())
        of_row = (
            F.coalesce(F.to_date(F.timestamp_micros(table.time)), today) if table.time is not None else today
        )
        placed = delta.placed(rows, self.id, of_row, table.group)
        return placed.withColumn(delta.SETTLED, F.lit(settled))


@contextlib.contextmanager
def run_of(
    spark: "SparkSession",
    out: Location | Path | str,
    command: str,
    form: Form = runs.PARQUET,
    patience_s: float = PATIENCE_S,
) -> Iterator[Run]:
    """Begin a run that writes tables into ``out``: the only one there, after waiting ``patience_s`` for another.

    Raises PipelineError if another one goes on, or if the tables there are of another command or of a newer version.
    """
    into = location.of(out)
    files = FileSystems(spark)
    if form == runs.DELTA:
        delta.check(spark)
    with single_run(spark, into, patience_s) as check_alone:
        before = runs.current(files, into)
        if before is not None and before.command != command:
            raise PipelineError(f"{into}: has the tables of {before.command}: choose another folder")
        forget_others(files, into, before)
        yield Run(spark, into, command, form, before, check_alone)


def forget_others(files: FileSystems, out: Location, manifest: Manifest | None) -> None:
    """Delete what runs have written that no longer hold, or were killed."""
    of_runs = out / runs.RUNS
    if not files.is_folder(of_runs):
        return
    held = set(_folders_of(manifest)) if manifest is not None else set[str]()
    for name in files.names(of_runs):
        if name not in held:
            files.delete_folder(of_runs / name)


def _folders_of(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the runs whose folders a manifest needs."""
    named = [part for parts in manifest.parts.values() for part in parts]
    if (state := manifest.state) is not None:
        named += [*state.events, *state.files, state.groups, state.ranges, *state.overlaps]
    for part in named:
        yield part.split("/")[1]
