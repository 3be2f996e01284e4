"""What is going on, for whoever shows it: the step, the groups, and the latest happenings."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from protocol_codecs.printable import printable
from proxy.demo.group import DemoGroup
from proxy.demo.members import MemberBoard
from proxy.demo.wait import Changes

_LINES_KEPT = 50
_NS_PER_S = 1e9


class Step(msgspec.Struct, frozen=True):
    """A part of the story: what is done, and what to look at, in words for a newcomer."""

    heading: str
    explanation: str


class Line(msgspec.Struct, frozen=True):
    """Something that happened, ``at_s`` seconds after the beginning."""

    at_s: float
    text: str


class Stage:
    """Everything that a view may show. ``source`` says in words which brokers these are."""

    def __init__(self, source: str, steps_in_all: int, view: "View") -> None:
        self.source = source
        self.steps_in_all = steps_in_all
        self.view = view
        self.groups: tuple[DemoGroup, ...] = ()
        self.boards: dict[str, MemberBoard] = {}
        """What the translation says, by group id; nothing for a group that is not translated."""
        self.step_number = 0
        self.step = Step("", "")
        self.lines: deque[Line] = deque(maxlen=_LINES_KEPT)
        self.produced: Callable[[], int] = int
        self.changes = Changes()
        self._began_ns = time.monotonic_ns()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return (time.monotonic_ns() - self._began_ns) / _NS_PER_S

    def begin(self, step: Step) -> None:
        """The next step begins."""
        self.step = step
        self.step_number += 1
        self.view.step_began(self)

    def say(self, text: str) -> None:
        """Tell those who watch what has happened. What a client or a broker said in it can't command the terminal."""
        line = Line(self.elapsed_s, printable(text))
        self.lines.append(line)
        self.view.said(line)


class View(Protocol):
    """Shows the stage."""

    def showing(self, stage: Stage) -> AbstractContextManager[None]:
        """Show this stage until the context is left."""
        ...

    def step_began(self, stage: Stage) -> None:
        """Another step has begun."""
        ...

    def settled(self, stage: Stage) -> None:
        """The step has had its effect: both groups are at rest."""
        ...

    def said(self, line: Line) -> None:
        """Something happened."""
        ...

    def refresh(self, stage: Stage) -> None:
        """Called several times a second."""
        ...
