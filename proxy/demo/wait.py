"""Waits for conditions instead of for fixed times."""

from collections.abc import Callable

import trio


class ChangeSignal:
    """Wakes all waiters after a change, so that they check their conditions again."""

    def __init__(self) -> None:
        self._next = trio.Event()

    def notify(self) -> None:
        """Wake all waiters, after something changed."""
        self._next.set()
        self._next = trio.Event()

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until the condition holds. Returns False if it does not within ``timeout_s`` seconds."""
        with trio.move_on_after(timeout_s):
            while not condition():
                await self._next.wait()
            return True
        return False
