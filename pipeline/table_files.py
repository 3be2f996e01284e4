"""Finds the Parquet files of a small local table without Spark, in each of the forms that commands write.

Of Delta Lake's log only what tables of this pipeline have is read: the JSON files from version 0 on, or from the last
checkpoint of one file, with ``add`` and ``remove``. A table that asks more of its readers is refused.
https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from pipeline import runs
from pipeline.errors import PipelineError
from protocol_codecs.foreign import JsonDecoder, Undecodable

_READER_VERSION = 1
_LONGEST_LINE = 64 * 1024 * 1024


class _File(msgspec.Struct):
    path: str | None


class _Protocol(msgspec.Struct):
    minReaderVersion: int  # noqa: N815 - as Delta Lake has it


class _Action(msgspec.Struct):
    """A line of Delta Lake's log, as far as it counts here."""

    protocol: _Protocol | None = None
    add: _File | None = None
    remove: _File | None = None


_action = JsonDecoder(_Action, _LONGEST_LINE)


class TableFiles(NamedTuple):
    """A table: where it lies, and its files (None: all of the folder)."""

    folder: Path
    files: list[str] | None


def files_of_table(tables: Path, name: str) -> TableFiles:
    """Return the files of a table in the folder of a command's tables. Raises PipelineError, OSError."""
    at = tables / runs.MANIFEST
    if not at.is_file():
        return TableFiles(tables / name, None)
    manifest = runs.decoded(at.read_bytes(), at)
    if manifest.form == runs.DELTA:
        if name not in manifest.versions:
            raise PipelineError(f"{tables} has no table {name!r}: it is not what the command wrote")
        return _of_delta(tables / name, manifest.versions[name])
    (part,) = manifest.parts.get(name) or ("",)
    if not part:
        raise PipelineError(f"{tables} has no table {name!r}: it is not what the command wrote")
    return TableFiles(tables / part, None)


def _of_delta(table: Path, version: int) -> TableFiles:
    log, files, first = table / "_delta_log", dict[str, None](), 0
    checkpoints = [int(one.name[:20]) for one in log.glob("*.checkpoint.parquet") if one.name[:20].isdigit()]
    if known := [one for one in checkpoints if one <= version]:
        first = max(known) + 1
        _take(table, files, _checkpoint(log / f"{first - 1:020}.checkpoint.parquet"))
    for number in range(first, version + 1):
        at = log / f"{number:020}.json"
        try:
            _take(table, files, [_action.decode(line) for line in at.read_bytes().splitlines() if line])
        except Undecodable as error:
            raise PipelineError(f"{at}: {error}") from None
    return TableFiles(table, [str(table / unquote(one)) for one in files])


def _checkpoint(at: Path) -> list[_Action]:
    from pyarrow import parquet  # noqa: PLC0415 - this module is there without it

    file = parquet.ParquetFile(at)  # `parquet.read_table` would name the column `path`, without `add`
    rows = file.read(columns=["add.path", "protocol.minReaderVersion"]).to_pylist()
    return msgspec.convert(rows, list[_Action])


def _take(table: Path, files: dict[str, None], actions: list[_Action]) -> None:
    for one in actions:
        if one.protocol is not None and one.protocol.minReaderVersion > _READER_VERSION:
            raise PipelineError(f"{table}: this table of Delta Lake has features that are read by Spark only")
        if one.remove is not None and one.remove.path is not None:
            files.pop(one.remove.path, None)
    for one in actions:
        if one.add is not None and one.add.path is not None:
            files[one.add.path] = None
