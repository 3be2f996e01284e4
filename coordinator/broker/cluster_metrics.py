"""Collects the metrics of an embedded cluster: of all its nodes together, which are one process and one target."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from coordinator.broker.clock import Clock
from coordinator.broker.cluster import EmbeddedCluster
from coordinator.metrics.families import PartitionState, families


class ClusterMetrics(Collector):
    """Reads the coordinators whenever it is asked, so the numbers are those of that moment."""

    def __init__(self, cluster: EmbeddedCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        hosts = self._cluster.shards
        partitions = Counter(
            PartitionState.LOADING if host.is_loading else PartitionState.ACTIVE for host in hosts
        )
        shards = [host.coordinator.shard for host in hosts]
        yield from families(shards, partitions, self._cluster.sensors, self._clock.elapsed_ms())

    def render(self) -> bytes:
        """Return them in Prometheus' text format."""
        return generate_latest(self._registry)
