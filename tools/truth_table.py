"""Writes the runs of tests/truth into docs/evidence/metrics-truth.md: ``python -m tools.recorded_tables``.

The runs are in docs/evidence/truth.json, where ``python -m tests.truth --record`` puts them, one for each seed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import recorded
from tools.markers import replaced

_ROOT = Path(__file__).resolve().parents[1]
RUNS = _ROOT / "docs" / "evidence" / "truth.json"
PAGE = _ROOT / "docs" / "evidence" / "metrics-truth.md"
MARKER = "truth"

Run = Mapping[str, Any]


def keep(run: Run) -> None:
    """Put a run in the place of that of the same seed."""
    recorded.keep(RUNS, run, _seed)


def read() -> list[Run]:
    """Return the runs by seed."""
    return recorded.read(RUNS)


def page(before: str, runs: Sequence[Run]) -> str:
    """Return the page with the tables of these runs."""
    return replaced(before, MARKER, "\n".join(map(_run, runs)))


def _run(run: Run) -> str:
    drawn = ", a seed that the run drew" if run["drawn"] else ""
    return f"**Seed {run['seed']}**{drawn}. {recorded.title(run)}\n\n{_states(run)}\n{_planted(run)}"


def _states(run: Run) -> str:
    """A row for each number of replicas, and what was wrong."""
    lines = [
        "| replicas | states | after a kill | groups | members | translated | past the proxies | facts | wrong |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for replicas in sorted({one["replicas"] for one in run["states"]}):
        states = [one for one in run["states"] if one["replicas"] == replicas]
        ranges = [_range(states, name) for name in ("groups", "members", "translated", "past")]
        wrong = sum(len(one["wrong"]) for one in states)
        cells = [
            replicas,
            len(states),
            sum(one["killed"] for one in states),
            *ranges,
            f"{sum(one['facts'] for one in states):,}",
            f"**{wrong}**" if wrong else wrong,
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    found = [
        f"- {one['replicas']} replicas, state {one['state']} ({'; '.join(one['changes'])}): {text}"
        for one in run["states"]
        for text in one["wrong"]
    ]
    return "\n".join([*lines, *(["", *found] if found else []), ""])


def _planted(run: Run) -> str:
    lines = ["| planted | found in |", "| --- | --- |"]
    for what, where in run["planted"].items():
        found = "**nowhere**" if where is None else f"state {where['state']} of {where['replicas']} replicas"
        lines.append(f"| {what} | {found.replace('of 1 replicas', 'of 1 replica')} |")
    return "\n".join([*lines, ""])


def _range(states: Sequence[Mapping[str, Any]], name: str) -> str:
    values = [one[name] for one in states if name in one]
    return f"{min(values)} to {max(values)}" if values else ""


def _seed(run: Run) -> int:
    return int(run["seed"])
