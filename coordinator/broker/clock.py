"""The broker's clock: trio's clock as calendar time, so that tests can run it in virtual time."""

import time

import trio


class Clock:
    """Milliseconds since 1970, advancing as trio's clock does. Create it inside ``trio.run``."""

    def __init__(self) -> None:
        self._offset_s = time.time() - trio.current_time()

    def now_ms(self) -> int:
        """Return the current time."""
        return int((trio.current_time() + self._offset_s) * 1000)

    def elapsed_ms(self) -> float:
        """Return the time of trio's clock, with its full resolution, to measure how long something takes."""
        return trio.current_time() * 1000

    def trio_time(self, deadline_ms: int) -> float:
        """Convert to a time of trio's clock at which that millisecond is over."""
        return (deadline_ms + 1) / 1000 - self._offset_s
