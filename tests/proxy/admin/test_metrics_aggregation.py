"""Metrics of several workers become one: groups are merged, counters are summed, gauges by their kind."""

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client import Counter as CounterMetric
from prometheus_client.parser import text_string_to_metric_families

from proxy.admin.metrics_aggregation import _HIGHEST, _LOWEST, MetricsAggregator
from proxy.groups.group_metrics import GroupCollector, GroupLabels, counts_of_record, counts_of_view
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.group_views import view_of
from proxy.groups.snapshot import BrokerView, Snapshot, merge
from proxy.metrics.dump import dump_metrics
from proxy.metrics.registry import Metrics
from tests.proxy.groups.events import MICRO, life
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
    assert values["group_members", "g", "translated"] == 3
    assert values["group_mode", "g", "observe"] == 1
    assert values["events_total", "joined"] == 3
    assert values["policy_version",] == 4
    assert values["policy_is_current",] == 0


def test_gauges_that_are_no_amounts_are_not_added_up():
    amounts = {
        "client_to_proxy_active_connections",
        "fleet_members_here",
        "fleet_unresolved_records",
        "identity_principals",
        "journal_queue_events",
        "large_group_calls_held_bytes",
        "lingering_upstream_connections",
        "proof_groups",
        "proof_waiting_events",
        "proxy_to_server_active_connections",
        "share_sessions_open",
        "tasks",
        "upstream_calls_in_flight",
        "workers",
    }
    metrics = Metrics()
    gauges = {family.name for family in metrics.without_groups.collect() if family.type == "gauge"}
    ours = {name for name in gauges if name.startswith("epochgate_")}
    assert ours - _LOWEST - _HIGHEST == {f"epochgate_{name}" for name in amounts}


def test_a_certificate_ends_when_it_ends_however_many_workers_show_it():
    aggregator = MetricsAggregator(Metrics().registry)
    for number, (current, ends) in enumerate([(1, 1_800_000_000), (0, 1_700_000_000)]):
        worker = Metrics()
        worker.tls_is_current.labels("upstream").set(current)
        worker.tls_expires.labels("upstream").set(ends)
        aggregator.update(number, dump_metrics(worker.registry))
    told = {sample.name: sample.value for family in aggregator.collect() for sample in family.samples}
    assert told["epochgate_tls_is_current"] == 0
    assert told["epochgate_tls_certificate_expiry_timestamp_seconds"] == 1_700_000_000


class OfAWorker:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = CounterMetric("epochgate_requests", "x", ["api"], registry=self.registry)
        self.took = Histogram("epochgate_took", "x", registry=self.registry, buckets=(1, 2))
        self.open = Gauge("epochgate_open", "x", registry=self.registry)
        self.ready = Gauge("epochgate_ready", "x", registry=self.registry)


def test_sums_never_go_back_when_a_worker_dies():
    aggregator = MetricsAggregator(Metrics().registry)
    workers = [OfAWorker(), OfAWorker()]

    def shown() -> dict[tuple[str, str], float]:
        return {
            (sample.name, ",".join(sample.labels.values())): sample.value
            for metric in aggregator.collect()
            for sample in metric.samples
        }

    def tell() -> None:
        for n, worker in enumerate(workers):
            aggregator.update(n, dump_metrics(worker.registry))

    for n, worker in enumerate(workers):
        worker.requests.labels("FETCH").inc(10 + n)
        worker.took.observe(1.5)
        worker.open.set(3)
        worker.ready.set(n)
    tell()
    before = shown()
    assert before["epochgate_requests_total", "FETCH"] == 21
    assert before["epochgate_took_bucket", "2.0"] == 2
    assert before["epochgate_took_count", ""] == 2
    assert before["epochgate_open", ""] == 6
    assert before["epochgate_ready", ""] == 0

    aggregator.worker_exited(1)
    after = shown()
    assert after["epochgate_requests_total", "FETCH"] == 21
    assert after["epochgate_took_sum", ""] == 3.0
    assert after["epochgate_open", ""] == 3

    workers[1] = OfAWorker()
    workers[1].requests.labels("FETCH").inc(1)
    tell()
    assert shown()["epochgate_requests_total", "FETCH"] == 22
    aggregator.worker_exited(1)
    aggregator.worker_exited(0)
    assert shown()["epochgate_requests_total", "FETCH"] == 22
    assert b'epochgate_requests_total{api="FETCH"} 22.0' in aggregator.expose()
