"""The metrics of several processes as one: counters add up and never go back, gauges are put together by meaning.

What a worker that died had counted stays in the sums, as it was when it was last asked. Gauges are of the living
only.
"""

from collections.abc import Iterator

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.metrics.group_families import FAMILIES, PREFIX

_LOWEST = frozenset(
    {
        f"{PREFIX}ready",
        f"{PREFIX}policy_is_current",
        f"{PREFIX}tls_certificate_expiry_timestamp_seconds",
        f"{PREFIX}tls_is_current",
        "process_start_time_seconds",
    }
)
_HIGHEST = frozenset(
    {
        f"{PREFIX}build_info",
        f"{PREFIX}known_nodes",
        f"{PREFIX}policy_version",
        f"{PREFIX}unreachable_nodes",
        "python_info",
    }
)
_OF_THE_SUPERVISOR = frozenset({f"{PREFIX}policy_version", f"{PREFIX}policy_is_current"})
"""Known where the policy file is read."""
_GROUPS = frozenset(PREFIX + family.name for family in FAMILIES)
"""Made by the supervisor of the merged picture: two workers may each have a part of a group, and know of the whole."""
_ADDED_UP_FOR_EVER = frozenset({"counter", "histogram", "summary"})

Labels = tuple[tuple[str, str], ...]
Values = dict[tuple[str, Labels], float]
"""Name of a series and its labels -> its value."""


class Family(msgspec.Struct):
    """One metric with all its series."""

    name: str
    kind: str
    meaning: str
    samples: list[tuple[str, Labels, float]]


def families(registry: CollectorRegistry) -> list[Family]:
    """Everything in a registry, as one process tells it to another."""
    return [
        Family(
            metric.name,
            metric.type,
            metric.documentation,
            [(sample.name, tuple(sample.labels.items()), sample.value) for sample in metric.samples],
        )
        for metric in registry.collect()
    ]


class Totals(Collector):
    """The sums over processes. ``own`` are the supervisor's own metrics, which take part in sums only."""

    def __init__(self, own: CollectorRegistry) -> None:
        self._own = own
        self._living: dict[int, list[Family]] = {}
        self._dead: dict[str, tuple[Family, Values]] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def heard(self, worker: int, told: list[Family]) -> None:
        """What a worker told of itself just now."""
        self._living[worker] = told

    def died(self, worker: int) -> None:
        """The worker is gone: what it had counted is kept."""
        for family in self._living.pop(worker, ()):
            if family.kind in _ADDED_UP_FOR_EVER:
                _, values = self._dead.setdefault(family.name, (family, {}))
                _add(values, family)

    def expose(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """See :class:`prometheus_client.registry.Collector`."""
        sums = {name: (family, dict(values)) for name, (family, values) in self._dead.items()}
        for family in self._told():
            _, values = sums.setdefault(family.name, (family, {}))
            _add(values, family)
        for name, (family, values) in sorted(sums.items()):
            metric = Metric(name, family.meaning, family.kind)
            for (series, labels), value in values.items():
                metric.add_sample(series, dict(labels), value)
            yield metric

    def _told(self) -> Iterator[Family]:
        for told in self._living.values():
            yield from (one for one in told if one.name not in _GROUPS)
        not_own = (_LOWEST | _HIGHEST) - _OF_THE_SUPERVISOR
        yield from (one for one in families(self._own) if one.name not in not_own)


def _add(sums: Values, family: Family) -> None:
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
