"""Whether two owners at once are a violation, a difference of clocks (by how much evidence), or a gap in the
journal. Plain Python, one overlap at a time.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pipeline.rules.losses import Loss

VIOLATION = "violation"
UNPROVEN, LOST, REPLACED, SKEW, CLOCK = "unproven", "events_lost", "static_replaced", "within_skew", "clock"

Replicas = tuple[str, str]
"""Two replicas: the one whose clock is ahead, and the other."""

ENOUGH_HANDOVERS = 20
"""With fewer handovers, even the shortest may be slow by chance."""


SHORTEST = 0.02
"""The shortest handovers, up to this share, are ignored: violations or faulty clients may have caused them."""


class Handovers(NamedTuple):
    """The number of handovers of partitions from one replica to another, and the shortest time that they took.

    ``shortest_us`` is the longest of the shortest fiftieth (with fewer than fifty, the shortest one).
    """

    handovers: int
    shortest_us: int


def explained_by_clocks(
    skew_us: int, proofs: Mapping[Replicas, int], handovers: Mapping[Replicas, Handovers]
) -> dict[Replicas, int]:
    """Return, for each two replicas (ahead, behind), the longest overlap that their clocks explain, if beyond the skew.

    There are two kinds of evidence. A proof: one client's events in the wrong order (``proofs``, the largest for each
    two replicas). And the opposite direction: if a clock is ahead, every handover towards its replica seems to take
    longer by that much, so the shortest of many bounds how far it can be ahead. A violation shortens no handover in the
    opposite direction.
    """
    found = {pair: apart_us + skew_us for pair, apart_us in proofs.items() if apart_us > skew_us}
    for (behind, ahead), back in handovers.items():
        if behind != ahead and back.handovers >= ENOUGH_HANDOVERS and back.shortest_us > skew_us:
            found[ahead, behind] = max(back.shortest_us, found.get((ahead, behind), 0))
    return found


def class_at_once(overlap: Mapping[str, Any], skew_us: int) -> str | None:
    """Return the class of an overlap if nothing that the rest of the journal says can change it, else None."""
    if overlap["same_instance"]:
        return REPLACED
    if not overlap["proven"]:
        return UNPROVEN
    within_one = overlap["first_replica"] == overlap["second_replica"] and (
        overlap["first_boot"] == overlap["second_boot"]
    )
    if not within_one and overlap["until_us"] - overlap["from_us"] <= skew_us:
        return SKEW
    return None


class OverlapClassifier:
    """Classifies overlaps, given the losses of the journal and the replicas whose clocks are wrong."""

    def __init__(self, skew_us: int, clocks: Mapping[Replicas, int], losses: Iterable[Loss]) -> None:
        """``clocks``: the longest overlap that the clocks of two replicas (ahead, behind) explain."""
        self._skew_us = skew_us
        self._clocks = dict(clocks)
        self._losses: dict[str, list[tuple[int, int]]] = {}
        for loss in sorted(losses, key=lambda loss: loss.from_us):
            self._losses.setdefault(f"{loss.replica}.{loss.boot}", []).append((loss.from_us, loss.to_us))

    def class_of(self, overlap: Mapping[str, Any]) -> str:
        """Return the class of a row in the table of overlaps."""
        if (known := class_at_once(overlap, self._skew_us)) is not None:
            return known
        length_us = overlap["until_us"] - overlap["from_us"]
        first = overlap["first_replica"], overlap["first_boot"]
        second = overlap["second_replica"], overlap["second_boot"]
        if length_us <= max(
            self._clocks.get(pair, -1) for pair in ((first[0], second[0]), (second[0], first[0]))
        ):
            return CLOCK
        since_us = min(overlap["heard_us"], overlap["from_us"])
        if any(self._lost(process, since_us, overlap["until_us"]) for process in overlap["served_by"]):
            return LOST
        return VIOLATION

    def _lost(self, process: str, from_us: int, until_us: int) -> bool:
        """Whether events of this process may be missing between these times."""
        windows = self._losses.get(process, [])
        at = bisect_right(windows, (until_us, 2**63))
        return any(to_us >= from_us for _, to_us in reversed(windows[:at]))
