"""Plans the order in which groups move: small and idle ones first, and each wave a multiple of the one before it.

A wave that fails then affects few, and the number of waves grows with the logarithm of the fleet.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipeline.readiness.output import READY


class Candidate(NamedTuple):
    """A group that can move."""

    group_id: str
    members: int
    last_commit_ms: int | None
    verdict: str


class Limits(NamedTuple):
    """The most groups and members of the first wave, and the factor by which each next wave may be larger."""

    groups: int = 10
    members: int = 50
    growth: float = 2.0


class Place(NamedTuple):
    """A group's place in the order; ``wave`` and ``position`` start at 1."""

    candidate: Candidate
    wave: int
    position: int


def plan(candidates: Iterable[Candidate], limits: Limits) -> Iterator[Place]:
    """Return every candidate with its wave. A group larger than a whole wave gets a wave of its own."""
    wave = 1
    room_groups, room_members = float(limits.groups), float(limits.members)
    groups = members = 0
    for position, candidate in enumerate(sorted(candidates, key=_order), start=1):
        if groups and (groups + 1 > room_groups or members + candidate.members > room_members):
            wave += 1
            room_groups *= limits.growth
            room_members *= limits.growth
            groups = members = 0
        groups += 1
        members += candidate.members
        yield Place(candidate, wave, position)


def _order(candidate: Candidate) -> tuple[int, bool, int, str]:
    """Sort fewer members first, then groups without remarks, then those that have been idle for longest."""
    return (
        candidate.members,
        candidate.verdict != READY,
        candidate.last_commit_ms or 0,
        candidate.group_id,
    )
