"""Counts the client kinds, quirks, faults and changes that a number of runs met, and checks each minimum."""

from collections.abc import Mapping

from tests.simulation.authorizer import PRINCIPALS
from tests.simulation.clients.habits import ALL_KINDS
from tests.simulation.plan import CHANGES, FAULTS
from tests.simulation.watch_answers import DEAD_BEFORE_JOINED
from tests.simulation.watch_commits import LATE_COMMIT

CLIENTS = (*(f"client {habits.kind}" for habits in ALL_KINDS), "client native", "client with an instance id")

VICES = (
    "vice: claims what it does not hold",
    "vice: claims less than it holds",
    "vice: JoinGroup on another connection than Heartbeat",
    "vice: two JoinGroups race",
    "vice: ignores REBALANCE_IN_PROGRESS for a while",
    "vice: heartbeats between polls only",
    "vice: keeps its partitions when JoinGroup fails",
)

EVENTS = (
    "answers lost",
    "policy changes to observe",
    "policy changes to translate",
    "clients moved between the protocols",
    "commits",
    "commits refused",
    "rejoins",
)

OTHERS = (
    *(f"hostile calls of {name}" for name in PRINCIPALS),
    "hostile connections that read nothing",
    "members of the new protocol through the proxy",
    "commits of members of the new protocol, through the proxy",
)

NOT_JUDGED = (LATE_COMMIT, DEAD_BEFORE_JOINED)
"""What only a fleet has, and no invariant forbids: who counts it says why."""

MUST_OCCUR = (*CLIENTS, *VICES, *FAULTS, *CHANGES, *EVENTS, *OTHERS)

AT_LEAST = 20
"""How often each of them occurs in the 2,000 seeds of the tests, at the very least."""


def table(counts: Mapping[str, int]) -> str:
    """Format the counts as lines, each part under its heading."""
    width = max(map(len, (*MUST_OCCUR, *NOT_JUDGED)))
    parts = (
        ("clients", CLIENTS),
        ("their vices", VICES),
        ("faults", tuple(FAULTS)),
        ("changes", tuple(CHANGES)),
        ("what happened", EVENTS),
        ("those who are to make no difference", OTHERS),
        ("not judged", NOT_JUDGED),
    )
    lines = []
    for heading, names in parts:
        lines.append(f"{heading}:")
        lines += [f"  {name.removeprefix('vice: '):<{width}} {counts.get(name, 0):>9,}" for name in names]
    return "\n".join(lines)


def missing(counts: Mapping[str, int], at_least: int = AT_LEAST) -> list[str]:
    """Return what occurred too seldom."""
    return [name for name in MUST_OCCUR if counts.get(name, 0) < at_least]
