"""Writes how long each file's tests took, the slowest file first: what `tests/tiers.txt` is decided by.

`--durations-file build/durations-test.json` has for each file its tests, the seconds of all their phases (a shared
fixture's count for the test that was first), and the slowest test with its seconds.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

_OPTION = "durations_file"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Make the option known."""
    parser.addoption("--durations-file", type=Path, help="write seconds by test file there, as JSON")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With pytest-xdist the controller writes; its workers have no terminal reporter."""
    file = session.config.getoption(_OPTION)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if file is None or reporter is None or hasattr(session.config, "workerinput"):
        return
    reports = [one for kept in reporter.stats.values() for one in kept if isinstance(one, pytest.TestReport)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(by_file(reports), indent=1) + "\n", encoding="utf-8")


def by_file(reports: Iterable[pytest.TestReport]) -> dict[str, dict[str, object]]:
    """Sum the phases of each test, and of each file's tests."""
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for report in reports:
        file, _, test = report.nodeid.partition("::")
        seconds[file][test] += report.duration
    files = sorted(seconds, key=lambda file: -sum(seconds[file].values()))
    return {
        file: {
            "seconds": round(sum(tests.values()), 1),
            "tests": len(tests),
            "slowest": max(tests, key=tests.__getitem__),
            "slowest_seconds": round(max(tests.values()), 1),
        }
        for file in files
        for tests in [seconds[file]]
    }
