"""Pages that follow from the code say what the code says, and the contracts name tests that there are."""

import re
from pathlib import Path

import pytest

from proxy.groups.group_metrics import GroupCollector, GroupLabels
from proxy.metrics.registry import Metrics
from proxy.metrics.wave_groups import WaveGroups
from tools.docs import DOCS, PAGES

ROOT = DOCS.parent


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name):
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_the_table_of_metrics_is_the_registry():
    metrics = Metrics()
    metrics.provide_groups(GroupCollector(GroupLabels(0), tuple))
    metrics.without_groups.register(WaveGroups(tuple))
    described = {one.name.removesuffix("_total") for one in metrics.table}
    registered = {
        family.name for family in metrics.registry.collect() if family.name.startswith("epochgate_")
    }
    assert described == registered


@pytest.mark.parametrize(
    "name", ["explanation/security.md", "evidence/security-matrix.md", "evidence/traps.md"]
)
def test_each_claim_names_tests_that_exist(name):
    names = set(re.findall(r"`(test_\w+)`", (DOCS / name).read_text(encoding="utf-8")))
    defined = {
        test
        for file in (ROOT / "tests").glob("**/test_*.py")
        for test in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))
    }
    assert names
    assert names <= defined, sorted(names - defined)


def test_each_contract_names_files_and_tests_that_exist():
    page = (DOCS / "reference" / "protocol-contracts.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(test_\w+)`", page))
    defined = {
        name
        for folder in ("proxy", "integration")
        for file in (ROOT / "tests" / folder).rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))
    }
    assert names
    assert names <= defined, sorted(names - defined)
    files = {Path(file) for file in re.findall(r"`((?:proxy|protocol_codecs|tests)/[\w/]+\.py)`", page)}
    assert files
    assert all((ROOT / file).exists() for file in files), files
