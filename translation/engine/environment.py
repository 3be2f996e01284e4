"""What every part of the engine works with during one call: its time, and the actions that it returns."""

import math
from typing import Protocol

from translation.actions import Action
from translation.engine.timers import Timed, Timers
from translation.settings import TranslatorSettings


class Booked(Timed, Protocol):
    """Something with deadlines of its own (:class:`~translation.engine.member.Member`)."""

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
