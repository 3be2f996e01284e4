"""Waiting for a condition instead of for time to pass."""

from collections.abc import Callable

import trio


class Changes:
    """Whoever changes something tells it here; whoever waits for a condition looks at it again then."""

    def __init__(self) -> None:
        self._next = trio.Event()

    def happened(self) -> None:
        """Something changed."""
        self._next.set()
        self._next = trio.Event()

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Return True as soon as the condition holds, and False when it did not in time."""
        with trio.move_on_after(timeout_s):
            while not condition():
                await self._next.wait()
            return True
        return False
