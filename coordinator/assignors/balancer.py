"""Picks the least loaded subscriber of a topic for the next partition, and the most loaded one to take from.

The subscribers are sorted by their number of partitions over all topics. Two ranges grow towards each other: the least
loaded members at the low end and the most loaded ones at the high end, each range with equal counts. A range returns
its members one after the other; after the last one its count has risen (or fallen) by one, and it takes in every member
with that count. The topic is balanced when the two counts are at most one apart.
"""

from collections.abc import Sequence


class MemberBalancer:
    """Walks through the subscribers of one topic after the other. The caller shares and updates ``sizes``."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._sorted: list[int] = []
        self._low_end = self._low_next = self._low_count = 0
        self._high_start = self._high_end = self._high_next = self._high_count = 0

    def start(self, members: Sequence[int]) -> int:
        """Begin with these members; return how many more partitions the most loaded has than the least loaded."""
        self._sorted = sorted(members, key=lambda member: (self._sizes[member], member))
        least, most = self._size_at(0), self._size_at(-1)
        self._low_end = self._low_next = 0
        self._low_count = least - 1
        self._high_start = self._high_end = len(self._sorted)
        self._high_next = self._high_end - 1
        self._high_count = most + 1
        return most - least

    def next_least_loaded(self) -> int:
        """Return the member to give the next partition to."""
        if self._low_next >= self._low_end:
            self._low_count += 1
            while self._low_end < len(self._sorted) and self._size_at(self._low_end) == self._low_count:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._sorted[self._low_next - 1]

    def next_most_loaded(self) -> int | None:
        """Return the member to take the next partition from; None if there is none left."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # Everybody in the range was excluded; the next lower count need not be one below.
                self._high_count = self._size_at(self._high_start - 1)
            else:
                self._high_count -= 1
            while self._high_start > 0 and self._size_at(self._high_start - 1) == self._high_count:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return None
        self._high_next -= 1
        return self._sorted[self._high_next + 1]

    def exclude_most_loaded(self) -> None:
        """Exclude the member that was last returned as most loaded: it has no partition of this topic."""
        place, last = self._high_next + 1, self._high_end - 1
        self._sorted[place], self._sorted[last] = self._sorted[last], self._sorted[place]
        self._high_end -= 1

    @property
    def is_balanced(self) -> bool:
        """Whether the two ranges are at most one partition apart."""
        return self._high_count - self._low_count <= 1

    def _size_at(self, place: int) -> int:
        return self._sizes[self._sorted[place]]
