"""Chooses tests by their tier, which `tests/tiers.txt` decides, and says at the end of a run how many it left out.

`--tier fast` runs the fast ones, `--tier test` these and those of `make test`, `--tier slow` the slow ones alone: `make
test` and `make test-slow` together run each test once. Without `--tier`, or if a path, `-k` or `-m` chooses tests, all
of them run. Long ones need `--long`.
"""

import re
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

LISTED = Path(__file__).parents[1] / "tiers.txt"
COMMANDS = {"test": "make test", "slow": "make test-slow", "long": "make test-long"}
"""What runs the tests of a tier; what is in none of these is fast."""
RUN = {
    "fast": {"fast"},
    "test": {"fast", "test"},
    "slow": {"slow"},
    "long": {"long"},
    None: {"fast", "test", "slow"},
}
_COUNT = "left_out_by_tier"
_LEFT_OUT = pytest.StashKey[dict[str, int]]()


def listed(text: str) -> dict[str, list[str]]:
    """Return the patterns of each section of such a file."""
    sections: dict[str, list[str]] = {}
    for line in map(str.strip, text.splitlines()):
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            patterns = sections.setdefault(heading[1], [])
        elif line and not line.startswith("#"):
            patterns.append(line)
    return sections


def tier_of(item: pytest.Item, sections: dict[str, re.Pattern[str]]) -> str:
    """Return the first section that has the test; what needs a broker is slow unless a section has it."""
    if item.get_closest_marker("long"):
        return "long"
    for tier, pattern in sections.items():
        if pattern.fullmatch(item.nodeid):
            return tier
    return "slow" if item.get_closest_marker("kafka") else "fast"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Make the options known."""
    parser.addoption("--tier", choices=[tier for tier in RUN if tier], help="run the tests of this tier only")
    parser.addoption("--long", action="store_true", help=f"run the long tests too ({COMMANDS['long']})")


def pytest_configure(config: pytest.Config) -> None:
    """Forget the tier if tests are chosen otherwise. Workers of pytest-xdist are called with the same arguments."""
    option = config.option
    is_chosen = option.keyword or option.markexpr or config.args_source is pytest.Config.ArgsSource.ARGS
    if is_chosen:
        option.tier = None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Last of all, so that only tests count that `-k` and `-m` have left."""
    sections = {
        tier: re.compile("|".join(re.escape(one).replace(r"\*", ".*") for one in patterns))
        for tier, patterns in listed(LISTED.read_text(encoding="utf-8")).items()
    }
    wanted = RUN[config.option.tier] | ({"long"} if config.option.long else set())
    tiers = {item: tier_of(item, sections) for item in items}
    for item, tier in tiers.items():
        if tier == "long":
            item.add_marker("long")
    left_out = [item for item in items if tiers[item] not in wanted]
    if not left_out:
        return
    items[:] = [item for item in items if tiers[item] in wanted]
    config.hook.pytest_deselected(items=left_out)
    counts = dict(Counter(tiers[item] for item in left_out))
    config.stash[_LEFT_OUT] = counts
    if hasattr(config, "workeroutput"):
        config.workeroutput[_COUNT] = counts


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """With pytest-xdist the workers collect, each of them everything, and their controller writes the last lines."""
    if _COUNT in getattr(node, "workeroutput", {}):  # a worker that crashed has none
        node.config.stash[_LEFT_OUT] = node.workeroutput[_COUNT]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Print after pytest's own closing line, as skip_report does."""
    result = yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    left_out = session.config.stash.get(_LEFT_OUT, {})
    if reporter is not None:
        for tier, command in COMMANDS.items():
            if tier in left_out:
                reporter.write_line(f"{tier} tests left out: {left_out[tier]} ({command} runs them too)")
    return result
