"""Keeps the live proof in short slices, and within a share of a processor core (``verify.cpu_share``)."""

import time

import trio

from proxy.runtime.time_slice import SLICE_S

_REST_AFTER_S = 0.02


class Pace:
    """Work that calls :meth:`rest` often gets ``share`` of a core at most, a few milliseconds at a time."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._began = time.thread_time()
        self._spent_s = 0.0

    def begin(self) -> None:
        """The work goes on; what ran since :meth:`rest` was something else."""
        self._began = time.thread_time()

    async def rest(self) -> None:
        """Let other tasks run if a slice is used up, and for longer if the share is."""
        used_s = time.thread_time() - self._began
        if used_s < SLICE_S:
            return
        self._spent_s += used_s
        if self._spent_s < _REST_AFTER_S:
            await trio.lowlevel.checkpoint()
        else:
            await trio.sleep(self._spent_s * (1 / self._share - 1))
            self._spent_s = 0.0
        self.begin()
