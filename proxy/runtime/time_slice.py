"""Long work in the thread that serves clients, done in small portions so that nobody waits for all of it."""

import time

import trio

PORTION_S = 0.002
"""A call of a client passes through some tasks, and waits for a portion at each of them."""


class Turns:
    """One piece of long work: call :meth:`end_portion` often, where others may go on in between."""

    def __init__(self, portion_s: float = PORTION_S) -> None:
        self._portion_s = portion_s
        self._since = time.perf_counter()

    async def end_portion(self) -> None:
        """Let all others have their turn if this one has lasted long enough."""
        if time.perf_counter() - self._since >= self._portion_s:
            await trio.lowlevel.checkpoint()
            self._since = time.perf_counter()
