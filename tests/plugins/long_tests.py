"""Leaves out the tests that are marked `long`, unless the run has `--long`, and says at its end how many they were.

Tests whose ids match a line of ``tests/long_tests.txt`` are marked here.
"""

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

WITH_THEM = "make test-long"
LISTED = Path(__file__).parents[1] / "long_tests.txt"
_COUNT = "long_tests_left_out"
_LEFT_OUT = pytest.StashKey[int]()


def listed(text: str) -> list[str]:
    """Return the patterns of such a file."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Make `--long` known."""
    parser.addoption(
        "--long", action="store_true", help=f"run the tests too that are marked long ({WITH_THEM})"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Last of all, so that only tests count that `-k` and `-m` have left."""
    patterns = listed(LISTED.read_text(encoding="utf-8"))
    is_listed = re.compile("|".join(re.escape(one).replace(r"\*", ".*") for one in patterns)).fullmatch
    for item in items:
        if is_listed(item.nodeid):
            item.add_marker("long")
    long = [item for item in items if item.get_closest_marker("long")]
    if config.option.long or not long:
        return
    items[:] = [item for item in items if not item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    config.stash[_LEFT_OUT] = len(long)
    if hasattr(config, "workeroutput"):
        config.workeroutput[_COUNT] = len(long)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """With pytest-xdist the workers collect, each of them everything, and their controller writes the last line."""
    if _COUNT in getattr(node, "workeroutput", {}):  # a worker that crashed has none
        node.config.stash[_LEFT_OUT] = node.workeroutput[_COUNT]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Print after pytest's own closing line, as skip_report does."""
    result = yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    left_out = session.config.stash.get(_LEFT_OUT, 0)
    if reporter is not None and left_out:
        reporter.write_line(f"long tests left out: {left_out} ({WITH_THEM} runs them too)")
    return result
