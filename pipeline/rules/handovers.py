"""Keeps the shortest handovers between replicas, which the rule on clocks asks for (:mod:`pipeline.rules.classes`)."""

from collections.abc import Iterable
from heapq import heappush, heapreplace

from pipeline.rules.classes import SHORTEST, Handovers, Replicas

MOST_KEPT = 5_000
"""Handovers kept for each two replicas. Of more than 250,000 the shortest fiftieth is more than that: the longest one
kept stands for it, which is shorter, so that clocks explain less."""

_FIFTIETH = round(1 / SHORTEST)


class ShortestHandovers:
    """The handovers of partitions between replicas (from, to), each with the time that it took in microseconds."""

    def __init__(self, most_pairs: int | None = None, most_kept: int = MOST_KEPT) -> None:
        """``most_pairs``: of more replicas those that came first are forgotten; None: all are kept.

        ``most_kept``: handovers kept for each two replicas.
        """
        self._most_pairs = most_pairs
        self._most_kept = most_kept
        self._counts: dict[Replicas, int] = {}
        self._shortest: dict[Replicas, list[int]] = {}

    def add(self, origin: str, target: str, took_us: int) -> None:
        """Note one. Those within a replica are no evidence."""
        if origin == target:
            return
        pair = origin, target
        kept = self._shortest.get(pair)  # a heap of negative times: the longest is its first
        if kept is None:
            kept = self._shortest[pair] = []
            self._counts[pair] = 0
            if len(self._counts) > (self._most_pairs or len(self._counts)):
                oldest = next(iter(self._counts))
                del self._counts[oldest], self._shortest[oldest]
        self._counts[pair] += 1
        if len(kept) < self._most_kept:
            heappush(kept, -took_us)
        elif -took_us > kept[0]:
            heapreplace(kept, -took_us)

    def copy(self) -> "ShortestHandovers":
        """Return a copy, to which more can be added."""
        made = ShortestHandovers(self._most_pairs, self._most_kept)
        made._counts = dict(self._counts)
        made._shortest = {pair: list(kept) for pair, kept in self._shortest.items()}
        return made

    def save(self) -> list[tuple[str, str, int, list[int]]]:
        """Return all that is kept: from, to, how many there were, and the shortest; :meth:`restore` takes it."""
        return [
            (*pair, count, [-kept for kept in self._shortest[pair]]) for pair, count in self._counts.items()
        ]

    def restore(self, saved: Iterable[tuple[str, str, int, list[int]]]) -> None:
        """Go on with what :meth:`save` gave."""
        for origin, target, count, shortest in saved:
            self._counts[origin, target] = count
            self._shortest[origin, target] = sorted(-took_us for took_us in shortest)

    def found(self) -> dict[Replicas, Handovers]:
        """Return for each two replicas how many handovers there were, and how long the shortest took."""
        return {pair: Handovers(count, self._bound(pair, count)) for pair, count in self._counts.items()}

    def _bound(self, pair: Replicas, count: int) -> int:
        shortest = sorted(-kept for kept in self._shortest[pair])
        return shortest[min(-(-count // _FIFTIETH), len(shortest)) - 1]
