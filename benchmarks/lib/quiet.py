"""Waits for a quiet machine before a measurement, and measures how quiet it was meanwhile."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.lib.test_bed import family

MOST = 0.2
"""The part of a core that other processes may use on a machine that counts as quiet."""
OVER_S = 3.0
PATIENCE_S = 60.0
_TICKS_S = os.sysconf("SC_CLK_TCK")
T = TypeVar("T")


def others_s() -> float:
    """Return the seconds of processor time that neither this process nor its children used, but others or the host."""
    user, nice, system, *_, steal = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + steal - sum(map(_ticks, family(os.getpid())))) / _TICKS_S


def _ticks(pid: int) -> int:
    """Return the ticks of a process and of the children that have ended and were waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


@dataclass(frozen=True)
class Guard:
    """Starts work when other processes use little, or after ``patience_s`` in any case."""

    patience_s: float = PATIENCE_S
    others_s: Callable[[], float] = others_s
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def measured(self, work: Callable[[], T]) -> tuple[T, float]:
        """Return what ``work`` found once the machine was quiet, and the part of a core that others used during it."""
        self.wait()
        return self._share(work)

    def wait(self) -> None:
        """Return when others have used little for some seconds, or the patience ends."""
        deadline = self.clock() + self.patience_s
        while self._share(lambda: self.sleep(OVER_S))[1] >= MOST and self.clock() < deadline:
            pass

    def _share(self, work: Callable[[], T]) -> tuple[T, float]:
        began, before = self.clock(), self.others_s()
        found = work()
        return found, (self.others_s() - before) / (self.clock() - began)
