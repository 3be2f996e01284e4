"""Virtual time: a heap of events, and one source of randomness.

Nothing in a simulated history looks at a wall clock or at any other randomness than ``Kernel.random``, so a seed
is a history. Time is in whole milliseconds, as in the coordinator; the translation gets it in seconds.
"""

import heapq
import random
from collections.abc import Callable
from typing import Any

Action = Callable[..., None]


class Kernel:
    """The virtual clock, and the queue of events."""

    def __init__(self, seed: int | str) -> None:
        self.now_ms = 0
        self.random = random.Random(seed)  # noqa: S311  reproducible on purpose
        self.steps = 0
        self._heap: list[tuple[int, int, Action, tuple[Any, ...]]] = []
        self._sequence = 0

    @property
    def now_s(self) -> float:
        """Return the time in seconds."""
        return self.now_ms / 1000

    def at(self, when_ms: int, action: Action, *arguments: Any) -> None:
        """Schedule an action; one in the past runs now, after everything that is due already."""
        self._sequence += 1
        heapq.heappush(self._heap, (max(when_ms, self.now_ms), self._sequence, action, arguments))

    def after(self, delay_ms: int, action: Action, *arguments: Any) -> None:
        """Schedule an action after a delay."""
        self.at(self.now_ms + delay_ms, action, *arguments)

    def next_at(self) -> int | None:
        """Return when the next event is due."""
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Run the next event."""
        self.now_ms, _, action, arguments = heapq.heappop(self._heap)
        self.steps += 1
        action(*arguments)

    def run_until(self, end_ms: int) -> None:
        """Run all events up to a time."""
        heap = self._heap
        while heap and heap[0][0] <= end_ms:
            self.step()
        self.now_ms = max(self.now_ms, end_ms)

    # -- chance --------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def between(self, low: int, high: int) -> int:
        """Return a random whole number from low to high, both included."""
        return low + int(self.random.random() * (high - low + 1))
