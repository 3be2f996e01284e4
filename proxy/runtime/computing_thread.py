"""Computes for seconds in a thread while the trio thread goes on serving."""

import gc
import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

T = TypeVar("T")

_TURN_S = 0.0005
"""Seconds after which the thread gives way. The trio thread waits for such a turn after each of its system calls, so
with Python's 5 ms a request of a few calls would take ten times as long."""


class InThread(Protocol):
    """Runs something that takes long, and returns what it returns."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """Run it."""
        ...


async def in_thread(work: Callable[[], T]) -> T:
    """Run it in a thread, one at a time in a process. If the caller is cancelled, it does not wait for the thread.

    The garbage collector rests meanwhile: a full collection stops all threads, and many new objects call for many.
    """

    def in_short_turns() -> T:
        turn_s, collects = sys.getswitchinterval(), gc.isenabled()
        sys.setswitchinterval(_TURN_S)
        gc.disable()
        try:
            return work()
        finally:
            sys.setswitchinterval(turn_s)
            if collects:
                gc.enable()

    return await trio.to_thread.run_sync(in_short_turns, abandon_on_cancel=True)
