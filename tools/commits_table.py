"""Writes what became of one consumer's many commits into docs/evidence/performance.md.

The runs are in docs/evidence/commits.json, where ``python -m benchmarks.commits --record`` puts them;
``python -m tools.recorded_tables`` writes the page.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import recorded
from tools.markers import replaced

_ROOT = Path(__file__).resolve().parents[1]
RUNS = _ROOT / "docs" / "evidence" / "commits.json"
PAGE = _ROOT / "docs" / "evidence" / "performance.md"
MARKER = "commits"
HEAD = (
    "| entry | accepted | refused | lost | until the last answer | a second | longest wait | proxy's CPU a commit |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
)

Run = Mapping[str, Any]


def keep(run: Run) -> None:
    """Put a run in the place of that of the same Kafka."""
    recorded.keep(RUNS, run, lambda one: recorded.newest_first(one["kafka"]))


def read() -> list[Run]:
    """Return the runs, in the order of the page."""
    return recorded.read(RUNS)


def page(before: str, runs: Sequence[Run]) -> str:
    """Return the page with the tables of these runs."""
    return replaced(before, MARKER, "\n".join(f"{recorded.title(run)}\n\n{table(run)}" for run in runs))


def table(run: Run) -> str:
    """Return a row for each consumer."""
    return HEAD + "".join(map(row, run["rows"]))


def row(consumer: Mapping[str, Any]) -> str:
    """Return what became of one consumer's commits."""
    errors = ", ".join(f"**{count:,} {name}**" for name, count in consumer["errors"].items()) or "0"
    answers = consumer["accepted"] + sum(consumer["errors"].values())
    cpu_us = consumer["cpu_s"] * 1e6 / consumer["commits"]
    lost = f"**{consumer['lost']}**" if consumer["lost"] else "0"
    return (
        f"| {consumer['entry']} | {consumer['accepted']:,} of {consumer['commits']:,} | {errors} | {lost} "
        f"| {consumer['seconds']:.1f} s | {answers / consumer['seconds']:,.0f} | {consumer['longest_s']:.1f} s "
        f"| {f'{cpu_us:.0f} µs' if cpu_us else ''} |\n"
    )
