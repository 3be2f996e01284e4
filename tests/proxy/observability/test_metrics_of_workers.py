"""What several workers see of one group is one group in /metrics."""

from prometheus_client.parser import text_string_to_metric_families

from proxy.metrics.registry import Metrics
from proxy.observability.group_metrics import GroupCollector, GroupLabels, counts_of_record, counts_of_view
from proxy.observability.group_registry import GroupRegistry
from proxy.observability.group_views import view_of
from proxy.observability.metrics_aggregation import MetricsAggregator, dump_metrics
from proxy.observability.snapshot import BrokerView, Snapshot, merge
from tests.proxy.observability.events import MICRO, life
from translation.policy.policy import Policy

BROKER = BrokerView(
    asked_at=1.0,
    type="consumer",
    state="Stable",
    classic=1,
    consumer=3,
    epoch=3,
    members=("m-1", "m-2", "m-3", "x"),
    error="",
)


def a_worker(*members: str) -> tuple[Metrics, Snapshot]:
    metrics, registry = Metrics(), GroupRegistry(Policy())
    for member in members:
        for event in life(member):
            registry.record(event, MICRO)
    registry.set_broker_view("g", BROKER)
    metrics.provide_groups(
        GroupCollector(
            GroupLabels(10), lambda: [counts_of_record(group, MICRO) for group in registry.groups.values()]
        )
    )
    metrics.events.labels("joined").inc(len(members))
    snapshot = Snapshot(
        time=1.0,
        replicas=("h",),
        version="1",
        ready=True,
        not_ready_reason=None,
        policy_version=1,
        policy_is_current=True,
        groups=(view_of(registry.groups["g"], MICRO),),
    )
    return metrics, snapshot


def test_gauges_of_a_group_are_made_of_the_merged_picture_and_counters_add_up():
    workers = [a_worker("m-1", "m-2"), a_worker("m-3")]
    own = Metrics()
    own.policy_version.set(4)
    own.policy_is_current.set(0)
    merged = merge([snapshot for _, snapshot in workers])
    own.provide_groups(GroupCollector(GroupLabels(10), lambda: map(counts_of_view, merged.groups)))
    aggregator = MetricsAggregator(own.registry)
    for number, (metrics, _) in enumerate(workers):
        aggregator.update(number, dump_metrics(metrics.registry))
    values = {
        (sample.name.removeprefix("epochgate_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(aggregator.expose().decode())
        for sample in family.samples
    }
    assert values["group_broker_members", "g", "consumer"] == 3
    assert values["group_progress_ratio", "g"] == 0.75
    assert values["group_members_elsewhere", "g"] == 1
    assert values["group_members", "g", "translated"] == 3
    assert values["groups", "observe", "translated", "Stable"] == 1
    assert values["events_total", "joined"] == 3
    assert values["policy_version",] == 4
    assert values["policy_is_current",] == 0
