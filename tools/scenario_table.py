"""Writes the integration tests' results for each client, version and scenario into docs/evidence/clients.md.

`python3 -m tools.scenario_table [build/scenarios.json]`; the integration tests write the file. A table for which it has
no rows stays as it is: a run against the proxy only measures no difference.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.markers import replaced

_ROOT = Path(__file__).resolve().parents[1]
SEEN = _ROOT / "build" / "scenarios.json"
PAGE = _ROOT / "docs" / "evidence" / "clients.md"

# What the tests call a scenario: what the head of its column says.
COLUMNS = {
    "every record is read once": "two read every record once",
    "the broker shows members of the new protocol": "new-protocol members on the broker",
    "a third joins, one is killed, one leaves: partitions complete, one owner each": (
        "join, kill -9, leave: complete, never two owners"
    ),
    "members whose partitions stay see no callback": "others see no callback",
    "the last commits are at the end of every partition": "commits are complete",
    "commits through the entry are read back directly, and the reverse": "commits read back on the other side",
    "shares a group with a new-protocol consumer straight at the broker": "mixed group",
    "reads on when the broker was stopped and started again": "broker restart",
    "moved to the new protocol and back while it works": "live switch and back",
}
LIFE = "a third joins, one is killed, one leaves: partitions complete, one owner each"
UNTOUCHED = "members whose partitions stay see no callback"
MARKS = {"passed": "yes", "failed": "**no**", "skipped": "skipped"}

Line = dict[str, object]
Row = tuple[str, str, str]


def main(arguments: Sequence[str]) -> int:
    """Write the tables of each Kafka version in the file, newest first."""
    path = Path(arguments[0]) if arguments else SEEN
    if not path.exists():
        print(f"{path} does not exist: run the integration tests first", file=sys.stderr)
        return 1
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), json.loads(path.read_text())), encoding="utf-8")
    print(PAGE.relative_to(_ROOT))
    return 0


def page(before: str, lines: Sequence[Line]) -> str:
    """Return the page with the tables for which these results have rows."""
    written = {"outcomes": "", "changes": ""}
    for version in sorted({str(line["kafka"]) for line in lines}, reverse=True):
        of_version = [line for line in lines if line["kafka"] == version]
        for name, title, (head, rows) in (
            ("outcomes", f"Through Epochgate, Kafka {version}:", outcomes(of_version)),
            (
                "changes",
                f"What it changes for a group (straight at Kafka {version} → through Epochgate):",
                changes(of_version),
            ),
        ):
            if rows:
                gap = "\n" if written[name] else ""
                written[name] += f"{gap}{title}\n\n{table(head, rows)}"
    for name, body in written.items():
        before = replaced(before, name, body) if body else before
    return before


def outcomes(lines: Iterable[Line]) -> tuple[list[str], list[list[str]]]:
    """Return head and rows: yes or no for each scenario; empty where a scenario runs with another assignor only."""
    seen: dict[Row, dict[str, str]] = defaultdict(dict)
    for line in lines:
        if line["entry"] == "translate":
            seen[_row(line)][str(line["scenario"])] = MARKS[str(line["outcome"])]
    columns = [scenario for scenario in COLUMNS if any(scenario in cells for cells in seen.values())]
    head = ["client", "version", "assignor", *(COLUMNS[scenario] for scenario in columns)]
    return head, [
        [*row, *(cells.get(scenario, "") for scenario in columns)] for row, cells in sorted(seen.items())
    ]


def changes(lines: Iterable[Line]) -> tuple[list[str], list[list[str]]]:
    """Return head and rows: how long each change took to settle, and which members it disturbed."""
    measured: dict[Row, dict[str, dict[str, object]]] = defaultdict(lambda: defaultdict(dict))
    for line in lines:
        if line["scenario"] in {LIFE, UNTOUCHED}:
            measured[_row(line)][str(line["entry"])].update(line["measured"])  # type: ignore[call-overload]
    head = [
        "client", "version", "assignor", "settled after a join (s)", "after kill -9 (s)", "after a leave (s)",
        "callbacks in members whose partitions stay",
    ]  # fmt: skip
    numbers = ("join_s", "kill_s", "leave_s", "callbacks_of_untouched")
    rows = [
        [
            *row,
            *(f"{by['direct'].get(number, '?')} → {by['translate'].get(number, '?')}" for number in numbers),
        ]
        for row, by in sorted(measured.items())
        if {"direct", "translate"} <= by.keys()
    ]
    return head, rows


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format as Markdown."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *rows))


def _row(line: Line) -> Row:
    return str(line["client"]), str(line["version"]), str(line["assignor"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
