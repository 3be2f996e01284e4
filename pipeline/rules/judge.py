"""Classifies the overlaps that the shards of the groups tell (:mod:`pipeline.rules.shard`), anew when more is known.

Theory of operation. What the clocks of replicas account for, and which events are missing, shows in the whole journal.
So overlaps between two processes stay *standing*: at each call all of them are classified by what is known by now, as
`epochgate verify` classifies its candidates at the end of the journal. What was told of one is told again when it
changes. ``pending`` says what may still change it:

- ``end``: both owners are there as far as is known. How it ends may change what it is: the end of the first may be
  about to come from another process, or be one that the journal would not tell.
- ``clocks``: it is between two processes, whose clocks may be shown to differ later.
- ``reading``: events of that time may still be read. Such an overlap counts as ``events_lost`` until then.

An event that comes after its turn was left out, so overlaps of its group that it falls into are no violations any more.

What is kept is bounded: of each two replicas the shortest handovers and the largest proof, and the newest overlaps that
may change. Older ones keep their class.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from pipeline.rules.classes import CLOCK, LOST, VIOLATION, OverlapClassifier, explained_by_clocks
from pipeline.rules.handovers import ShortestHandovers
from pipeline.rules.losses import Loss
from pipeline.rules.shard import Key, OverlapRow, Told

MOST_PAIRS = 1_000
MOST_KEPT = 500
"""Handovers of each two replicas. Of more than 25,000 the longest one kept stands for the shortest fiftieth, which is
shorter, so that clocks explain less."""

MOST_STANDING = 2_000
"""Overlaps that may change their class."""

MOST_LATE = 1_000
"""Groups of which it is known when an event came late, and silences of processes."""

MOST_LATE_OF_GROUP = 20
"""Times at which events of a group came late; of more the two oldest become one, which lasts from one to the other."""

END, CLOCKS, READING = "end", "clocks", "reading"


class Judged(NamedTuple):
    """An overlap, its class, and what may still change that; None if nothing can but an event that comes late."""

    group: str
    overlap_class: str
    pending: str | None
    is_open: bool
    about: dict[str, Any]
    key: Key


class _Standing(msgspec.Struct, array_like=True):
    """An overlap, and what was told of it last; an empty class is nothing yet."""

    row: OverlapRow
    told_class: str = ""
    told_pending: str | None = None


class _Saved(msgspec.Struct, array_like=True):
    handovers: list[tuple[str, str, int, list[int]]]
    proofs: list[tuple[str, str, int]]
    counts: dict[str, int]
    standing: list[_Standing]
    late: dict[str, list[tuple[int, int]]]
    silences: list[Loss]


_DECODER = msgspec.msgpack.Decoder(_Saved)


class Judge:
    """Begins with what :meth:`save` gave; None at the beginning."""

    def __init__(self, saved: bytes | None, *, skew_us: int) -> None:
        self._skew_us = skew_us
        self._handovers = ShortestHandovers(MOST_PAIRS, MOST_KEPT)
        self._proofs: dict[tuple[str, str], int] = {}
        self._standing: dict[Key, _Standing] = {}
        self._late: dict[str, list[tuple[int, int]]] = {}
        """When the newest events of a group that came after their turn were written."""
        self._silences: list[Loss] = []
        self.counts: Counter[str] = Counter()
        """How often a class was told or counted, of all the time."""
        if saved:
            known = _DECODER.decode(saved)
            self._handovers.restore(known.handovers)
            self._proofs = {(ahead, behind): us for ahead, behind, us in known.proofs}
            self._standing = {one.row.key: one for one in known.standing}
            self._late, self._silences = known.late, known.silences
            self.counts = Counter(known.counts)

    def judge(self, told: Iterable[Told]) -> list[Judged]:
        """Take what the shards told in one turn; return the overlaps of which there is something new to tell."""
        told = list(told)
        if not told:
            return []
        found: list[Judged] = []
        for one in told:
            self._note(one)
            for key, known in one.excused_now:
                found += self._excused(key, known)
            for row in one.overlaps:
                self._standing.setdefault(row.key, _Standing(row)).row = row
        self._silences += told[0].silences
        del self._silences[:-MOST_LATE]
        while len(self._late) > MOST_LATE:
            del self._late[next(iter(self._late))]
        if self._standing:
            classifier = self._classifier(told)
            settled_us = min(one.settled_us for one in told)
            read_us = min(one.read_us for one in told)
            missing = [loss for loss in told[0].losses if loss.to_us <= read_us]
            for_good = OverlapClassifier(self._skew_us, {}, [*missing, *self._silences])
            for standing in self._standing.values():
                found += self._look(standing, classifier, for_good, settled_us)
            self._forget()
        return found

    def _note(self, told: Told) -> None:
        self.counts.update(told.excused)
        for origin, target, took_us in told.handovers:
            self._handovers.add(origin, target, took_us)
        for ahead, behind, us in told.proofs:
            pair = ahead, behind
            self._proofs[pair] = max(us, self._proofs.get(pair, 0))
            if len(self._proofs) > MOST_PAIRS:
                del self._proofs[next(iter(self._proofs))]
        for group, us in told.late_now:
            known = self._late[group] = sorted([*self._late.pop(group, []), (us, us)])
            if len(known) > MOST_LATE_OF_GROUP:
                known[:2] = [(known[0][0], max(known[0][1], known[1][1]))]

    def _excused(self, key: Key, known: str) -> Iterable[Judged]:
        """An overlap that was open has ended as something that is counted only; yield it if it was told."""
        standing = self._standing.pop(key, None)
        if standing is not None and standing.told_class:
            yield Judged(key[0], known, None, is_open=False, about=standing.row.about, key=key)

    def _classifier(self, told: list[Told]) -> OverlapClassifier:
        handovers = self._handovers.copy()
        for one in told:
            for origin, target, took_us in one.open_handovers:
                handovers.add(origin, target, took_us)
        clocks = explained_by_clocks(self._skew_us, self._proofs, handovers.found())
        return OverlapClassifier(self._skew_us, clocks, [*told[0].losses, *self._silences])

    def _look(
        self,
        standing: _Standing,
        classifier: OverlapClassifier,
        for_good: OverlapClassifier,
        settled_us: int,
    ) -> Iterable[Judged]:
        row, about = standing.row, standing.row.about
        now, pending = classifier.class_of(about), None
        late = self._late.get(row.group, ())
        if now == VIOLATION and any(
            from_us <= about["until_us"] and until_us >= row.first_since_us for from_us, until_us in late
        ):
            now = LOST
        elif now == VIOLATION and about["until_us"] > settled_us:
            now, pending = LOST, READING
        elif now == LOST and for_good.class_of(about) != LOST:
            pending = READING
        elif now in (VIOLATION, CLOCK):
            pending = END if row.is_open else CLOCKS if _is_between_two(about) else None
        if (now, pending) == (standing.told_class, standing.told_pending):
            return
        if not standing.told_class and now == LOST and (row.is_open or pending == READING):
            return  # it may become something else soon
        if now != standing.told_class:
            self.counts[now] += 1
        standing.told_class, standing.told_pending = now, pending
        yield Judged(row.group, now, pending, row.is_open, about, row.key)

    def _forget(self) -> None:
        """Forget the oldest overlaps, if there are too many."""
        while len(self._standing) > MOST_STANDING:
            del self._standing[next(iter(self._standing))]

    @property
    def violations(self) -> dict[str, int]:
        """Return how many violations hold by now, by what may still change that; ``none`` if nothing can."""
        found = dict.fromkeys(("none", CLOCKS, END), 0)
        for one in self._standing.values():
            if one.told_class == VIOLATION:
                found[one.told_pending or "none"] += 1
        return found

    def save(self) -> bytes:
        """Return what to begin with after a restart."""
        proofs = [(*pair, us) for pair, us in self._proofs.items()]
        return msgspec.msgpack.encode(
            _Saved(
                self._handovers.save(),
                proofs,
                dict(self.counts),
                list(self._standing.values()),
                self._late,
                self._silences,
            )
        )


def _is_between_two(about: dict[str, Any]) -> bool:
    return (about["first_replica"], about["first_boot"]) != (about["second_replica"], about["second_boot"])
