"""Reads the tables of a run without Spark, from the files that belong to them."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from pipeline import runs
from pipeline.audit import job as audit
from pipeline.readiness.output import TABLES as OF_READINESS
from pipeline.table_files import files_of_table

TABLES = {
    "ready": ("groups", "members", "offsets", "verdicts", "waves", "quarantine"),
    "progress": ("transitions", "pauses", "stuck", "windows", "convergences", "quarantine"),
    "audit": ("overlaps", "gaps", "intervals", "losses", "processes", "clocks", "quarantine"),
}
"""The folder of each command, and its tables."""
COLUMNS = {one.name: one.columns for one in (*OF_READINESS, *audit.WRITTEN)}


def tables(folder: Path, command: str) -> dict[str, list[str]]:
    """The rows of each table of a command, in an order that does not depend on who wrote them."""
    return {name: held(folder / command, name) for name in TABLES[command]}


def held(folder: Path, name: str) -> list[str]:
    """The rows of a table as readers see them now."""
    at = folder / runs.MANIFEST
    if not at.exists():
        return rows(folder / name)
    manifest = runs.decoded(at.read_bytes(), at)
    if manifest.form == runs.PARQUET:
        of_parts = (file for part in manifest.parts[name] for file in (folder / part).glob("*.parquet"))
        return sorted(repr(row) for file in of_parts for row in _read(file))
    names = [column.name for column in COLUMNS[name]]  # Delta Lake has more
    files = files_of_table(folder, name).files or []
    return sorted(repr({one: row[one] for one in names}) for file in files for row in _read(Path(file)))


def rows(table: Path) -> list[str]:
    """The rows of one table; of the windows the newest version of each."""
    if table.name == "windows":
        newest = {(row["group"], row["from_us"]): row for _, row in sorted(_batches(table), key=_batch)}
        return sorted(map(repr, newest.values()))
    files = _listed(table) if (table / "_spark_metadata").is_dir() else sorted(table.glob("*.parquet"))
    assert files, f"{table} has no file"
    return sorted(repr(row) for file in files for row in _read(file))


def _batches(table: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for folder in table.glob("batch=*"):
        for file in folder.glob("*.parquet"):
            for row in _read(file):
                yield int(folder.name.partition("=")[2]), row


def _batch(one: tuple[int, dict[str, Any]]) -> int:
    return one[0]


def _listed(table: Path) -> list[Path]:
    """What the log of Spark's file sink names: a batch that was repeated leaves files that it does not."""
    logs = [one for one in (table / "_spark_metadata").iterdir() if not one.name.startswith(".")]
    lines = [line for log in logs for line in log.read_text(encoding="utf-8").splitlines() if "{" in line]
    return sorted({table / json.loads(line)["path"].rpartition("/")[2] for line in lines})


def _read(file: Path) -> Sequence[dict[str, Any]]:
    found: Sequence[dict[str, Any]] = parquet.ParquetFile(file).read().to_pylist()
    return found
