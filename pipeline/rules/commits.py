"""What a journal says of a group's commits: how many were refused, and which set an offset back.

The proxy writes an event ``committed`` for a commit that was refused, for one that sets an offset back, and for one of
each partition now and then (docs/reference/journal.md), so what is counted here is what is written there.
"""

import msgspec

from pipeline.rules.certificate import SetBack
from pipeline.rules.lines import Line
from pipeline.rules.names import counted_as

MOST_EXAMPLES = 20


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The offsets that a commit names, and those ``before`` that its process had seen committed (-1: none)."""

    topic: str
    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    before: tuple[int, ...]


_DECODER = msgspec.json.Decoder(tuple[Committed, ...])


class Commits:
    """The commits of one group. Those before ``from_us`` only say from which offset later ones start."""

    def __init__(self, from_us: int) -> None:
        self.recorded = 0
        """Events that say something of commits."""
        self.refused: dict[str, int] = {}
        """How many of them were refused, by error; errors beyond a bound together (:mod:`pipeline.rules.names`)."""
        self.set_back = 0
        self.examples: list[SetBack] = []
        self._from_us = from_us
        self._offsets: dict[tuple[str, int], int] = {}

    @property
    def size(self) -> int:
        """Return of how many partitions an offset is known."""
        return len(self._offsets)

    def take(self, event: Line) -> bool:
        """Take the next event ``committed`` of the group; return False if its ``commits`` do not match the schema."""
        try:
            commits = _DECODER.decode(event.commits)
        except msgspec.MsgspecError:
            return False
        if any(not len(one.partitions) == len(one.offsets) == len(one.before) for one in commits):
            return False
        counts = event.time_us >= self._from_us  # type: ignore[operator]
        self.recorded += counts
        if event.reason:
            if counts:
                reason = counted_as(event.reason, self.refused)
                self.refused[reason] = self.refused.get(reason, 0) + 1
            return True
        for one in commits:
            for partition, offset, before in zip(one.partitions, one.offsets, one.before, strict=True):
                known = max(before, self._offsets.get((one.topic, partition), -1))
                self._offsets[one.topic, partition] = offset
                if offset < known and counts:
                    self._note(SetBack(one.topic, partition, event.member or "", event.time_us or 0, offset, known,
                                       f"{event.replica}.{event.boot}.{event.seq}"))  # fmt: skip
        return True

    def _note(self, found: SetBack) -> None:
        self.set_back += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(found)
