"""Judges what the shards of the groups tell (:mod:`pipeline.rules.shard`): what all of them together know of clocks.

It is small, and bounded: of each two replicas the shortest handovers and the largest proof.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from pipeline.rules.classes import LOST, VIOLATION, OverlapClassifier, explained_by_clocks
from pipeline.rules.handovers import ShortestHandovers
from pipeline.rules.shard import OverlapRow, Told

MOST_PAIRS = 1_000
MOST_KEPT = 500
"""Handovers of each two replicas. Of more than 25,000 the longest one kept stands for the shortest fiftieth, which is
shorter, so that clocks explain less."""


class Judged(NamedTuple):
    """An overlap and its class."""

    group: str
    overlap_class: str
    is_open: bool
    about: dict[str, Any]


class _Saved(msgspec.Struct, array_like=True):
    handovers: list[tuple[str, str, int, list[int]]]
    proofs: list[tuple[str, str, int]]
    counts: dict[str, int]


_DECODER = msgspec.msgpack.Decoder(_Saved)


class Judge:
    """Begins with what :meth:`save` gave; None at the beginning."""

    def __init__(self, saved: bytes | None, *, skew_us: int) -> None:
        self._skew_us = skew_us
        self._handovers = ShortestHandovers(MOST_PAIRS, MOST_KEPT)
        self._proofs: dict[tuple[str, str], int] = {}
        self.counts: Counter[str] = Counter()
        """Overlaps by class, of all the time."""
        if saved:
            known = _DECODER.decode(saved)
            self._handovers.restore(known.handovers)
            self._proofs = {(ahead, behind): us for ahead, behind, us in known.proofs}
            self.counts = Counter(known.counts)

    def judge(self, told: Iterable[Told]) -> list[Judged]:
        """Take what the shards told in one turn; return the overlaps that they could not excuse, with their classes."""
        rows: list[OverlapRow] = []
        for one in told:
            rows += one.overlaps
            self.counts.update(one.excused)
            for origin, target, took_us in one.handovers:
                self._handovers.add(origin, target, took_us)
            for ahead, behind, us in one.proofs:
                self._prove((ahead, behind), us)
        clocks = explained_by_clocks(self._skew_us, self._proofs, self._handovers.found()) if rows else {}
        classifier = OverlapClassifier(self._skew_us, clocks, ())
        found = []
        for row in rows:
            judged = classifier.class_of(row.about)
            if judged == VIOLATION and row.is_lost:
                judged = LOST
            self.counts[judged] += 1
            found.append(Judged(row.group, judged, row.is_open, row.about))
        return found

    def _prove(self, pair: tuple[str, str], at_least_us: int) -> None:
        self._proofs[pair] = max(at_least_us, self._proofs.get(pair, 0))
        if len(self._proofs) > MOST_PAIRS:
            del self._proofs[next(iter(self._proofs))]

    def save(self) -> bytes:
        """Return what to begin with after a restart."""
        proofs = [(*pair, us) for pair, us in self._proofs.items()]
        return msgspec.msgpack.encode(_Saved(self._handovers.save(), proofs, dict(self.counts)))
