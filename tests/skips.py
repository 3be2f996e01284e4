"""The one place that skips a test: it lacks a program, a broker or a package, or its broker has no such feature.

What CI has installed must be there: `.ci/run` sets the variables of `Need`, and what is missing then fails the test.
"""

import os
import shutil
from enum import StrEnum
from typing import NoReturn

import pytest


class Need(StrEnum):
    """The variable that makes a missing thing a failure."""

    KAFKA = "EPOCHGATE_REQUIRE_KAFKA"
    """A broker, Java, what Maven fetches, client libraries and strace."""
    CHART = "EPOCHGATE_REQUIRE_CHART"
    """helm, what follows from the Dockerfile, HAProxy."""
    TOOLS = "EPOCHGATE_REQUIRE_TOOLS"
    """Chromium, Prometheus, podman, npm, a package index."""


def without(need: Need, why: object) -> NoReturn:
    """Skip a test that lacks something, or fail where the environment says that it must be there."""
    if os.environ.get(need):
        pytest.fail(f"{need} is set, but: {why}")
    pytest.skip(str(why))


def not_here(why: object) -> NoReturn:
    """Skip a test of what this broker, kernel or user can't have, or of what is built only on request."""
    pytest.skip(str(why))


def program(name: str, package: str) -> str:
    """Return the path of a program of Debian's, also in /usr/sbin; without it the test is skipped or fails."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if path is None:
        without(Need.TOOLS, f"no {name} here: install Debian's package `{package}`")
    return path
