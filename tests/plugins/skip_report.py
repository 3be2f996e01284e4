"""Says last of all how many tests were skipped, and why: a skipped test is easily taken for a passed one."""

from collections import Counter
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Print after pytest's own closing line, which the terminal reporter prints inside this wrapper."""
    result = yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not session.config.option.collectonly:
        reporter.write_line(_line(reporter.stats.get("skipped", [])))
    return result


def _line(skipped: list[pytest.TestReport]) -> str:
    reasons = Counter(_reason(report) for report in skipped)
    if not reasons:
        return "skipped tests: 0"
    return f"skipped tests: {len(skipped)} ({'; '.join(f'{count}: {why}' for why, count in reasons.items())})"


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # file, line, reason
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr)
