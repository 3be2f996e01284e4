"""A measurement waits for a quiet machine, but not for ever, and says how quiet it was."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field

import pytest

from benchmarks.lib import quiet
from benchmarks.lib.quiet import OVER_S, Guard


@dataclass
class Machine:
    """Virtual time, and others that use a part of a core until a moment."""

    busy_until_s: float
    part: float = 0.5
    now_s: float = 100.0
    used_s: float = 1000.0
    began: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        busy = min(seconds, max(0.0, self.busy_until_s - self.now_s))
        self.now_s += seconds
        self.used_s += busy * self.part

    def work(self) -> str:
        self.began.append(self.now_s)
        self.sleep(10.0)
        return "done"

    def measured(self, patience_s: float = 60.0) -> tuple[str, float]:
        guard = Guard(patience_s, lambda: self.used_s, lambda: self.now_s, self.sleep)
        return guard.measured(self.work)


def test_work_begins_after_some_seconds_in_which_others_used_little():
    machine = Machine(busy_until_s=0.0)
    assert machine.measured() == ("done", 0.0)
    assert machine.began == [100.0 + OVER_S]


def test_work_waits_while_others_use_a_fifth_of_a_core():
    machine = Machine(busy_until_s=110.0, part=0.2)
    assert machine.measured() == ("done", 0.0)
    assert machine.began == [100.0 + 4 * OVER_S], "in the fourth, others used a third of a fifth"


def test_work_begins_when_the_patience_ends_and_is_not_quiet():
    machine = Machine(busy_until_s=1000.0)
    assert machine.measured(patience_s=7.0) == ("done", pytest.approx(0.5))
    assert machine.began == [100.0 + 3 * OVER_S]


def test_others_that_come_during_the_work_count():
    machine = Machine(busy_until_s=0.0)
    guard = Guard(60.0, lambda: machine.used_s, lambda: machine.now_s, machine.sleep)

    def work() -> None:
        machine.busy_until_s = machine.now_s + 4.0
        machine.work()

    assert guard.measured(work)[1] == pytest.approx(0.2)


def test_own_children_are_no_others():
    def burn() -> tuple[float, float]:
        before, own = quiet._ticks(os.getpid()), time.process_time()
        script = "import time\nwhile time.process_time() < 0.3: pass"
        subprocess.run([sys.executable, "-c", script], check=True)
        return (quiet._ticks(os.getpid()) - before) / os.sysconf("SC_CLK_TCK"), time.process_time() - own

    counted, itself = burn()
    assert counted - itself > 0.25
