"""Computes what a change cost a group from its history. docs/tutorial/demo.md defines each measure.

Everything here is a pure function of callbacks and times in nanoseconds.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

import msgspec

from proxy.demo.history import History, Holding

_NS_PER_S = 1e9


class Window(msgspec.Struct, frozen=True):
    """The time of one step: from its action until the next one."""

    began_ns: int
    ended_ns: int


class Gap(msgspec.Struct, frozen=True):
    """A time during which a consumer read nothing, or no consumer read a partition."""

    began_ns: int
    ended_ns: int

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return (self.ended_ns - self.began_ns) / _NS_PER_S


class Overlap(msgspec.Struct, frozen=True):
    """Two consumers held one partition at the same time."""

    partition: int
    consumers: tuple[str, str]
    began_ns: int
    seconds: float


class StepCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one step cost one group."""

    bystanders: int
    """Consumers that were members before the step and after it: all but the one that joined, left or was killed."""

    stopped: int
    """Bystanders that read nothing at all for some time."""

    stopped_s: float
    """The sum of those times in seconds."""

    callbacks: int
    """Callbacks of the bystanders about partitions that they get or give up."""

    unread_s: float
    """For how long nobody read a partition, summed over all partitions, in seconds."""

    longest_s: float
    """The longest of those times in seconds."""

    read_again: int
    """Records that the group had read before."""


def gaps(holdings: Iterable[Holding], window: Window) -> list[Gap]:
    """Return the times in the window during which none of these holdings was being read."""
    found = []
    unread_since = window.began_ns
    for began, ended in sorted(_reading(holding, window) for holding in holdings):
        if began >= window.ended_ns:
            break
        if began > unread_since:
            found.append(Gap(unread_since, began))
        unread_since = max(unread_since, ended)
    if unread_since < window.ended_ns:
        found.append(Gap(unread_since, window.ended_ns))
    return found


def step_cost(
    history: History,
    window: Window,
    *,
    partitions: Iterable[int],
    bystanders: Sequence[str],
    read_again: int,
) -> StepCost:
    """Return what the step in this window cost these partitions and these consumers."""
    by_consumer = [
        gaps((holding for holding in history.holdings if holding.consumer == name), window)
        for name in bystanders
    ]
    by_partition = [
        gaps((holding for holding in history.holdings if holding.partition == number), window)
        for number in partitions
    ]
    return StepCost(
        bystanders=len(by_consumer),
        stopped=sum(bool(found) for found in by_consumer),
        stopped_s=_seconds(by_consumer),
        callbacks=sum(
            name in bystanders and window.began_ns <= at_ns < window.ended_ns
            for at_ns, name in history.callbacks
        ),
        unread_s=_seconds(by_partition),
        longest_s=max((gap.seconds for found in by_partition for gap in found), default=0.0),
        read_again=read_again,
    )


def total(costs: Collection[StepCost]) -> StepCost:
    """Return what several steps cost together."""
    return StepCost(
        bystanders=sum(cost.bystanders for cost in costs),
        stopped=sum(cost.stopped for cost in costs),
        stopped_s=sum(cost.stopped_s for cost in costs),
        callbacks=sum(cost.callbacks for cost in costs),
        unread_s=sum(cost.unread_s for cost in costs),
        longest_s=max((cost.longest_s for cost in costs), default=0.0),
        read_again=sum(cost.read_again for cost in costs),
    )


def overlaps(history: History, until_ns: int) -> list[Overlap]:
    """Return every time before ``until_ns`` when two consumers held the same partition; there must be none."""
    by_partition: dict[int, list[Holding]] = {}
    for holding in history.holdings:
        by_partition.setdefault(holding.partition, []).append(holding)
    found = []
    for partition, holdings in by_partition.items():
        for one, other in combinations(holdings, 2):
            began = max(one.assigned_ns, other.assigned_ns)
            ended = min(_released(one, until_ns), _released(other, until_ns))
            if one.consumer != other.consumer and began < ended:
                seconds = (ended - began) / _NS_PER_S
                found.append(Overlap(partition, (one.consumer, other.consumer), began, seconds))
    return sorted(found, key=lambda overlap: overlap.began_ns)


def _released(holding: Holding, until_ns: int) -> int:
    return until_ns if holding.released_ns is None else holding.released_ns


def _reading(holding: Holding, window: Window) -> tuple[int, int]:
    ended = window.ended_ns if holding.stopped_ns is None else holding.stopped_ns
    return holding.assigned_ns, ended


def _seconds(gaps_of_each: Iterable[list[Gap]]) -> float:
    return sum(gap.seconds for found in gaps_of_each for gap in found)
