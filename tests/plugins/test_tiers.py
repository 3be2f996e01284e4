"""Runs of pytest inside pytest: which tests run, and what the last line says."""

from pathlib import Path

import pytest

from tests.plugins import tiers
from tests.plugins.tiers import LISTED, listed

TESTS = """
import pytest

@pytest.mark.parametrize("case", ["central", pytest.param("rare", marks=pytest.mark.long)])
def test_it(case):
    pass

@pytest.mark.long
def test_another():
    pass
"""


def last_lines(pytester: pytest.Pytester, *args: str) -> str:
    """Of a run of TESTS, from pytest's own closing line on."""
    pytester.makeini("[pytest]\nmarkers =\n    long: takes its time\n")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest("-p", "tests.plugins.tiers", "-p", "no:cacheprovider", *args)
    return "\n".join(result.outlines[-2:])


@pytest.mark.parametrize("processes", ["0", "2"])
def test_long_tests_are_left_out_and_counted(pytester, processes):
    said = last_lines(pytester, "-n", processes)
    assert "1 passed" in said
    assert "long tests left out: 2 (make test-long runs them too)" in said


@pytest.mark.parametrize("processes", ["0", "2"])
def test_all_run_when_it_is_asked_for(pytester, processes):
    said = last_lines(pytester, "-n", processes, "--long")
    assert "3 passed" in said
    assert "left out" not in said


def test_without_xdist_pytest_itself_counts_them_too(pytester):
    assert "1 passed, 2 deselected" in last_lines(pytester)


def test_what_was_not_asked_for_is_not_counted(pytester):
    said = last_lines(pytester, "-k", "rare")
    assert "long tests left out: 1 " in said


def test_tiers_together_run_each_test_once(pytester, monkeypatch):
    """Those of `make test` and of `make test-slow` are all that a run without `--tier` has."""
    file = pytester.path / "tiers.txt"
    file.write_text(
        "[long]\n*::test_listed_as_long\n[test]\n*::test_it*\n[slow]\n*::test_slow\n*::test_it*\n"
    )
    monkeypatch.setattr(tiers, "LISTED", file)
    pytester.makeini("[pytest]\nmarkers =\n    long: takes its time\n    kafka: needs one\n")
    pytester.makepyfile(
        TESTS
        + """
def test_slow(): pass
def test_fast(): pass
def test_listed_as_long(): pass
@pytest.mark.kafka
def test_on_kafka(): pass
"""
    )

    def names(*args: str) -> list[str]:
        ran = pytester.inline_run("-p", "tests.plugins.tiers", "-p", "no:cacheprovider", *args)
        return sorted(report.nodeid.partition("::")[2] for report in ran.listoutcomes()[0])

    assert names("--tier", "fast") == ["test_fast"]
    assert names("--tier", "test") == ["test_fast", "test_it[central]"]
    assert names("--tier", "slow") == ["test_on_kafka", "test_slow"]
    assert names() == ["test_fast", "test_it[central]", "test_on_kafka", "test_slow"]
    assert names("--tier", "fast", "-k", "slow or central") == ["test_it[central]", "test_slow"]
    assert len(names("--tier", "long")) == 3
    assert len(names("--long")) == 7


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_tier_counts_if_nothing_else_chooses_tests(pytester, processes):
    assert "passed" not in last_lines(pytester, "-n", processes, "--tier", "slow")
    assert "1 passed" in last_lines(pytester, "-n", processes, "--tier", "slow", "-k", "central")


def test_every_listed_test_exists():
    root = Path(__file__).parents[2]
    sections = listed(LISTED.read_text(encoding="utf-8"))
    assert list(sections) == ["long", "test", "slow"]
    for pattern in (one for patterns in sections.values() for one in patterns):
        file, _, test = pattern.partition("::")
        name = test.partition("[")[0]
        assert list(root.glob(file)), pattern
        assert "*" in name or not name or f"def {name}(" in (root / file).read_text(encoding="utf-8"), pattern
