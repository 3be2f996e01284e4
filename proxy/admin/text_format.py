"""Renders all metrics in Prometheus' text format, in time slices."""

from collections.abc import Iterator

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.metrics.registry import Metrics
from proxy.runtime.time_slice import TimeSlice


class _SingleMetric(Collector):
    """A registry that contains one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


async def render_metrics(metrics: Metrics) -> bytes:
    """Return all metrics of the process as text.

    It yields to other tasks after each group that it counts and each metric that it writes, when its slice is spent.
    """
    time_slice, parts = TimeSlice(), list[bytes]()
    groups = () if metrics.groups is None else await metrics.groups.collect_cooperatively()
    for registry in (metrics.without_groups.collect(), groups):
        for metric in registry:
            parts.append(generate_latest(_SingleMetric(metric)))
            await time_slice.yield_if_spent()
    return b"".join(parts)
