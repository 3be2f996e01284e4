"""Writes what applications noticed of live moves into docs/evidence/in-place.md: ``python -m tools.recorded_tables``.

The runs are in docs/evidence/live-move.json, where ``python -m benchmarks.live_move --record`` puts them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools import recorded
from tools.markers import replaced

_ROOT = Path(__file__).resolve().parents[1]
RUNS = _ROOT / "docs" / "evidence" / "live-move.json"
PAGE = _ROOT / "docs" / "evidence" / "in-place.md"
MARKER = "live moves"
USUAL_MEMBERS = 3
"""Of each group; older runs do not record it."""
_HEAD = [
    "applications",
    "moves in, back",
    "ended",
    "callbacks in",
    "lost in, back",
    "callbacks back",
    "longest without an owner, in and back (s)",
    "read twice in, back (a restart)",
    "unread, two owners, of records",
]

Run = Mapping[str, Any]


def keep(run: Run) -> None:
    """Put a run in the place of that of the same Kafka, replicas, members and code."""
    recorded.keep(RUNS, run, _key)


def read() -> list[Run]:
    """Return the runs, in the order of the page."""
    return recorded.read(RUNS)


def page(before: str, runs: Sequence[Run]) -> str:
    """Return the page with the tables of these runs."""
    return replaced(before, MARKER, "\n".join(f"{title(run)}\n\n{table(run)}" for run in runs))


def title(run: Run) -> str:
    """Say what was run."""
    replicas = "one replica" if run["replicas"] == 1 else f"{run['replicas']} replicas with the member log"
    code = "The code before the in-place move" if run["before"] else "This code"
    members = "" if _members(run) == USUAL_MEMBERS else f", groups of {_members(run)}"
    rounds = "one round" if run["rounds"] == 1 else f"{run['rounds']} rounds"
    return (
        f"**{code}, Kafka {run['kafka']}, {replicas}{members}** ({rounds}, commit `{run['commit']}`, {run['date']}, "
        f"{run['seconds']} s for the run):"
    )


def table(run: Run) -> str:
    """Return a row for each group, those that brokers convert with their members first."""
    rows = [_HEAD, ["---"] * len(_HEAD)]
    rows += [_row(one) for one in sorted(run["groups"], key=lambda one: not one["in_place"])]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(group: Mapping[str, Any]) -> list[str]:
    way_in, back, restart = group["in"], group["back"], group["restart"]
    name = group["applications"] + ("" if group["in_place"] else " (all at once)")
    name += f" (stopped: {group['failed']})" if group["failed"] else ""
    restarted = f"failed: {restart['failed']}" if restart["failed"] else f"{restart['read_twice']:,}"
    return [
        name,
        f"{way_in['moves']}, {back['moves']}",
        _bold(group["ended"]),
        f"{way_in['callbacks']}",
        f"{_bold(way_in['lost'])}, {_bold(back['lost'])}",
        f"{back['callbacks']}",
        f"{way_in['longest_gap_s']:.2f}, {back['longest_gap_s']:.2f}",
        f"{_bold(way_in['read_twice'])}, {_bold(back['read_twice'])} ({restarted})",
        f"{_bold(group['unread'])}, {_bold(group['two_owners'])}, {group['records']:,}",
    ]


def _bold(count: int) -> str:
    return f"**{count:,}**" if count else "0"


def _key(run: Run) -> tuple[bool, bool, tuple[int, ...], int, int]:
    """By code, newest Kafka first."""
    kafka = recorded.newest_first(run["kafka"])
    return (run["before"], _is_unknown(run), kafka, run["replicas"], _members(run))


def _is_unknown(run: Run) -> bool:
    unknown: bool = run.get("unknown", False)
    return unknown


def _members(run: Run) -> int:
    members: int = run.get("members", USUAL_MEMBERS)
    return members
