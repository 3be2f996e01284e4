"""The state that the views show: the current step, the groups, and the latest log lines."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec
from rich.console import RenderableType

from protocol_codecs.printable import printable
from proxy.demo.records import ReadRecords
from proxy.demo.wait import ChangeSignal

_LINES_KEPT = 50
_NS_PER_S = 1e9


class Step(msgspec.Struct, frozen=True):
    """A step of the scenario, with a heading and an explanation for newcomers."""

    heading: str
    explanation: str


class LogLine(msgspec.Struct, frozen=True):
    """A log line, ``at_s`` seconds after the start."""

    at_s: float
    text: str


class ShownGroup(Protocol):
    """What the views show of a group besides its table."""

    title: str
    records: ReadRecords

    @property
    def done(self) -> int:
        """How many records need nothing more."""


class DisplayModel:
    """Everything that a view may show. ``source`` names the cluster in words."""

    def __init__(self, source: str, steps_in_all: int, view: "View") -> None:
        self.source = source
        self.steps_in_all = steps_in_all
        self.view = view
        self.groups: tuple[ShownGroup, ...] = ()
        self.tables: Callable[[], Sequence[RenderableType]] = tuple
        """Draws the groups."""
        self.step_number = 0
        self.step = Step("", "")
        self.lines: deque[LogLine] = deque(maxlen=_LINES_KEPT)
        self.produced: Callable[[], int] = int
        self.changes = ChangeSignal()
        self._began_ns = time.monotonic_ns()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return (time.monotonic_ns() - self._began_ns) / _NS_PER_S

    def begin(self, step: Step) -> None:
        """Go to the next step and tell the view."""
        self.step = step
        self.step_number += 1
        self.view.step_began(self)

    def log(self, text: str) -> None:
        """Add a line and show it, with control characters escaped: it may quote a client or a broker."""
        line = LogLine(self.elapsed_s, printable(text))
        self.lines.append(line)
        self.view.line_added(line)


class View(Protocol):
    """Shows a display model."""

    def showing(self, display: DisplayModel) -> AbstractContextManager[None]:
        """Show the model until the context exits."""
        ...

    def step_began(self, display: DisplayModel) -> None:
        """Called when a step begins."""
        ...

    def settled(self, display: DisplayModel) -> None:
        """Called when a step is over."""
        ...

    def line_added(self, line: LogLine) -> None:
        """Called for each new log line."""
        ...

    def refresh(self, display: DisplayModel) -> None:
        """Called several times a second to redraw."""
        ...
