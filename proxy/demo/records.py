"""The numbered records: which were produced, and which each group has read, how often."""

from collections.abc import Iterable


class ReadRecords:
    """What one group has read of records that are numbered from 0 on."""

    def __init__(self) -> None:
        self.duplicates = 0
        self._read: set[int] = set()

    @property
    def distinct(self) -> int:
        """How many different records were read."""
        return len(self._read)

    def read(self, numbers: Iterable[int]) -> None:
        """These were read, perhaps not for the first time."""
        for number in numbers:
            if number in self._read:
                self.duplicates += 1
            else:
                self._read.add(number)

    def missing(self, produced: int) -> list[int]:
        """The records that nobody of the group has read, of so many that were produced."""
        return [number for number in range(produced) if number not in self._read]


def ranges(numbers: Iterable[int]) -> str:
    """Numbers for people: ``0-3, 7, 9-10``."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
