"""Keeps clients from filling the log: each kind of line may be written so many times a second."""

import time
from collections.abc import Callable, MutableMapping
from typing import Any

import msgspec
import structlog

_AT_ONCE = 10
"""How many seconds' worth of lines may come in one moment."""

_KINDS = 500
"""Kinds are words of this code, so there are few; nothing may make them many."""


class _Kind(msgspec.Struct):
    allowed: float
    since: float
    left_out: int = 0


class LogThrottle:
    """A processor for structlog that drops lines beyond ``lines_per_s`` of one kind, which is the line's event.

    What was dropped is counted and said in the next line of that kind, as ``left_out_before``. ``clock`` gives seconds.
    """

    def __init__(self, lines_per_s: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.on_left_out: Callable[[], None] = lambda: None
        """Called for each line that is dropped."""
        self._per_s = lines_per_s
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    def __call__(
        self, _logger: Any, _method: str, line: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Let a line pass.

        :raises structlog.DropEvent: there were too many of its kind.
        """
        kind = self._kind(str(line.get("event", "")))
        if kind.allowed < 1:
            kind.left_out += 1
            self.on_left_out()
            raise structlog.DropEvent
        kind.allowed -= 1
        if kind.left_out:
            line["left_out_before"] = kind.left_out
            kind.left_out = 0
        return line

    def left_out(self) -> dict[str, int]:
        """The lines that were left out and not said yet, by kind; they count as said now."""
        found = {name: kind.left_out for name, kind in self._kinds.items() if kind.left_out}
        for name in found:
            self._kinds[name].left_out = 0
        return found

    def _kind(self, name: str) -> _Kind:
        now, most = self._clock(), float(self._per_s * _AT_ONCE)
        if name not in self._kinds and len(self._kinds) >= _KINDS:
            name = ""
        kind = self._kinds.setdefault(name, _Kind(most, now))
        kind.allowed = min(most, kind.allowed + (now - kind.since) * self._per_s)
        kind.since = now
        return kind
