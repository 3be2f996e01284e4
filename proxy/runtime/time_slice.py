"""Splits long work on the trio thread into short time slices, so that clients are served in between."""

import time

import trio

SLICE_S = 0.002
"""A request passes through several tasks and may wait for one slice at each, so a slice must be short."""


class TimeSlice:
    """One piece of long work. It calls :meth:`yield_if_spent` often, wherever other tasks may run in between."""

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self._slice_s = slice_s
        self._began = time.perf_counter()

    async def yield_if_spent(self) -> None:
        """Let all other tasks run once if this one has used up its slice; then begin the next slice."""
        if time.perf_counter() - self._began >= self._slice_s:
            await trio.lowlevel.checkpoint()
            self._began = time.perf_counter()
