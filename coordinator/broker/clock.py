"""The broker's time: trio's clock, laid on the calendar, so that tests can run it in virtual time."""

import time

import trio


class Clock:
    """Milliseconds since 1970 that advance as trio's clock does. To be made inside ``trio.run``."""

    def __init__(self) -> None:
        self._offset_s = time.time() - trio.current_time()

    def now_ms(self) -> int:
        """The time now."""
        return int((trio.current_time() + self._offset_s) * 1000)

    def trio_time(self, deadline_ms: int) -> float:
        """When that is by trio's clock, not before the millisecond is over."""
        return (deadline_ms + 1) / 1000 - self._offset_s
