"""Waiting for a condition with a deadline: the only way in which these tests let time pass."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    look: Callable[[], T],
    is_so: Callable[[T], bool] = bool,
    *,
    what: str,
    timeout_s: float = 60.0,
    between_s: float = 0.05,
) -> T:
    """Look again and again until `is_so`; the value that was so. Raises AssertionError with the last look."""
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look()
        if is_so(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s until {what}; last seen: {seen!r}")
        time.sleep(between_s)


def stays(look: Callable[[], T], is_so: Callable[[T], bool] = bool, *, what: str, for_s: float) -> None:
    """Look again and again for so long, and raise AssertionError with the first look that is not so."""
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        seen = look()
        if not is_so(seen):
            left = until - time.monotonic()
            raise AssertionError(
                f"it was no more so, {left:.1f} s before the end, that {what}; seen: {seen!r}"
            )
        time.sleep(0.25)
