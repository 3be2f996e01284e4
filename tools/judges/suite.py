"""What a suite of tests has to offer to be run here."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

INITIAL_REBALANCE_DELAY = "group.initial.rebalance.delay.ms"
MIN_SESSION_TIMEOUT = "group.min.session.timeout.ms"


class Outcome(StrEnum):
    """What became of one test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Result(msgspec.Struct, frozen=True):
    """One run of one test; ``reason`` is the suite's own word for a failure, in one line.

    The test's name is that of its job, or begins with it and a slash.
    """

    test: str
    outcome: Outcome
    seconds: float
    reason: str = ""


class Suite(Protocol):
    """The tests of a client library that touch consumer groups."""

    @property
    def name(self) -> str:
        """The library."""

    @property
    def version(self) -> str:
        """The package that the tests are from, and its version."""

    @property
    def broker(self) -> Mapping[str, str]:
        """The broker's settings that the tests need, besides Kafka's defaults."""

    @property
    def own_brokers(self) -> str:
        """The version of Kafka whose brokers the tests start themselves, or nothing if they take one that runs."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics, with one partition, that have to exist before the tests."""

    @property
    def has_consumer_protocol(self) -> bool:
        """Whether the same tests can run with the library's own client of the new protocol."""

    @property
    def is_alone(self) -> bool:
        """Whether only one job may run at once, as all use the same topics."""

    def prepare(self) -> None:
        """Fetch and build what is not built yet.

        :raises UnavailableError: it cannot be fetched or built.
        """

    def jobs(self) -> tuple[str, ...]:
        """Return the names of what runs in a process by itself: a test, or several."""

    def run(self, job: str, bootstrap: str, protocol: str, folder: Path) -> list[Result]:
        """Run a job, in this folder, with ``group.protocol`` set to this one, and return what became of its tests.

        With own brokers, ``bootstrap`` is the entry's name (tools/judges/comparison.py).
        """


ROOT = Path(__file__).resolve().parents[2]
_LONGEST_LINE = 200


def one_line(text: str) -> str:
    """Return a failure in one line that can be recorded: not too long, and with no path of this machine's checkout."""
    return " ".join(text.replace(f"{ROOT}/", "").split())[:_LONGEST_LINE]


class UnavailableError(Exception):
    """The suite cannot be run; the message says what is missing."""


BUILD_TIMEOUT_S = 900


def build(command: Sequence[str | Path], folder: Path, **environment: str) -> None:
    """Run a step of a build in this folder, and end it with all that it started after BUILD_TIMEOUT_S.

    :raises UnavailableError: it fails or takes longer, or there is no such program.
    """
    shown = " ".join(map(str, command))
    try:
        step = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise UnavailableError(f"there is no {command[0]}") from error
    try:
        out, err = step.communicate(timeout=BUILD_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        os.killpg(step.pid, signal.SIGKILL)
        step.communicate()
        raise UnavailableError(f"{shown} took longer than {BUILD_TIMEOUT_S} s") from error
    if step.returncode:
        raise UnavailableError(f"{shown} failed: {(err.strip() or out.strip())[-500:]}")


def output(command: Sequence[str | Path], folder: Path, timeout_s: float, **environment: str) -> str:
    """Return what a program printed, which runs in this folder and is ended after the timeout."""
    printed = folder / "output.txt"
    with printed.open("wb") as file, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            check=False,
            stdout=file,
            stderr=file,
            timeout=timeout_s,
        )
    return printed.read_text(errors="replace")
