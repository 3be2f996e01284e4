"""The glossary names what the code has: each file exists, and each name stands in one of the files of its row."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "glossary.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and "---" not in line and not line.endswith("| where |")
]


def python_files(path):
    return path.rglob("*.py") if path.is_dir() else [path]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0] or row[1])
def test_a_row_names_what_the_code_has(row):
    _term, _meaning, names, where = row
    files = [ROOT / path for path in re.findall(r"`([\w/.]+)`", where)]
    assert files
    assert [str(file) for file in files if not file.exists()] == []
    code = "".join(one.read_text(encoding="utf-8") for file in files for one in python_files(file))
    missing = [name for name in re.findall(r"`(\w+)`", names) if not re.search(rf"\b{name}\b", code)]
    assert missing == []


def test_there_are_rows():
    assert len(ROWS) > 30
