"""What the applications of one group went through while the policy moved it, from what they themselves logged."""

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from support.consumers import REBALANCE
from support.ownership import Event, Partition, account, gaps, overlaps

Produced = Mapping[tuple[Partition, int], str]
Log = Sequence[Event]


@dataclass(frozen=True)
class Phase:
    """What happens from `began` (CLOCK_MONOTONIC, ns) until the next phase belongs to it."""

    name: str
    began: int


@dataclass
class Cost:
    """All phases of one name together."""

    callbacks: int = 0
    lost: int = 0
    """Callbacks that said that a membership was lost."""
    read_twice: int = 0
    """Records whose second reading was in it."""
    longest_gap_s: float = 0.0
    """For how long a partition had no owner."""


@dataclass(frozen=True)
class Reading:
    """What became of all records and partitions of a group."""

    costs: Mapping[str, Cost]
    records: int
    unread: int
    two_owners: int
    """Since the first phase ended: what happens while the group forms is its clients' and Kafka's own doing."""
    ended: int
    """Applications that ended by themselves."""


def reading(phases: Sequence[Phase], produced: Produced, logs: Sequence[Log], until: int) -> Reading:
    """Judge the logs; what has no owner at the end has none until then."""
    costs = {phase.name: Cost() for phase in phases}
    begins = [phase.began for phase in phases]

    def cost_at(mono: int) -> Cost:
        return costs[phases[max(0, bisect.bisect_right(begins, mono) - 1)].name]

    for event in _all(logs):
        if event.kind in REBALANCE:
            cost_at(event.mono).callbacks += 1
            cost_at(event.mono).lost += event.kind == "lost"
    for gap in gaps(logs, until=until):
        cost = cost_at(gap.begin)
        cost.longest_gap_s = max(cost.longest_gap_s, round(gap.seconds, 3))
    found = account(produced, logs)
    for to in found.duplicates.values():
        cost_at(sorted(one.mono for one in to)[1]).read_twice += 1
    ended = sum(any(event.kind in {"failed", "died"} for event in log) for log in logs)
    two_owners = sum(one.second.begin >= begins[min(1, len(begins) - 1)] for one in overlaps(logs))
    return Reading(costs, len(produced), len(found.lost), two_owners, ended)


def _all(logs: Iterable[Log]) -> Iterable[Event]:
    return (event for log in logs for event in log)
