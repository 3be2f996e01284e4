"""The metrics in Prometheus' text format, made while clients are served."""

from collections.abc import Iterator

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.metrics.registry import Metrics
from proxy.runtime.time_slice import Turns


class _One(Collector):
    """A registry with one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


async def exposed(metrics: Metrics) -> bytes:
    """All metrics of the process. Groups are counted, and metrics written, one by one while others go on."""
    turns, parts = Turns(), list[bytes]()
    groups = () if metrics.groups is None else await metrics.groups.collect_in_turns()
    for registry in (metrics.without_groups.collect(), groups):
        for metric in registry:
            parts.append(generate_latest(_One(metric)))
            await turns.end_portion()
    return b"".join(parts)
