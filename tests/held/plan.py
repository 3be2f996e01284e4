"""Plans what happens to the group: the same seed gives the same plan."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

FEWEST, MOST = 3, 9
"""Dynamic members at any moment, as the autoscaler of a Deployment has them."""

BETWEEN_FAILOVERS_S = 240.0
_SHORTEST_S, _LONGEST_S = 6.0, 20.0
_LONGEST_AWAY_S = 6.0
"""A static member is back within its session timeout, so that the broker keeps its place."""


class Change(StrEnum):
    """What happens to the group. The names of faults are those of tests/jepsen/schedule.py."""

    ADD = "add consumer"
    """A dynamic member more."""
    REMOVE = "close consumer"
    """A dynamic member leaves in an orderly way, for good."""
    LOSE = "kill consumer"
    """kill -9 of a dynamic member, whose place stays empty."""
    RESTART_STATIC = "restart static consumer"
    """A static member closes, which does not leave the group, and a new process with its instance id starts."""
    CRASH_STATIC = "kill static consumer"
    """The same after kill -9."""
    KILL_COORDINATOR = "kill broker"
    """kill -9 of the broker that coordinates the group; another one takes over, and it is started again later."""
    STOP_COORDINATOR = "stop broker"
    """The same with SIGTERM."""


WEIGHTS = {
    Change.ADD: 30,
    Change.REMOVE: 20,
    Change.LOSE: 8,
    Change.RESTART_STATIC: 20,
    Change.CRASH_STATIC: 10,
}

FAILOVERS = (Change.KILL_COORDINATOR, Change.STOP_COORDINATOR)


@dataclass(frozen=True)
class Step:
    """One change, `at_s` seconds after the start.

    `pick`, at least 0 and below 1, chooses among those whom it can hit; `away_s` is how long a process is gone that
    comes back.
    """

    at_s: float
    change: Change
    pick: float
    away_s: float


def plan(seed: int, seconds: float) -> Iterator[Step]:
    """Plan the changes of a duration. Each kind occurs soon; a short run has three failovers."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    between_failovers_s = min(BETWEEN_FAILOVERS_S, seconds / 3)
    failover_s = between_failovers_s / 2
    first = list(WEIGHTS)
    chance.shuffle(first)
    at_s = gap_s = min(_SHORTEST_S, seconds / 10)
    failovers = 0
    while at_s < seconds:
        away_s = chance.uniform(1.0, _LONGEST_AWAY_S)
        if at_s >= failover_s:
            yield Step(at_s, FAILOVERS[failovers % 2], chance.random(), away_s + _LONGEST_AWAY_S)
            failovers += 1
            failover_s += between_failovers_s
        else:
            change = first.pop() if first else chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            yield Step(at_s, change, chance.random(), away_s)
        at_s += gap_s if first else chance.uniform(gap_s, min(_LONGEST_S, seconds / 6))
