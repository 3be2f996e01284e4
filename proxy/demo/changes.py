"""Waiting for a condition instead of for time to pass."""

from collections.abc import Callable

import trio

from proxy.demo.failure import DemoFailed


class Changes:
    """Whoever changes something tells it here; whoever waits for a condition looks at it again then."""

    def __init__(self) -> None:
        self._next = trio.Event()

    def happened(self) -> None:
        """Something changed."""
        self._next.set()
        self._next = trio.Event()

    async def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Return as soon as the condition holds.

        :raises DemoFailed: it did not hold in time; ``what`` says in words what was waited for.
        """
        with trio.move_on_after(timeout_s):
            while not condition():
                await self._next.wait()
            return
        raise DemoFailed(f"waited {timeout_s:g} s until {what}, in vain")
