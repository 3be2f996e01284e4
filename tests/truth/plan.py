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
    Change.KILL: 2,
}
PICKS = 8
MOST_CHANGES = 4


def plan(seed: int, states: int) -> list[list[Step]]:
    """Draw the changes before each state. Before the first there is a new group of each kind."""
    draw = random.Random(seed)  # noqa: S311

    def step(change: Change) -> Step:
        return Step(change, tuple(draw.random() for _ in range(PICKS)))

    changes = list[list[Step]]()
    for number in range(states):
        if not number:
            drawn = [Change.NEW_GROUP] * len(Kind)
        else:
            drawn = draw.choices(list(_WEIGHTS), list(_WEIGHTS.values()), k=draw.randint(2, MOST_CHANGES))
        kills = [change for change in drawn if change is Change.KILL]
        others = [change for change in drawn if change is not Change.KILL]
        changes.append([step(change) for change in (*others, *kills[:1])])  # the kill is the last, one a state
    return changes
