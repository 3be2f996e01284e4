"""What every part works with during one call: its time, the actions that it returns, and deadlines without a clock."""

import heapq
import math
from typing import Protocol

from translation.actions import Action
from translation.settings import TranslatorSettings


class Timed(Protocol):
    """Something that wants to be called at a time.

    ``timer_at`` belongs to :class:`Timers`; it is the earliest call that is booked (``math.inf`` for none).
    """

    timer_at: float

    def on_time(self, now: float) -> None:
        """The booked time has come. Book again by :meth:`Timers.book` if something is still due later."""


class Timers:
    """A heap of bookings that are only ever moved forward.

    A deadline that moves back (a session that is renewed by each heartbeat, ten thousand times a second) costs
    nothing here: the early call finds nothing due and books again.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timed]] = []
        self._sequence = 0
        self.next_due = math.inf
        """When :meth:`run` has something to do; ``math.inf`` if never."""

    def book(self, timed: Timed, when: float) -> None:
        """See that ``timed.on_time`` is called at ``when`` (seconds) or earlier."""
        if when < timed.timer_at:
            timed.timer_at = when
            self._sequence += 1
            heapq.heappush(self._heap, (when, self._sequence, timed))
            self.next_due = self._heap[0][0]

    def run(self, now: float) -> None:
        """Call everything that is due at ``now``."""
        while self.next_due <= now:
            when, _, timed = heapq.heappop(self._heap)
            self.next_due = self._heap[0][0] if self._heap else math.inf
            if timed.timer_at == when:  # else an earlier booking replaced this one and was called already
                timed.timer_at = math.inf
                timed.on_time(now)


class Booked(Timed, Protocol):
    """Something with deadlines of its own (:class:`~translation.members.member.Member`)."""

    def next_due(self) -> float:
        """The earliest deadline that runs (seconds, ``math.inf`` for none)."""


class Environment:
    """The time of the present call, the actions that it returns, the timers, and the settings."""

    def __init__(self, settings: TranslatorSettings) -> None:
        self.settings = settings
        self.now = -math.inf
        """The time that the caller gave (seconds)."""
        self.actions: list[Action] = []
        """What the present call returns to the shell, in order."""
        self.timers = Timers()

    def book(self, booked: Booked) -> None:
        """Book the earliest deadline of a member."""
        due = booked.next_due()
        if due < math.inf:
            self.timers.book(booked, due)

    def take_actions(self) -> list[Action]:
        """The actions of the present call, for the shell."""
        actions, self.actions = self.actions, []
        return actions
