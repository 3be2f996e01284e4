"""Metrics of the hot path: plain numbers in the one thread that there is, exposed as prometheus-client's own are.

prometheus-client takes a lock and checks its labels at each increment, a microsecond or more. A relayed request counts
in eight places, and on a busy machine, with cold caches, that is a good part of what a request costs. Here a count
is one addition. Whatever is not counted for each request stays with the library.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
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


def _text(bound: float) -> str:
    text: str = floatToGoString(bound)  # type: ignore[no-untyped-call]  # the library's own form of a bucket's bound
    return text


class Tally:
    """How often; ``value`` is added to directly."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Sum:
    """How often and how much in all; both are added to directly."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0


class Spread:
    """How much each time: a histogram with these upper bounds."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Once more, so much."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class _Family(Collector, Generic[T]):
    """One metric: its children by the values of its labels."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = tuple(labels)
        self._children: dict[tuple[str, ...], T] = {}
        registry.register(self)

    def _make(self) -> T:
        raise NotImplementedError

    def labels(self, *values: str) -> T:
        """The child for these values, made on first use."""
        child = self._children.get(values)
        if child is None:
            if len(values) != len(self._labels):
                raise ValueError(f"{self._name} has labels {self._labels}, got {values}")
            child = self._children[values] = self._make()
        return child


class Tallies(_Family[Tally]):
    """A counter with labels."""

    def _make(self) -> Tally:
        return Tally()

    def collect(self) -> Iterator[Metric]:
        """See :class:`prometheus_client.registry.Collector`."""
        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for values, child in self._children.items():
            family.add_metric(values, child.value)
        yield family


class Sums(_Family[Sum]):
    """A summary with labels."""

    def _make(self) -> Sum:
        return Sum()

    def collect(self) -> Iterator[Metric]:
        """See :class:`prometheus_client.registry.Collector`."""
        family = SummaryMetricFamily(self._name, self._meaning, labels=self._labels)
        for values, child in self._children.items():
            family.add_metric(values, child.count, child.total)
        yield family


class Spreads(_Family[Spread]):
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
        self._names = [_text(bound) for bound in (*bounds, float("inf"))]
        super().__init__(name, meaning, labels, registry)

    def _make(self) -> Spread:
        return Spread(self._bounds)

    def collect(self) -> Iterator[Metric]:
        """See :class:`prometheus_client.registry.Collector`."""
        family = HistogramMetricFamily(self._name, self._meaning, labels=self._labels)
        for values, child in self._children.items():
            below = 0
            buckets: list[tuple[str, float]] = []
            for name, count in zip(self._names, child.counts, strict=True):
                below += count
                buckets.append((name, below))
            family.add_metric(values, buckets, child.total)
        yield family
