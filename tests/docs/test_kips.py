"""The page of the KIPs names files that exist, and says of each item how it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "kips.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| item", "| ---"))
]
FILES = sorted({file for row in ROWS for file in re.findall(r"`([a-z_]+/[^`]+)`", row[-1])})


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_named_exists(file: str) -> None:
    assert (ROOT / file).exists()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_an_item_says_how_it_stands_and_where_or_why(row: list[str]) -> None:
    item, state, where = row
    assert item
    assert state in {"here", "partly", "not built", "n.a."}
    assert state != "here" or "`" in where, "what is here is somewhere"
    assert where
