"""What benchmarks share: it knows none of them, and prints no number for what nobody counted."""

import re

import pytest

from benchmarks.lib.rolling_restart_costs import Phase, costs, table
from tools.module_map import ROOT


def test_the_library_imports_nothing_of_a_benchmark():
    files = sorted((ROOT / "benchmarks" / "lib").glob("*.py"))
    imports = [
        found for file in files for found in re.findall(r"(?:from|import) (benchmarks\S*)", file.read_text())
    ]
    assert imports
    assert [one for one in imports if not one.startswith("benchmarks.lib")] == []


@pytest.mark.parametrize(("joined", "shown"), [({}, "0"), (None, "not counted")])
def test_join_groups_that_nobody_counted_have_no_number(joined: dict[str, int] | None, shown: str):
    phase = Phase("restart", 0, 1, joined)

    row = table(costs([phase], "eager", {"confluent-kafka": []})).splitlines()[-1]

    assert row == f"| restart | eager | confluent-kafka | 0 | 0 | 0 | {shown} | 0 |  |"
