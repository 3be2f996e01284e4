"""Limits how many log lines of one kind are written (``log.lines_per_s``), so that clients can't fill the log."""

from collections.abc import Callable, MutableMapping
from typing import Any

import msgspec
import structlog
import trio

_MAX_KINDS = 500
"""A kind is normally a constant of this code. Beyond this number all further kinds share one bucket."""


class _Bucket(msgspec.Struct):
    tokens: float
    refilled_at: float
    suppressed: int = 0


class LogThrottle:
    """A token bucket for each kind of line: ``lines_per_s`` on average, up to ``burst`` at once.

    ``clock`` returns seconds.
    """

    def __init__(
        self, lines_per_s: float = 1, burst: int = 1, clock: Callable[[], float] = trio.current_time
    ) -> None:
        self._lines_per_s = lines_per_s
        self._burst = float(burst)
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def suppressed(self, kind: str) -> int | None:
        """Take a token for one line of this kind.

        Returns None if there is no token: the caller must not log the line. Otherwise returns how many lines of this
        kind were suppressed since the last one that was logged.
        """
        bucket = self._bucket(kind)
        if bucket.tokens < 1:
            bucket.suppressed += 1
            return None
        bucket.tokens -= 1
        suppressed, bucket.suppressed = bucket.suppressed, 0
        return suppressed

    def take_suppressed(self) -> dict[str, int]:
        """Return the suppressed lines that no later line has reported yet, by kind, and reset their counts."""
        found = {kind: bucket.suppressed for kind, bucket in self._buckets.items() if bucket.suppressed}
        for kind in found:
            self._buckets[kind].suppressed = 0
        return found

    def _bucket(self, kind: str) -> _Bucket:
        now = self._clock()
        if kind not in self._buckets and len(self._buckets) >= _MAX_KINDS:
            kind = ""
        bucket = self._buckets.setdefault(kind, _Bucket(self._burst, now))
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.refilled_at) * self._lines_per_s)
        bucket.refilled_at = now
        return bucket


class ThrottleProcessor:
    """A structlog processor that drops lines beyond a throttle's limit. The kind of a line is its ``event``.

    The next line of a kind that passes reports the dropped ones in its field ``suppressed``.
    """

    def __init__(self, throttle: LogThrottle) -> None:
        self.throttle = throttle
        self.on_suppressed: Callable[[], None] = lambda: None
        """Called for each line that is dropped."""

    def __call__(
        self, _logger: Any, _method: str, line: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Pass a line on.

        :raises structlog.DropEvent: the throttle has no token for it.
        """
        suppressed = self.throttle.suppressed(str(line.get("event", "")))
        if suppressed is None:
            self.on_suppressed()
            raise structlog.DropEvent
        if suppressed:
            line["suppressed"] = suppressed
        return line
