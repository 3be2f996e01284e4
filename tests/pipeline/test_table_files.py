"""The files of a Delta table by its log, whatever somebody has put into that."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from pipeline.errors import PipelineError
from pipeline.table_files import _of_delta

FIRST = """{"commitInfo": {"operation": "WRITE"}}
{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
{"add": {"path": "a%20b.parquet", "stats": "{}"}}
"""
SECOND = '{"remove": {"path": "a%20b.parquet"}}\n{"add": {"path": "c.parquet"}}\n'


def log(folder: Path, *versions: str) -> Path:
    (folder / "_delta_log").mkdir()
    for number, text in enumerate(versions):
        (folder / "_delta_log" / f"{number:020}.json").write_text(text, encoding="utf-8")
    return folder


def names(table: Path, version: int) -> list[str]:
    return [Path(file).name for file in _of_delta(table, version).files or ()]


def test_a_version_has_what_was_added_and_not_removed_since(tmp_path: Path) -> None:
    table = log(tmp_path, FIRST, SECOND)
    assert names(table, 0) == ["a b.parquet"]
    assert names(table, 1) == ["c.parquet"]


def test_a_checkpoint_stands_for_the_versions_before(tmp_path: Path) -> None:
    table = log(tmp_path, "no JSON", "no JSON", SECOND)
    rows = [
        {"add": None, "protocol": {"minReaderVersion": 1}},
        {"add": {"path": "a%20b.parquet"}, "protocol": None},
        {"add": {"path": "d.parquet"}, "protocol": None},
    ]
    parquet.write_table(pa.Table.from_pylist(rows), table / "_delta_log" / f"{1:020}.checkpoint.parquet")
    assert names(table, 2) == ["d.parquet", "c.parquet"]


@pytest.mark.parametrize(
    "line", ["no JSON", '{"add": 3}', '{"add": {"path":' + "[" * 3_000, '{"protocol": {}}', "\ufeff{}"]
)
def test_a_log_that_is_none_is_an_error_of_one_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(PipelineError) as error:
        _of_delta(log(tmp_path, line), 0)
    assert "\n" not in str(error.value)


def test_what_asks_more_of_its_readers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="read by Spark only"):
        _of_delta(log(tmp_path, '{"protocol": {"minReaderVersion": 2}}'), 0)
