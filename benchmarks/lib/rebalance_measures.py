"""Computes the cost of a change from the events of the group's consumers: pure functions of events and nanoseconds.

A consumer **reads** a partition from the moment its assign callback is entered until its revoke (or lost) callback is
entered. A partition that nobody reads has no owner in these measures.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

NS = 1_000_000_000


@dataclass(frozen=True)
class Change:
    """A consumer started (`gained`) or stopped reading these partitions."""

    consumer: str
    mono: int
    gained: bool
    partitions: frozenset[int]


@dataclass(frozen=True)
class Cost:
    """The cost of one change of the group."""

    bystanders: int
    """Consumers that were there before and after."""
    stopped: int
    """Bystanders that read nothing at all for some time."""
    stopped_s: float
    """For how long, all of them together."""
    interrupted: int
    """Partitions that nobody read for some time."""
    partition_s: float
    """For how long, all of them together: partition-seconds without an owner."""
    longest_s: float
    """The longest that one partition had no owner."""
    complete_s: float
    """From the change until the last callback that followed from it."""


def owners(changes: Iterable[Change], until: int) -> dict[str, frozenset[int]]:
    """Return which consumer reads which partition at a moment."""
    held: dict[str, set[int]] = defaultdict(set)
    for change in sorted(changes, key=lambda one: one.mono):
        if change.mono <= until:
            if change.gained:
                held[change.consumer] |= change.partitions
            else:
                held[change.consumer] -= change.partitions
    return {consumer: frozenset(partitions) for consumer, partitions in held.items()}


def cost(
    changes: Iterable[Change],
    *,
    began: int,
    ended: int,
    bystanders: Iterable[str],
    partitions: Iterable[int],
) -> Cost:
    """Return the cost of a change made at `began`, when the group was quiet, and over by `ended`."""
    changes = list(changes)
    by_partition = _free(changes, began, ended, lambda _, partition: partition)
    by_consumer = _free(changes, began, ended, lambda consumer, _: consumer)
    stops = [_seconds(by_consumer.get(name, [(began, ended)])) for name in bystanders]
    unread = [_seconds(by_partition.get(number, [(began, ended)])) for number in partitions]
    last = max((change.mono for change in changes if began <= change.mono <= ended), default=began)
    return Cost(
        bystanders=len(stops),
        stopped=sum(seconds > 0 for seconds in stops),
        stopped_s=sum(stops),
        interrupted=sum(seconds > 0 for seconds in unread),
        partition_s=sum(unread),
        longest_s=max(unread, default=0.0),
        complete_s=(last - began) / NS,
    )


def _free(
    changes: Iterable[Change], began: int, ended: int, key: Callable[[str, int], object]
) -> dict[object, list[tuple[int, int]]]:
    """Return, for each key, the times within the window in which nothing was held under it."""
    count: dict[object, int] = defaultdict(int)
    since: dict[object, int] = {}
    found: dict[object, list[tuple[int, int]]] = {}
    for change in sorted(changes, key=lambda one: one.mono):
        if change.mono > ended:
            break
        for partition in change.partitions:
            at = key(change.consumer, partition)
            found.setdefault(at, [])
            before = count[at]
            count[at] += 1 if change.gained else -1
            if before == 0 and count[at] == 1:
                free_since = max(since.pop(at, began), began)
                if change.mono > free_since:
                    found[at].append((free_since, change.mono))
            elif count[at] == 0:
                since[at] = change.mono
    for at, free_since in since.items():
        found[at].append((max(free_since, began), ended))
    return found


def _seconds(spans: Iterable[tuple[int, int]]) -> float:
    return sum((end - begin) / NS for begin, end in spans)
