"""Ranges of versions, written as Kafka's schemas write them: ``"0-4"``, ``"3+"``, ``"1"``, ``"none"``."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

_OPEN_END = 0x7FFF


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions from ``low`` to ``high``, both inclusive; empty if ``high`` is below ``low``."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read Kafka's notation; raises ValueError for anything else."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), _OPEN_END)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def __str__(self) -> str:
        if self.high < self.low:
            return "none"
        if self.high == _OPEN_END:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"
