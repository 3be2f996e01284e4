"""Counters, summaries and histograms for the request path: plain numbers without locks, for one thread.

prometheus-client takes a lock and checks its labels at each increment, which costs a microsecond or more. A relayed
request is counted in eight places, so that would be a good part of its cost. Here a count is one addition.
Metrics that are not updated for each request use the library's own classes.
"""

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

T = TypeVar("T")


def _bucket_label(bound: float) -> str:
    text: str = floatToGoString(bound)  # type: ignore[no-untyped-call]  # the library's own form of a bucket's bound
    return text


class HotCounter:
    """One series of a counter. Callers add to ``value`` directly."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class HotSummary:
    """One series of a summary. Callers add to ``count`` and ``total`` directly."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0


class HotHistogram:
    """One series of a histogram with these upper bounds of buckets."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class _Family(Collector, Generic[T]):
    """One metric: its series by the values of its labels."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = tuple(labels)
        self._series: dict[tuple[str, ...], T] = {}
        registry.register(self)

    @abstractmethod
    def _make(self) -> T:
        """Return a new series."""

    def labels(self, *values: str) -> T:
        """Return the series for these values, made on first use.

        :raises ValueError: the number of values is not the number of labels.
        """
        series = self._series.get(values)
        if series is None:
            if len(values) != len(self._labels):
                raise ValueError(f"{self._name} has labels {self._labels}, got {values}")
            series = self._series[values] = self._make()
        return series


class HotCounters(_Family[HotCounter]):
    """A counter with labels. ``before_collect`` is called at each scrape; it may bring values up to date."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self.before_collect: Callable[[], None] = lambda: None
        super().__init__(name, meaning, labels, registry)

    def _make(self) -> HotCounter:
        return HotCounter()

    def collect(self) -> Iterator[Metric]:
        """See :class:`prometheus_client.registry.Collector`."""
        self.before_collect()
        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for values, series in self._series.items():
            family.add_metric(values, series.value)
        yield family


class HotSummaries(_Family[HotSummary]):
    """A summary with labels."""

    def _make(self) -> HotSummary:
        return HotSummary()

    def collect(self) -> Iterator[Metric]:
        """See :class:`prometheus_client.registry.Collector`."""
        family = SummaryMetricFamily(self._name, self._meaning, labels=self._labels)
        for values, series in self._series.items():
            family.add_metric(values, series.count, series.total)
        yield family


class HotHistograms(_Family[HotHistogram]):
    """A histogram with labels."""

    def __init__(
        self,
        name: str,
        meaning: str,
        labels: Sequence[str],
        registry: CollectorRegistry,
        bounds: Sequence[float],
    ) -> None:
        self._bounds = tuple(bounds)
        self._names = [_bucket_label(bound) for bound in (*bounds, float("inf"))]
        super().__init__(name, meaning, labels, registry)

    def _make(self) -> HotHistogram:
        return HotHistogram(self._bounds)

    def collect(self) -> Iterator[Metric]:
        """See :class:`prometheus_client.registry.Collector`."""
        family = HistogramMetricFamily(self._name, self._meaning, labels=self._labels)
        for values, series in self._series.items():
            below = 0
            buckets: list[tuple[str, float]] = []
            for name, count in zip(self._names, series.counts, strict=True):
                below += count
                buckets.append((name, below))
            family.add_metric(values, buckets, series.total)
        yield family
