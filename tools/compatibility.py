"""Writes the compatibility matrix: which client library worked through Epochgate with which Kafka, from test results.

``python -m tools.compatibility [build/scenarios.json]`` adds what the integration tests wrote to the stored results,
docs/evidence/scenarios.json. ``make docs`` writes the tables of docs/reference/compatibility.md from these, and a test
holds the page to them (tests/proxy/test_docs.py).
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tools.judges import page as judges
from tools.markers import replaced
from tools.scenario_table import COLUMNS, SEEN

_DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = _DOCS / "reference" / "compatibility.md"
STORED = _DOCS / "evidence" / "scenarios.json"
IDENTITY = ("kafka", "client", "version", "assignor", "scenario")
BROKERS_OWN = "as the broker"
"""Version of a client that comes from the Kafka release that it is tested with (the Java client)."""

Result = Mapping[str, str]
"""One scenario of one client with one assignor, through a proxy that translates: the keys of IDENTITY and `outcome`."""


def main(arguments: Sequence[str]) -> int:
    """Add the results of a run to the stored ones; a result of the same identity is replaced."""
    path = Path(arguments[0]) if arguments else SEEN
    if not path.exists():
        print(f"{path} does not exist: run the integration tests first", file=sys.stderr)
        return 1
    results = merged(stored(), from_tests(json.loads(path.read_text())))
    lines = ",\n".join(json.dumps(result) for result in results)
    STORED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{STORED.name}: {len(results)} results")
    return 0


def stored() -> list[Result]:
    """Read the results in the repository."""
    return json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else []


def from_tests(lines: Iterable[Mapping[str, object]]) -> list[Result]:
    """Select the test results that went through a translating proxy and were not skipped."""
    return [
        {key: str(line[key]) for key in (*IDENTITY, "outcome")}
        for line in lines
        if line["entry"] == "translate" and line["outcome"] != "skipped"
    ]


def merged(older: Iterable[Result], newer: Iterable[Result]) -> list[Result]:
    """Merge and sort both; of two with one identity the newer counts."""
    by_identity = {tuple(result[key] for key in IDENTITY): result for result in (*older, *newer)}
    return [by_identity[identity] for identity in sorted(by_identity)]


def page(results: Iterable[Result] | None = None) -> str:
    """Return the page with its tables written anew, from the stored results unless others are given."""
    results = list(stored() if results is None else results)
    text = PAGE.read_text(encoding="utf-8")
    text = replaced(text, "clients", _table(*_clients(results)))
    text = replaced(text, "scenarios", _table(*_scenarios(results)))
    return replaced(text, "judges", judges.summary())


def _clients(results: list[Result]) -> tuple[list[str], list[list[str]]]:
    versions = _kafka_versions(results)
    rows = []
    for client, version in sorted({_client(result) for result in results}):
        of_client = [result for result in results if _client(result) == (client, version)]
        assignors = ", ".join(sorted({result["assignor"] for result in of_client}))
        cells = [_cell([one for one in of_client if one["kafka"] == kafka]) for kafka in versions]
        rows.append([f"{client} {version}", assignors, *cells])
    return ["client", "assignors", *(f"Kafka {version}" for version in versions)], rows


def _cell(results: list[Result]) -> str:
    if not results:
        return ""
    failed = [
        f"{_short(one['scenario'])} ({one['assignor']})" for one in results if one["outcome"] != "passed"
    ]
    passed = f"{len(results) - len(failed)} of {len(results)}"
    return f"{passed}; **failed**: {', '.join(failed)}" if failed else passed


def _scenarios(results: list[Result]) -> tuple[list[str], list[list[str]]]:
    versions = _kafka_versions(results)
    ran = {(result["scenario"], result["kafka"]) for result in results}
    scenarios = {result["scenario"] for result in results}
    in_order = [*(one for one in COLUMNS if one in scenarios), *sorted(scenarios - COLUMNS.keys())]
    rows = [
        [_short(scenario), scenario, ", ".join(version for version in versions if (scenario, version) in ran)]
        for scenario in in_order
    ]
    return ["scenario", "as the tests name it", "ran with Kafka"], rows


def _short(scenario: str) -> str:
    """Return the tables' name of a scenario; a scenario without a column keeps its own."""
    return COLUMNS.get(scenario, scenario)


def _client(result: Result) -> tuple[str, str]:
    return result["client"], BROKERS_OWN if result["version"] == result["kafka"] else result["version"]


def _kafka_versions(results: Iterable[Result]) -> list[str]:
    """Return the versions, newest first."""
    return sorted(
        {result["kafka"] for result in results}, key=lambda one: [*map(int, one.split("."))], reverse=True
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
