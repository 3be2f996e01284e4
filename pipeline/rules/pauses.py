"""How long members paused: from where a member stops being Stable until it is Stable again or its membership ends.

Only members that pause now are kept. Lengths are counted in buckets of an eighth of a power of two, so a quantile is up
to 12 % more than it is; the longest is exact.
"""

from collections.abc import Container

from pipeline.rules.lines import ENDS, Line
from pipeline.rules.losses import Process
from pipeline.rules.names import counted_as

_STABLE = ("Stable", "")
_FINE = 3
"""Bits of a length that a bucket keeps beside the first."""


class Lengths:
    """Counts of lengths in microseconds."""

    __slots__ = ("_buckets", "count", "longest_us")

    def __init__(self) -> None:
        self.count = 0
        self.longest_us = 0
        self._buckets: dict[int, int] = {}

    def add(self, length_us: int) -> None:
        """Count one."""
        if length_us < 0:
            length_us = 0
        self.count += 1
        if length_us > self.longest_us:
            self.longest_us = length_us
        shift = length_us.bit_length() - 1 - _FINE
        if shift < 0:
            shift = 0
        top = ((length_us >> shift) + 1 << shift) - 1
        self._buckets[top] = self._buckets.get(top, 0) + 1

    def quantile_us(self, share: float) -> int:
        """Return the length that this share of all is not longer than, rounded up; 0 if there are none."""
        left = self.count * share
        for top in sorted(self._buckets):
            left -= self._buckets[top]
            if left <= 0:
                return min(top, self.longest_us)
        return self.longest_us


class Pauses:
    """The pauses of one group that end at ``from_us`` or later, by the protocol of the member when it began."""

    def __init__(self, from_us: int) -> None:
        self.by_protocol: dict[str, Lengths] = {}
        self._from_us = from_us
        self._since: dict[str, tuple[int, str, Process]] = {}

    @property
    def now(self) -> int:
        """Return how many members pause."""
        return len(self._since)

    def take(self, event: Line) -> None:
        """Take the next event of the group: ``state_changed``, or the end of a membership."""
        member = event.member or ""
        began = self._since.get(member)
        if began is None:
            if event.state not in _STABLE and event.kind not in ENDS:
                self._since[member] = event.time_us, event.protocol or "", event.process  # type: ignore[assignment]
        elif event.state in _STABLE or event.kind in ENDS:
            del self._since[member]
            if event.time_us >= self._from_us:  # type: ignore[operator]
                protocol = counted_as(began[1], self.by_protocol)
                lengths = self.by_protocol.get(protocol)
                if lengths is None:
                    lengths = self.by_protocol[protocol] = Lengths()
                lengths.add(event.time_us - began[0])  # type: ignore[operator]

    def forget(self, ended: Container[Process], before_us: int) -> None:
        """Forget members that have paused since before then, and whose process is in ``ended``."""
        for member, (since_us, _, writer) in list(self._since.items()):
            if writer in ended and since_us < before_us:
                del self._since[member]
