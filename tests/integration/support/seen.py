"""Writes down what was seen of each client, version and scenario, for docs/evidence/clients.md.

A test that is marked `scenario("...")` and parametrised by a `case`, or by a `client` and an `assignor` that go
through the proxy, makes a line; what it measured goes along with pytest's own `record_property`.
tools/scenario_table.py writes its tables.
"""

import fcntl
import json
from collections.abc import Generator

import pytest

from support import ROOT
from support.story import Case

PATH = ROOT / "build" / "scenarios.json"
WORSE = ("passed", "skipped", "failed")
UNKNOWN = "unknown"
"""The version of Kafka as long as no test has used one."""


class Seen:
    """A pytest plugin."""

    def __init__(self) -> None:
        self.kafka_version = UNKNOWN
        self._lines: dict[tuple[str, ...], dict[str, object]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the outcome of the test itself, and of a set-up that did not come so far."""
        report = yield
        marker = item.get_closest_marker("scenario")
        case = _case(item)
        if marker is not None and case is not None and (report.when == "call" or not report.passed):
            self._note(case, marker.args[0], report.outcome, dict(report.user_properties))
        return report

    def pytest_sessionfinish(self) -> None:
        """Lines of scenarios that did not run this time are kept."""
        if not self._lines:
            return
        PATH.parent.mkdir(parents=True, exist_ok=True)
        with PATH.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # the tests may run in several processes
            file.seek(0)
            lines = {_key(line): line for line in json.loads(file.read() or "[]")} | self._lines
            file.truncate(0)
            file.write(json.dumps(sorted(lines.values(), key=_key), indent=1) + "\n")

    def _note(self, case: Case, scenario: str, outcome: str, measured: dict[str, object]) -> None:
        line = {
            "kafka": self.kafka_version,
            "client": case.client.name,
            "version": case.client.version(),
            "assignor": case.assignor,
            "entry": case.entry,
            "scenario": scenario,
            "outcome": outcome,
            "measured": measured,
        }
        known = self._lines.setdefault(_key(line), line)
        known["outcome"] = max(known["outcome"], outcome, key=WORSE.index)
        known["measured"] = {**known["measured"], **measured}


def _case(item: pytest.Item) -> Case | None:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if {"client", "assignor"} <= params.keys():
        return Case("translate", params["client"], params["assignor"])
    return params.get("case")


def _key(line: dict[str, object]) -> tuple[str, ...]:
    names = ("kafka", "client", "version", "assignor", "entry", "scenario")
    return tuple(str(line[name]) for name in names)
