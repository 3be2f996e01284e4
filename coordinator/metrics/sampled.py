"""Rates, maxima and means over Kafka's windows: two samples of 30 seconds.

Times are milliseconds that the caller gives. A sample takes what happens for 30 seconds and is forgotten when its last
event is 60 seconds old, so a value covers between 30 and 60 seconds, as in Kafka.
"""

import math

WINDOW_MS = 30_000  # Kafka's metrics.sample.window.ms
SAMPLES = 2  # metrics.num.samples
_EXPIRY_MS = SAMPLES * WINDOW_MS


class _Sample:
    """What was recorded in one window."""

    __slots__ = ("events", "largest", "last_event_ms", "start_ms", "total")

    def __init__(self, now_ms: float) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: float) -> None:
        self.start_ms = self.last_event_ms = now_ms
        self.events = 0
        self.total = 0.0
        self.largest = -math.inf


class Samples:
    """The last samples. Their number is bounded, whatever is recorded."""

    def __init__(self) -> None:
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: float) -> None:
        """Add a value to the current sample, which is the next one after each window."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        if now_ms - self._samples[self._current].start_ms >= WINDOW_MS:
            self._advance(now_ms)
        sample = self._samples[self._current]
        sample.total += value
        sample.largest = max(sample.largest, value)
        sample.events += 1
        sample.last_event_ms = now_ms

    def rate(self, now_ms: float) -> float:
        """Return the sum per millisecond since the oldest sample began, at least over one window."""
        self._forget(now_ms)
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        if elapsed_ms < WINDOW_MS:
            elapsed_ms += (SAMPLES - 1) * WINDOW_MS
        return sum(sample.total for sample in self._samples) / elapsed_ms

    def maximum(self, now_ms: float) -> float:
        """Return the largest value; not a number if there is none."""
        self._forget(now_ms)
        largest = [sample.largest for sample in self._samples if sample.events]
        return max(largest, default=math.nan)

    def mean(self, now_ms: float) -> float:
        """Return the mean of the values; not a number if there is none."""
        self._forget(now_ms)
        events = sum(sample.events for sample in self._samples)
        return sum(sample.total for sample in self._samples) / events if events else math.nan

    def _advance(self, now_ms: float) -> None:
        self._current = (self._current + 1) % (SAMPLES + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)

    def _forget(self, now_ms: float) -> None:
        for sample in self._samples:
            if now_ms - sample.last_event_ms >= _EXPIRY_MS:
                sample.reset(now_ms)


class Meter:
    """A count since the start, and its rate."""

    def __init__(self) -> None:
        self.count = 0
        self._samples = Samples()

    def record(self, count: int, now_ms: float) -> None:
        """Add to the count."""
        self.count += count
        self._samples.record(count, now_ms)

    def per_second(self, now_ms: float) -> float:
        """Return the rate of the last windows."""
        return self._samples.rate(now_ms) * 1000
