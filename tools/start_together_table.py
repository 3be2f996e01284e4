"""Writes what members that start together cost into docs/evidence/rebalance-cost.md.

The runs are in docs/evidence/start-together.json, where ``python -m benchmarks.start_together --record`` puts them;
``python -m tools.recorded_tables`` writes the page.
"""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import recorded
from tools.markers import replaced

_ROOT = Path(__file__).resolve().parents[1]
RUNS = _ROOT / "docs" / "evidence" / "start-together.json"
PAGE = _ROOT / "docs" / "evidence" / "rebalance-cost.md"
MARKER = "start together"
HEAD = (
    "| members | way | starts | assign callbacks | revoke callbacks | first partition (s) | settled (s) |\n"
    "| --- | --- | --- | --- | --- | --- | --- |\n"
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
    """Return a row for each size and way: the median times of its starts, and the range of their callbacks."""
    ways = list(dict.fromkeys(one["mode"] for one in run["starts"]))
    starts = sorted(run["starts"], key=lambda one: (one["members"], ways.index(one["mode"])))
    groups = itertools.groupby(starts, key=lambda one: (one["members"], one["mode"]))
    return HEAD + "".join(_row(members, mode, list(found)) for (members, mode), found in groups)


def _row(members: int, mode: str, starts: Sequence[Mapping[str, Any]]) -> str:
    cells = [f"{members}", mode, f"{len(starts)}"]
    cells += [_range([one[field] for one in starts]) for field in ("assigned", "revoked")]
    cells += [f"{statistics.median(one[field] for one in starts):.2f}" for field in ("first_s", "settled_s")]
    return f"| {' | '.join(cells)} |\n"


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"
