"""Counts the client kinds, quirks, faults and changes that a number of runs met, and checks each minimum."""

from collections.abc import Mapping, Sequence

from tests.simulation.authorizer import PRINCIPALS
from tests.simulation.broker import LEFT_OUT
from tests.simulation.clients.habits import ALL_KINDS
from tests.simulation.plan import CHANGES, FAULTS, PRODUCER_COMMITS, SHOWS_OLD_STATE
from tests.simulation.standing import LEFT_BEHIND
from tests.simulation.watch_answers import CROSSED, DEAD_BEFORE_JOINED
from tests.simulation.watch_commits import LATE_COMMIT
from tests.simulation.watch_producers import ACCEPTED, OLD, REFUSED

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
    "members converted in place",
    "clients asked to rejoin because the policy moves them",
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

NOT_JUDGED = (LATE_COMMIT, DEAD_BEFORE_JOINED, CROSSED, LEFT_BEHIND)
"""What only a fleet has, and no invariant forbids: who counts it says why."""

OLD_STATE = (
    PRODUCER_COMMITS,
    ACCEPTED,
    REFUSED,
    OLD,
    SHOWS_OLD_STATE,
    "CONSUMER_GROUP_HEARTBEAT answered from old state",
    "CONSUMER_GROUP_DESCRIBE answered from old state",
    "HEARTBEAT answered from old state",
    LEFT_OUT,
)
"""What only ``--old-state`` has."""

MUST_OCCUR = (*CLIENTS, *VICES, *FAULTS, *CHANGES, *EVENTS, *OTHERS)

AT_LEAST = 20
"""How often each of them occurs in the 2,000 seeds of the tests, at the very least."""

RARE = {
    "vice: claims what it does not hold": 2,
    "vice: keeps its partitions when JoinGroup fails": 0,  # in a fleet hundreds of times, which its seeds check
    "clients moved between the protocols": 5,  # by UNKNOWN_MEMBER_ID: cooperative ones of groups that have to be empty
}
"""Those that live moves caused before members were converted in place, and how often they have to occur now."""


def table(counts: Mapping[str, int]) -> str:
    """Format the counts as lines, each part under its heading."""
    width = max(map(len, (*MUST_OCCUR, *OLD_STATE, *NOT_JUDGED)))
    parts = (
        ("clients", CLIENTS),
        ("their vices", VICES),
        ("faults", tuple(FAULTS)),
        ("changes", tuple(CHANGES)),
        ("what happened", EVENTS),
        ("those who are to make no difference", OTHERS),
        ("out of date, with --old-state", OLD_STATE),
        ("not judged", NOT_JUDGED),
    )
    lines = []
    for heading, names in parts:
        lines.append(f"{heading}:")
        lines += [f"  {name.removeprefix('vice: '):<{width}} {counts.get(name, 0):>9,}" for name in names]
    return "\n".join(lines)


def missing(
    counts: Mapping[str, int], names: Sequence[str] = MUST_OCCUR, at_least: int = AT_LEAST
) -> list[str]:
    """Return which of these occurred too seldom."""
    return [name for name in names if counts.get(name, 0) < RARE.get(name, at_least)]
