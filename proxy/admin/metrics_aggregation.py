"""Aggregates the metrics of several worker processes: counters are summed, also of workers that have ended, gauges
are summed or take the lowest or highest.

The counts of a worker that exited stay in the sums, as of its last dump, so that counters never decrease. Gauges cover
running workers only.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.metrics.dump import Labels, MetricDump, dump_metrics
from proxy.metrics.group_families import FAMILIES, PREFIX

_LOWEST = frozenset(
    {
        f"{PREFIX}config_is_current",
        f"{PREFIX}fleet_expires",
        f"{PREFIX}ready",
        f"{PREFIX}policy_is_current",
        f"{PREFIX}tls_certificate_expiry_timestamp_seconds",
        f"{PREFIX}tls_crl_expiry_timestamp_seconds",
        f"{PREFIX}tls_is_current",
        "process_start_time_seconds",
    }
)
_HIGHEST = frozenset(
    {
        f"{PREFIX}build_info",
        f"{PREFIX}fleet_log_away",
        f"{PREFIX}fleet_log_refused",
        f"{PREFIX}fleet_members",
        f"{PREFIX}fleet_newest_record_age_seconds",
        f"{PREFIX}fleet_oldest_unresolved_seconds",
        f"{PREFIX}fleet_replay_seconds",
        f"{PREFIX}fleet_replicas",
        f"{PREFIX}fleet_topic_settings_wrong",
        f"{PREFIX}group_gates",
        f"{PREFIX}group_moves",
        f"{PREFIX}known_nodes",
        f"{PREFIX}preflight_asked_timestamp_seconds",
        f"{PREFIX}preflight_checks",
        f"{PREFIX}proof_behind_seconds",
        f"{PREFIX}proof_compared_rebalances",
        f"{PREFIX}proof_rebalances",
        f"{PREFIX}proof_rebalances_stopped_seconds",
        f"{PREFIX}policy_version",
        f"{PREFIX}unreachable_nodes",
        f"{PREFIX}wave_groups",
        "python_info",
    }
)
_SUPERVISOR_ONLY = frozenset(
    {
        f"{PREFIX}config_is_current",
        f"{PREFIX}policy_version",
        f"{PREFIX}policy_is_current",
        f"{PREFIX}preflight_asked_timestamp_seconds",
        f"{PREFIX}preflight_checks",
    }
)
"""Only the supervisor reads the configuration and policy files, and makes preflights."""
_GROUPS = frozenset(PREFIX + family.name for family in FAMILIES)
"""The supervisor computes these from the merged snapshot, because two workers may each serve part of a group."""
_CUMULATIVE = frozenset({"counter", "histogram", "summary"})

Values = dict[tuple[str, Labels], float]
"""Name of a series and its labels -> its value."""


class MetricsAggregator(Collector):
    """Aggregates over workers. ``own`` are the supervisor's own metrics, which are added to sums only."""

    def __init__(self, own: CollectorRegistry) -> None:
        self._own = own
        self._live: dict[int, list[MetricDump]] = {}
        self._retained: dict[str, tuple[MetricDump, Values]] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def update(self, worker: int, dumps: list[MetricDump]) -> None:
        """Replace the metrics of a worker by a new dump."""
        self._live[worker] = dumps

    def worker_exited(self, worker: int) -> None:
        """Keep the counts of a worker that exited, and drop its gauges."""
        for family in self._live.pop(worker, ()):
            if family.kind in _CUMULATIVE:
                _, values = self._retained.setdefault(family.name, (family, {}))
                _add(values, family)

    def expose(self) -> bytes:
        """Return the aggregated metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """See :class:`prometheus_client.registry.Collector`."""
        sums = {name: (family, dict(values)) for name, (family, values) in self._retained.items()}
        for family in self._live_families():
            _, values = sums.setdefault(family.name, (family, {}))
            _add(values, family)
        for name, (family, values) in sorted(sums.items()):
            metric = Metric(name, family.meaning, family.kind)
            for (series, labels), value in values.items():
                metric.add_sample(series, dict(labels), value)
            yield metric

    def _live_families(self) -> Iterator[MetricDump]:
        for dumps in self._live.values():
            yield from (one for one in dumps if one.name not in _GROUPS)
        not_own = (_LOWEST | _HIGHEST) - _SUPERVISOR_ONLY
        yield from (one for one in dump_metrics(self._own) if one.name not in not_own)


def _add(sums: Values, family: MetricDump) -> None:
    for name, labels, value in family.samples:
        key = name, labels
        before = sums.get(key)
        if before is None:
            sums[key] = value
        elif family.name in _LOWEST:
            sums[key] = min(before, value)
        elif family.name in _HIGHEST:
            sums[key] = max(before, value)
        else:
            sums[key] = before + value
