"""Finds HAProxy, for tests and benchmarks that run it beside Epochgate or in front of it."""

import shutil


def program() -> str | None:
    """Return its path, if it is installed."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
