"""What a suite of tests has to offer to be run here."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec


class Outcome(StrEnum):
    """What became of one test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Result(msgspec.Struct, frozen=True):
    """One run of one test; ``reason`` is the suite's own word for a failure, in one line."""

    test: str
    outcome: Outcome
    seconds: float
    reason: str = ""


class Suite(Protocol):
    """The tests of a client library that touch consumer groups."""

    name: str
    version: str
    broker: Mapping[str, str]
    """The broker's settings that the tests need, besides Kafka's defaults."""
    has_consumer_protocol: bool
    """Whether the same tests can run with the library's own client of the new protocol."""

    def prepare(self) -> None:
        """Fetch and build what is not built yet.

        :raises UnavailableError: it cannot be fetched or built.
        """

    def jobs(self) -> tuple[str, ...]:
        """Return the names of what runs in a process by itself: a test, or several."""

    def run(self, job: str, bootstrap: str, protocol: str, folder: Path) -> list[Result]:
        """Run a job, in this folder, with ``group.protocol`` set to this one, and return what became of its tests."""


class UnavailableError(Exception):
    """The suite cannot be run; the message says what is missing."""
