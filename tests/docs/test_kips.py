"""The page of the KIPs names files that exist and tests that pytest collects, and says of each item how it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "kips.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| item", "| ---"))
]
FILES = sorted({file for row in ROWS for file in re.findall(r"`([a-z_]+/[^`]+)`", row[2])})


def named_tests(row: list[str]) -> list[str]:
    """Return the ids that a row names, as pytest has them; a name alone is a scenario."""
    return [
        f"tests/{name}"
        if "::" in name
        else f"tests/coordinator/test_against_kafka.py::test_kafka_did_the_same[{name}]"
        for name in re.findall(r"`([^`]+)`", row[3])
    ]


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_named_exists(file: str) -> None:
    assert (ROOT / file).exists()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_an_item_says_how_it_stands_and_where_or_why(row: list[str]) -> None:
    item, state, where, _ = row
    assert item
    assert state in {"here", "partly", "not built", "n.a."}
    assert where
    if state == "here":
        assert "`" in where, "what is here is somewhere"
        assert named_tests(row), "and a test would fail without it"


def test_each_test_that_is_named_is_collected() -> None:
    ids = sorted({one for row in ROWS for one in named_tests(row)})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "--quiet",
        "--long",
        "-p",
        "no:cacheprovider",
    ]

    done = subprocess.run([*command, *ids], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
