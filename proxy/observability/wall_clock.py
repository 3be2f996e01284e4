"""The time of day for people and the journal."""

import time
from collections.abc import Callable


class WallClock:
    """Microseconds since 1970 UTC that never run backwards within one process, whatever is done to the clock."""

    def __init__(self, time_ns: Callable[[], int] = time.time_ns) -> None:
        self._time_ns = time_ns
        self._last = 0

    def now_us(self) -> int:
        """This moment."""
        self._last = max(self._last, self._time_ns() // 1000)
        return self._last
