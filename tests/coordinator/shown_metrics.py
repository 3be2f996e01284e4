"""What the embedded coordinator's metrics say, as plain values: by name, or by name and label value."""

from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import Metric

from coordinator.metrics.families import PREFIX, PartitionState, families
from coordinator.metrics.sensors import Sensors
from coordinator.shard import Shard

Shown = dict[str | tuple[str, str], float]


def shown(metrics: Iterable[Metric]) -> Shown:
    """The samples without the prefix of their names."""
    values: Shown = {}
    for metric in metrics:
        for sample in metric.samples:
            name = sample.name.removeprefix(PREFIX)
            key = (name, *sample.labels.values()) if sample.labels else name
            assert key not in values
            values[key] = sample.value
    return values


def shown_of(shards: Sequence[Shard], now_ms: float) -> Shown:
    """The metrics of coordinators that nobody has taken counts of yet."""
    sensors = Sensors(now_ms)
    for shard in shards:
        sensors.take(shard.activity, now_ms)
    return shown(families(shards, {PartitionState.ACTIVE: len(shards)}, sensors, now_ms))
