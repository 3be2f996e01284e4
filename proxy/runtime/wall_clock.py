"""The wall clock for the journal and the status page."""

import time
from collections.abc import Callable


class WallClock:
    """Microseconds since 1970 UTC that never decrease within one process, even if the system clock is set back."""

    def __init__(self, time_ns: Callable[[], int] = time.time_ns) -> None:
        self._time_ns = time_ns
        self._last = 0

    def now_us(self) -> int:
        """Return the present time in microseconds since 1970."""
        self._last = max(self._last, self._time_ns() // 1000)
        return self._last
