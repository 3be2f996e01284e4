"""The coordinators' metrics, by the names under which Prometheus' JMX exporter shows a Kafka broker's.

``kafka.server:type=group-coordinator-metrics,protocol=classic`` with the attribute ``group-count`` is
``kafka_server_group_coordinator_metrics_group_count{protocol="classic"}``, of no type, as without a rule of its own
there. So a query or dashboard for Kafka's coordinator works on this one. Every label value is one of a fixed set.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from prometheus_client.metrics_core import Metric, UnknownMetricFamily

from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.consumer_groups.group import ConsumerGroup, ConsumerGroupState
from coordinator.metrics.sensors import Sensors
from coordinator.shard import Group, Shard
from coordinator.share_groups.group import ShareGroup, ShareGroupState

PREFIX = "kafka_server_group_coordinator_metrics_"

GROUP_TYPES: Mapping[str, tuple[type[Group], type[StrEnum]]] = {
    "classic": (ClassicGroup, ClassicGroupState),
    "consumer": (ConsumerGroup, ConsumerGroupState),
    "share": (ShareGroup, ShareGroupState),
}
"""The types of groups by Kafka's names, with their states."""


class PartitionState(StrEnum):
    """The states of a coordinator, one of which Kafka has for each partition of ``__consumer_offsets``."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """Its log could not be loaded. Here the whole process ends then, so there is none."""


METERS = {
    "consumer_group_rebalances": ("consumer_group_rebalance", "consumer group rebalances"),
    "share_group_rebalances": ("share_group_rebalance", "share group rebalances"),
    "completed_rebalances": ("group_completed_rebalance", "completed rebalances of classic groups"),
    "offset_commits": ("offset_commit", "committed offsets"),
    "offset_expirations": ("offset_expiration", "expired offsets"),
    "offset_deletions": ("offset_deletion", "offsets deleted by OffsetDelete"),
}
"""Name and meaning of each meter by the name of its count."""

EXPERIMENTAL_PREFIX = "experimental_client_side_"
EXPERIMENTAL_COUNTS = {
    "client_side_installs": ("installs_total", "Assignments that members computed and that became targets"),
    "client_side_refusals": ("refusals_total", "Assignments that members computed and that are none"),
    "client_side_timeouts": ("timeouts_total", "Members that did not install an assignment in time"),
}
"""Name and meaning of what Kafka has no name for: client-side assignors, shown only where they are on."""


def families(
    shards: Sequence[Shard], partitions: Mapping[PartitionState, int], sensors: Sensors, now_ms: float
) -> Iterator[Metric]:
    """Yield all metrics of these coordinators. ``now_ms`` is the time of the clock that the sensors are given."""
    counts = Counter((type(group), group.state.value) for shard in shards for group in shard.groups.values())
    states_of = {
        name: {state.value: counts[kind, state.value] for state in states}
        for name, (kind, states) in GROUP_TYPES.items()
    }
    by_type = {name: sum(by_state.values()) for name, by_state in states_of.items()}
    yield _family("group_count", "Groups by the protocol that they use", "protocol", by_type)
    for name, by_state in states_of.items():
        yield _family(f"{name}_group_count", f"Groups of type {name} by state", "state", by_state)
    offsets = sum(1 for shard in shards for _ in shard.offsets.entries())
    yield _single(
        "offset_count", "Offsets that are stored, without those of transactions in progress", offsets
    )
    yield _family(
        "num_partitions",
        "Coordinators (partitions of __consumer_offsets in Kafka) by state",
        "state",
        {state.value: partitions.get(state, 0) for state in PartitionState},
    )
    if any(shard.config.experimental_client_assignors for shard in shards):
        for key, (name, meaning) in EXPERIMENTAL_COUNTS.items():
            yield UnknownMetricFamily(EXPERIMENTAL_PREFIX + name, meaning, sensors.meters[key].count)
    for key, (name, meaning) in METERS.items():
        meter = sensors.meters[key]
        yield _single(f"{name}_rate", f"The number of {meaning} per second", meter.per_second(now_ms))
        yield _single(f"{name}_count", f"The number of {meaning} since the start", meter.count)
    yield _single(
        "partition_load_time_max",
        "The longest time that a coordinator took to load its log, in milliseconds, of the last windows",
        sensors.load_times.maximum(now_ms),
    )
    yield _single(
        "partition_load_time_avg",
        "The average time that coordinators took to load their logs, in milliseconds, of the last windows",
        sensors.load_times.mean(now_ms),
    )
    yield _single(
        "thread_idle_ratio_avg",
        "The part of the time in which no coordinator worked (0 to 1)",
        sensors.idle_ratio(now_ms),
    )


def _family(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
    family = UnknownMetricFamily(PREFIX + name, meaning, labels=[label])
    for label_value, value in values.items():
        family.add_metric([label_value], value)
    return family


def _single(name: str, meaning: str, value: float) -> Metric:
    return UnknownMetricFamily(PREFIX + name, meaning, value)
