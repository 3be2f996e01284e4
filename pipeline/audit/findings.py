"""Findings as they come out of going through the groups: rows of several tables at once, one kind a column."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import astuple
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's docs use

from pipeline.audit.output import CLOCKS, GAPS, INTERVALS, OVERLAPS
from pipeline.rules.findings import BadSnapshot, ClockProof, Finding, Gap, Hold, Interval, Overlap
from pipeline.rules.losses import Process
from pipeline.tables import TEXT, Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BAD = Table("bad", "", (Column("group", TEXT, ""), *(Column(name, TEXT, "") for name in BadSnapshot._fields)))
"""Snapshots that do not match the schema."""

KINDS = (INTERVALS, OVERLAPS, GAPS, CLOCKS, BAD)


def one_kind_a_column(name: str, kinds: Sequence[Table]) -> Table:
    """Return the table whose rows have a row of one of these tables, and null for the others."""
    columns = tuple(Column(table.name, pa.struct(list(table.arrow)), "") for table in kinds)
    return Table(
        name, "What going through the groups found, one kind a column; the others are null.", columns
    )


FINDINGS = one_kind_a_column("findings", KINDS)


class Found:
    """Findings as rows of the tables of their kinds."""

    def __init__(self, skew_us: int) -> None:
        """``skew_us``: how far clocks of replicas may differ, microseconds."""
        self._skew_us = skew_us
        self._rows: dict[str, list[Sequence[Any]]] = {table.name: [] for table in KINDS}

    def add(self, group: str, findings: Iterable[Finding]) -> None:
        """Add the findings of a group."""
        for found in findings:
            table, row = _row(group, found, self._skew_us)
            self._rows[table.name].append(row)

    def batch(self) -> pa.RecordBatch:
        """Return all findings as one batch, ordered by kind."""
        count, before, columns = sum(map(len, self._rows.values())), 0, []
        for table in KINDS:
            own = table.batch(self._rows[table.name]).to_struct_array()
            after = count - before - len(own)
            columns.append(pa.concat_arrays([pa.nulls(before, own.type), own, pa.nulls(after, own.type)]))
            before += len(own)
        return pa.RecordBatch.from_arrays(columns, schema=FINDINGS.arrow)


def _row(group: str, found: Finding, skew_us: int) -> tuple[Table, Sequence[Any]]:
    """Return the table of a finding, and its row there."""
    match found:
        case Interval(partition, hold, until_us, end_event, end_kind):
            values = (hold.member, hold.instance, hold.since_us, until_us, hold.event, end_event, end_kind)
            return INTERVALS, (group, *partition, *values)
        case Gap(partition):
            return GAPS, (group, *partition, *astuple(found)[1:-2])
        case Overlap(partition, first, one, second, other):
            same = first.instance is not None and first.instance == second.instance
            sides = (*_side(first, one), *_side(second, other))
            served_by = [".".join(process) for process in found.served_by]
            times = (found.from_us, found.until_us, found.end_event)
            judgement = (same, found.heard_us, served_by, found.proven)
            return OVERLAPS, (group, *partition, None, *sides, *times, *judgement)
        case ClockProof(ahead, behind, at_least_us, member, event, older_event):
            proof = (ahead[0], behind[0], at_least_us, member, event, older_event, at_least_us > skew_us)
            return CLOCKS, (group, *proof)
        case BadSnapshot():
            return BAD, (group, *found)


def _side(hold: Hold, process: Process) -> tuple[str, str, str, str]:
    return hold.member, *process, hold.event


def rows_of(found: "DataFrame", table: Table) -> "DataFrame":
    """Return the rows of one kind."""
    return found.where(F.col(table.name).isNotNull()).select(f"{table.name}.*")


def bad_snapshots(bad: "DataFrame") -> "DataFrame":
    """Return the rows of the quarantine table for rows of :data:`BAD`."""
    return bad.select(
        F.col("event").alias("source"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        F.col("reason"),
        F.lit(False).alias("superseded"),  # noqa: FBT003 - a literal of Spark's
        F.lit(None).cast("binary").alias("key"),
        F.encode("content", "UTF-8").alias("content"),
    )
