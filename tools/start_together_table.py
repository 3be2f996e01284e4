"""Writes what members that start together cost into docs/evidence/rebalance-cost.md.

The runs are in docs/evidence/start-together.json, where ``python -m benchmarks.start_together --record`` puts them;
``python -m tools.recorded_tables`` writes the page.
"""

import itertools
import statistics
from collections.abc import Sequence

from tools.recorded import EVIDENCE, Entry, Recorded, by_kafka, markdown, one_by_one, title

_HEAD = (
    "members",
    "way",
    "starts",
    "assign callbacks",
    "revoke callbacks",
    "first partition (s)",
    "settled (s)",
)


def table(run: Entry) -> str:
    """Return a row for each size and way: the median times of its starts, and the range of their callbacks."""
    ways = list(dict.fromkeys(one["mode"] for one in run["starts"]))
    starts = sorted(run["starts"], key=lambda one: (one["members"], ways.index(one["mode"])))
    groups = itertools.groupby(starts, key=lambda one: (one["members"], one["mode"]))
    return markdown(_HEAD, (_row(members, mode, list(found)) for (members, mode), found in groups))


def _row(members: int, mode: str, starts: Sequence[Entry]) -> list[str]:
    cells = [f"{members}", mode, f"{len(starts)}"]
    cells += [_range([one[field] for one in starts]) for field in ("assigned", "revoked")]
    cells += [f"{statistics.median(one[field] for one in starts):.2f}" for field in ("first_s", "settled_s")]
    return cells


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


RUNS = Recorded(
    EVIDENCE / "start-together.json",
    EVIDENCE / "rebalance-cost.md",
    "start together",
    by_kafka,
    one_by_one(title, table),
)
