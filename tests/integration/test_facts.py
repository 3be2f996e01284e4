"""docs/evidence/facts.md names tests that there are, and says for every fact which, or why none. Needs no Kafka."""

import re

import pytest
from support import ROOT

PAGE = (ROOT / "docs" / "evidence" / "facts.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "---" not in line and not line.startswith("| what ")
]


def defined() -> set[str]:
    return {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))
    }


def test_every_test_that_is_named_exists():
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 50
    assert named <= defined(), sorted(named - defined())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_fact_has_a_test_or_a_reason(row):
    fact, held_by = row
    assert "`test_" in held_by or "`make " in held_by or re.search(r"\b(No test|Not relied on)", held_by), (
        fact
    )


def test_every_test_of_the_brokers_is_on_the_page():
    files = (ROOT / "tests" / "integration" / "facts").glob("test_*.py")
    written = {
        name for file in files for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))
    }
    assert written
    assert written <= set(re.findall(r"`(test_\w+)`", PAGE)), (
        "a fact without a line in docs/evidence/facts.md"
    )
