"""Writes what applications noticed of live moves into docs/evidence/in-place.md: ``python -m tools.recorded_tables``.

The runs are in docs/evidence/live-move.json, where ``python -m benchmarks.live_move --record`` puts them.
"""

from tools.recorded import EVIDENCE, Entry, Recorded, markdown, newest_first, one_by_one

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


def title(run: Entry) -> str:
    """Say what was run."""
    replicas = "one replica" if run["replicas"] == 1 else f"{run['replicas']} replicas with the member log"
    code = "The code before the in-place move" if run["before"] else "This code"
    members = "" if _members(run) == USUAL_MEMBERS else f", groups of {_members(run)}"
    members += ", proxies restarted before each move in" if _is_unknown(run) else ""
    rounds = "one round" if run["rounds"] == 1 else f"{run['rounds']} rounds"
    return (
        f"**{code}, Kafka {run['kafka']}, {replicas}{members}** ({rounds}, commit `{run['commit']}`, {run['date']}, "
        f"{run['seconds']} s for the run):"
    )


def table(run: Entry) -> str:
    """Return a row for each group, those that brokers convert with their members first."""
    return markdown(_HEAD, map(_row, sorted(run["groups"], key=lambda one: not one["in_place"])))


def _row(group: Entry) -> list[str]:
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


def _key(run: Entry) -> tuple[bool, bool, tuple[int, ...], int, int]:
    """By code, newest Kafka first."""
    kafka = newest_first(run["kafka"])
    return (run["before"], _is_unknown(run), kafka, run["replicas"], _members(run))


def _is_unknown(run: Entry) -> bool:
    unknown: bool = run.get("unknown", False)
    return unknown


def _members(run: Entry) -> int:
    members: int = run.get("members", USUAL_MEMBERS)
    return members


RUNS = Recorded(
    EVIDENCE / "live-move.json", EVIDENCE / "in-place.md", "live moves", _key, one_by_one(title, table)
)
