"""Counts which of the numbered records a group has read, and how often."""

from collections.abc import Iterable


class ReadRecords:
    """The records that one group has read. Records are numbered from 0."""

    def __init__(self) -> None:
        self.duplicates = 0
        self._read: set[int] = set()

    @property
    def distinct(self) -> int:
        """The number of different records that were read."""
        return len(self._read)

    def has(self, number: int) -> bool:
        """Whether this record was read."""
        return number in self._read

    def read(self, numbers: Iterable[int]) -> None:
        """Record that these were read, possibly again."""
        for number in numbers:
            if number in self._read:
                self.duplicates += 1
            else:
                self._read.add(number)

    def missing(self, produced: int) -> list[int]:
        """Return which of the first ``produced`` records no consumer of the group has read."""
        return [number for number in range(produced) if number not in self._read]


def ranges(numbers: Iterable[int]) -> str:
    """Format numbers as ranges: ``0-3, 7, 9-10``."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
