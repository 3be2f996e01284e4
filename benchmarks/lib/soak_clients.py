"""Runs the soak's consumers as processes, and says of one that does not close whether the proxy owes it an answer.

librdkafka 2.16.0 can lose all its brokers. At the end of its controlled shutdown a broker may answer Metadata with its
topics and without any broker, and librdkafka then gives up the only broker that it knows. Most consumers begin again
with `bootstrap.servers`. One in which something still refers to the lost broker does not: it never connects again, and
if a commit was in flight, its close waits for ever for a coordinator
(https://github.com/confluentinc/librdkafka/issues/5301). The same happens straight at Kafka; the counts are in
docs/evidence/performance.md. Such a consumer is told from one whose call is not answered by two signs: the last
metadata in its log has no broker, and it has no connection, so it waits for nobody's answer.
"""

import re
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

CLOSE_S = 60.0
"""How long all consumers together may take to close; they take a second, or a request's timeout at the worst."""

LAST_LINES = 12

_BROKERS = re.compile(r": (\d+) brokers, (\d+) topics$")
_TIMED_OUT = re.compile(r"Timed out (\d+) in-flight")
_WHY = re.compile(
    r"heartbeat error response .*(Broker: .*)|(session timed out|Metadata for subscribed .* changed)"
)
_REPEATED = ("CGRPQUERY", "CGRPTERM", "CONNECT")
"""What a consumer without brokers logs twenty times a second."""

_ESTABLISHED = "01"


@dataclass(frozen=True)
class Unclosed:
    """A consumer that has not closed in time: its open connections, and whether its last metadata had no broker."""

    name: str
    log: Path
    connections: int
    lost_its_brokers: bool

    @property
    def excused(self) -> bool:
        """Whether it is librdkafka's fault: nobody owes it an answer."""
        return self.lost_its_brokers and not self.connections

    def __str__(self) -> str:
        brokers = "its last metadata had no broker" if self.lost_its_brokers else "it knows brokers"
        return f"{self.name} did not close: {self.connections} connections, {brokers}"


class Said(NamedTuple):
    """How many records a consumer has read, and when it got each assignment (time.monotonic)."""

    consumed: int
    assigned_at: list[float]


class ConsumerProcess:
    """A running consumer (`benchmarks.lib.soak_consumer`) and its log."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def tell_to_close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def closed_by(self, deadline: float) -> bool:
        """Wait until it has ended, or for a moment of time.monotonic()."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def why_not(self) -> Unclosed:
        return Unclosed(self.name, self.log, connections(self._process.pid), has_lost_its_brokers(self.log))

    def end(self) -> "Said":
        """Kill it, if it has not ended; return what it has said."""
        self._process.kill()
        self._process.wait()
        self.tell_to_close()  # the pipe
        if self._process.stdout is None:
            return Said(0, [])
        with self._process.stdout as said:
            lines = [line.split() for line in said]
        return Said(
            sum(int(number) for what, number in lines if what == "consumed"),
            [float(at) for what, at in lines if what == "assigned"],
        )


def start_consumer(name: str, bootstrap: str, group: str, topic: str, logs: Path) -> ConsumerProcess:
    command = [sys.executable, "-m", "benchmarks.lib.soak_consumer", bootstrap, group, topic]
    return ConsumerProcess(name, command, logs / f"{name}.log")


def connections(pid: int) -> int:
    """Return how many TCP connections of a process are established."""
    own = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            own.add(str(descriptor.readlink()).removeprefix("socket:[").rstrip("]"))
    rows = [line.split() for path in ("tcp", "tcp6") for line in _rows(Path(f"/proc/{pid}/net/{path}"))]
    return sum(1 for row in rows if row[3] == _ESTABLISHED and row[9] in own)


def has_lost_its_brokers(log: Path) -> bool:
    """Return whether the last metadata in a consumer's log named topics, but no broker."""
    last = None
    with log.open(errors="replace") as lines:
        for line in lines:
            last = _BROKERS.search(line) or last
    return last is not None and last[1] == "0" and last[2] != "0"


def timed_out(log: Path) -> int:
    """Return how many requests of a consumer were in flight for longer than librdkafka waits for an answer."""
    with log.open(errors="replace") as lines:
        return sum(int(found[1]) for line in lines if (found := _TIMED_OUT.search(line)))


def why_rejoined(log: Path) -> Counter[str]:
    """Count the reasons for which a consumer has joined again, in librdkafka's words."""
    with log.open(errors="replace") as lines:
        return Counter(found[1] or found[2] for line in lines if (found := _WHY.search(line)))


def last_lines(log: Path) -> list[str]:
    """Return the last lines of a log, without those that repeat all the time."""
    with log.open(errors="replace") as lines:
        told = (line.rstrip() for line in lines if not any(f"|{one}|" in line for one in _REPEATED))
        return list(deque(told, LAST_LINES))


def _rows(table: Path) -> list[str]:
    return table.read_text().splitlines()[1:] if table.exists() else []
