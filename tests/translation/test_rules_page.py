"""Each rule of docs/reference/rules.md names files, tests and mutations that exist, or says why no test holds it."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.simulation.mutations import FLEET_MUTATIONS, MUTATIONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "---" not in line and not line.startswith("| rule ")
]


@cache
def defined() -> frozenset[str]:
    return frozenset(
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))
    )


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 80
    assert named <= defined(), sorted(named - defined())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_rule_has_a_file_and_a_test(row: list[str]) -> None:
    _, kept_by, held_by = row
    for name in re.findall(r"`([\w/]+\.py)`", kept_by):
        assert (ROOT / name).is_file(), name
    assert re.search(r"`test_|mutation `|faults? \"|No test", held_by)


def test_every_mutation_is_named_by_its_own_name() -> None:
    listed = re.findall(r"mutations? ((?:`\w+`(?:, )?)+)", PAGE)
    named = {name for names in listed for name in re.findall(r"`(\w+)`", names)}
    assert named <= {mutation.__name__ for mutation in MUTATIONS}
    assert named >= {mutation.__name__ for mutation in FLEET_MUTATIONS}
