"""The metrics of one process in a form that can be sent to another."""

import msgspec
from prometheus_client import CollectorRegistry

Labels = tuple[tuple[str, str], ...]


class MetricDump(msgspec.Struct):
    """One metric of one process with all its series."""

    name: str
    kind: str
    meaning: str
    samples: list[tuple[str, Labels, float]]


def dump_metrics(registry: CollectorRegistry) -> list[MetricDump]:
    """Return all metrics of a registry."""
    return [
        MetricDump(
            metric.name,
            metric.type,
            metric.documentation,
            [(sample.name, tuple(sample.labels.items()), sample.value) for sample in metric.samples],
        )
        for metric in registry.collect()
    ]
