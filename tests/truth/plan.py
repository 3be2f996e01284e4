"""What happens to the cluster, drawn by seed: the changes that lead from each state to the next."""

import random
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What the members of a group are."""

    CLASSIC = "classic"
    """Of a group that the policy observes, or translates."""
    NATIVE = "native"
    """Clients that use the new protocol themselves."""
    MIXED = "mixed"
    """Classic clients and native ones."""
    SHARE = "share"
    STREAMS = "streams"
    CONNECT = "connect"
    COMMITS = "commits"
    """No members, only committed offsets."""


class Change(StrEnum):
    """A change of one state to the next."""

    NEW_GROUP = "a new group"
    ADD = "a member joins"
    CLOSE = "a member leaves"
    MOVE = "a member moves to another entry"
    SWITCH = "the policy of a group changes"
    EMPTY = "all members of a group leave"
    DELETE = "a group is deleted"
    KILL = "a replica is killed"


class Step(NamedTuple):
    """A change; the picks are drawn from 0 to 1, and choose among what there is."""

    change: Change
    picks: tuple[float, ...]


_WEIGHTS = {
    Change.NEW_GROUP: 3,
    Change.ADD: 3,
    Change.CLOSE: 2,
    Change.MOVE: 3,
    Change.SWITCH: 3,
    Change.EMPTY: 1,
    Change.DELETE: 2,
}
STATES_OF_A_KILL = 5
"""A replica is killed in one of so many states, and in one at least."""
PICKS = 8
MOST_CHANGES = 4


def plan(seed: int, states: int) -> list[list[Step]]:
    """Draw the changes before each state. Before the first there is a new group of each kind."""
    draw = random.Random(seed)  # noqa: S311

    def step(change: Change) -> Step:
        return Step(change, tuple(draw.random() for _ in range(PICKS)))

    kills = draw.sample(range(1, states), min(states - 1, max(1, states // STATES_OF_A_KILL)))
    changes = list[list[Step]]()
    for number in range(states):
        if number:
            drawn = draw.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=draw.randint(2, MOST_CHANGES))
        else:
            drawn = [Change.NEW_GROUP] * len(Kind)
        changes.append([step(change) for change in (*drawn, *[Change.KILL] * (number in kills))])
    return changes
