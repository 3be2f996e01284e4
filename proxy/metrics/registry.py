"""Every metric of the process, declared here and nowhere else; docs/reference/metrics.md is generated from this file.

What every Kafka proxy counts has the names that kroxylicious gives it, after the prefix, so that dashboards
carry over: ``client_to_proxy``, ``proxy_to_server``, ``server_to_proxy`` and ``proxy_to_client`` are the four
ways.
"""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    Summary,
    disable_created_metrics,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.metrics.bounds import Bound
from proxy.metrics.counters import HotCounters, HotHistograms, HotSummaries
from proxy.metrics.group_families import FAMILIES, PREFIX
from translation.actions import MemberProtocol

_LATENCIES = (
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)
_PAUSES = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_ERROR_PLACES = ("translation", "connection", "observer", "upkeep", "worker")
_TRANSLATION = (0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.1)


disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter helps nobody


class Described(NamedTuple):
    """One line of the table of metrics."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def software_version() -> str:
    """The version of this software, as its package says."""
    try:
        return version("epochgate")
    except PackageNotFoundError:
        return "unknown"


class GroupSeries(Collector, Protocol):
    """Makes the metrics of groups (:data:`proxy.metrics.group_families.FAMILIES`) at each scrape."""

    async def collect_cooperatively(self) -> Sequence[Metric]:
        """The same as :meth:`collect`, with other tasks running in between."""


class Metrics:
    """The registry of one process and everything in it."""

    def __init__(self) -> None:
        self.without_groups = CollectorRegistry()
        self.table: list[Described] = []
        self._declare_connections()
        self._declare_requests()
        self._declare_translation()
        self._declare_journal()
        self._declare_process()
        self.groups: GroupSeries | None = None
        """What makes the metrics of groups; see :meth:`provide_groups`."""
        self.registry = CollectorRegistry(auto_describe=False)
        """Everything. Reading it with many groups takes long: see :func:`proxy.metrics.text_format.exposed`."""
        self.registry.register(self.without_groups)
        self.table += [Described(PREFIX + f.name, "gauge", f.labels, f.meaning) for f in FAMILIES]

    def provide_groups(self, groups: GroupSeries) -> None:
        """Take the metrics of groups from here at each scrape. Called once."""
        self.groups = groups
        self.registry.register(groups)

    def policy_in_force(self) -> tuple[int, bool]:
        """Which policy holds, counted from 1 on (0: none came from a file), and whether it is what the file says."""
        version, current = (_value(gauge) for gauge in (self.policy_version, self.policy_is_current))
        return int(version), bool(current)

    def hit(self, bound: Bound) -> None:
        """Something of a client was not kept or shown in full."""
        self.bounds_hit.labels(bound).inc()

    def _declare_connections(self) -> None:
        self.client_connections = self._counter(
            "client_to_proxy_connections",
            "Connections that clients made, by the node id of the port.",
            "node_id",
        )
        self.client_connections_active = self._gauge(
            "client_to_proxy_active_connections", "Connections of clients that are open.", "node_id"
        )
        self.client_disconnects = self._counter(
            "client_to_proxy_disconnects", "Connections of clients that ended, by what ended them.", "cause"
        )
        self.connections_refused = self._counter(
            "client_to_proxy_connections_refused",
            "Connections of clients that were closed as soon as they were accepted, by the limit that was reached.",
            "reason",
        )
        self.accept_failures = self._counter(
            "client_to_proxy_accept_failures",
            "Times that connections could not be accepted because descriptors or memory ran out; they wait, and it is "
            "tried again.",
        )
        self.client_errors = self._counter(
            "client_to_proxy_errors", "What clients sent that ended their connection.", "kind"
        )
        self.upstream_connections = self._counter(
            "proxy_to_server_connections", "Connections to brokers that were tried, by node id.", "node_id"
        )
        self.upstream_connections_active = self._gauge(
            "proxy_to_server_active_connections", "Connections to brokers that are open.", "node_id"
        )
        self.upstream_errors = self._counter(
            "proxy_to_server_errors",
            "Failed attempts to connect, and what brokers sent that ended a connection.",
            "kind",
        )
        self.client_reads_paused = self._summary(
            "client_to_proxy_reads_paused_seconds",
            "How long reading from a client paused because the broker was slower.",
        )
        self.upstream_reads_paused = self._summary(
            "server_to_proxy_reads_paused_seconds",
            "How long reading from a broker paused because the client was slower.",
        )
        self.lingering = self._gauge(
            "lingering_upstream_connections", "Upstream connections kept for members whose client is gone."
        )

    def _declare_requests(self) -> None:
        self.client_requests = self._hot_counter(
            "client_to_proxy_request",
            "Requests of clients; `decoded` are those that the translation looks at.",
            "api_key",
            "api_version",
            "decoded",
        )
        self.client_request_size = self._hot_summary(
            "client_to_proxy_request_size_bytes", "Size of the requests of clients.", "api_key"
        )
        self.upstream_requests = self._hot_counter(
            "proxy_to_server_request",
            "Requests sent to brokers; `injected` are those that the proxy added.",
            "api_key",
            "api_version",
            "injected",
        )
        self.upstream_responses = self._hot_counter(
            "server_to_proxy_response", "Responses of brokers.", "api_key", "api_version"
        )
        self.client_responses = self._hot_counter(
            "proxy_to_client_response", "Responses sent to clients.", "api_key", "api_version"
        )
        self.client_response_size = self._hot_summary(
            "proxy_to_client_response_size_bytes",
            "Size of the responses that brokers gave for clients.",
            "api_key",
        )
        self.request_duration = self._hot_histogram(
            "request_duration_seconds",
            "From a request's arrival to its response, for requests that the broker answers.",
            _LATENCIES,
            "api_key",
        )
        self.refused = self._counter(
            "refused_requests", "Requests in versions that were not offered.", "api_key"
        )
        self.large_group_calls = self._counter(
            "large_group_calls",
            "Group calls beyond a limit (`limits.group_call_max_bytes` and the keys after it), by what became of them: "
            "`relayed` undecoded, `refused`, `ended` their connection, `waited_for_broker`, `waited_for_room`.",
            "outcome",
        )
        for outcome in ("relayed", "refused", "ended", "waited_for_broker", "waited_for_room"):
            self.large_group_calls.labels(outcome)
        self.large_group_calls_held = self._gauge(
            "large_group_calls_held_bytes",
            "Room that is taken of `limits.group_calls_held_max_bytes`.",
        )
        self.hidden_nodes = self._counter(
            "hidden_nodes", "Times that a node was left out of a response because its id has no port here."
        )
        self.unreachable = self._gauge(
            "unreachable_nodes", "Nodes that can't be reached; their ports refuse clients meanwhile."
        )
        self.known_nodes = self._gauge("known_nodes", "Nodes of the cluster whose address is known.")

    def _declare_translation(self) -> None:
        self.state_changes = self._counter(
            "member_state_changes", "State changes of members, translated or not.", "previous_state", "state"
        )
        self.rebalances = self._counter(
            "rebalances",
            "Members that had to join again, by category of reason and by how they come (`translated`, `classic`, "
            "`consumer`).",
            "reason",
            "protocol",
        )
        self.group_rebalances = self._counter("group_rebalances", "The same by group.", "group", "protocol")
        self.paused = self._histogram(
            "member_paused_seconds",
            "How long a member had no partition because it had to give up all of them to join again.",
            _PAUSES,
            "protocol",
        )
        for protocol in MemberProtocol:
            self.paused.labels(protocol)
        self.adoptions = self._counter(
            "adoptions",
            "Members that were found at the broker, served by another process before.",
            "protocol",
        )
        self.passed_through = self._counter(
            "passed_through",
            "JoinGroups that passed through untranslated, by category of reason (`translation/reasons.py`).",
            "reason",
        )
        self.events = self._counter("events", "What happened to members and groups, by kind.", "kind")
        self.bounds_hit = self._counter(
            "bounds_hit",
            "Times that something of a client was not kept or shown in full, by the bound that was reached "
            "(docs/explanation/security.md).",
            "bound",
        )
        for bound in Bound:
            self.bounds_hit.labels(bound)
        self.translation = self._hot_histogram(
            "translation_seconds",
            "Time that the translation took for one thing that happened.",
            _TRANSLATION,
            "what",
        )
        self.answer_duration = self._hot_histogram(
            "answer_duration_seconds",
            "From a request's arrival to its answer, for requests that the translation answers.",
            _LATENCIES,
            "api_key",
        )
        self.answer_errors = self._counter(
            "answer_errors", "Errors that the translation answered to clients.", "api_key", "error_code"
        )
        self.call_duration = self._hot_histogram(
            "upstream_call_duration_seconds",
            "Calls that the proxy made to brokers, by API.",
            _LATENCIES,
            "api_key",
        )
        self.call_errors = self._counter(
            "upstream_call_errors",
            "Errors that brokers answered to calls of the proxy.",
            "api_key",
            "error_code",
        )
        self.calls_in_flight = self._gauge(
            "upstream_calls_in_flight", "Calls of the proxy that wait for their turn or their answer."
        )

    def _declare_journal(self) -> None:
        self.journal_events = self._counter("journal_events", "Events written to the journal.", "sink")
        self.journal_lost = self._counter(
            "journal_events_lost",
            "Events that the journal lost: its queue was full, or writing failed.",
            "sink",
        )
        self.journal_errors = self._counter(
            "journal_errors", "Failed attempts to write to the journal.", "sink"
        )
        self.journal_files_deleted = self._counter(
            "journal_files_deleted",
            "Finished files of the journal that were deleted because of `journal.keep_bytes`.",
        )
        self.journal_queue = self._gauge(
            "journal_queue_events", "Events that wait to be written to the journal.", "sink"
        )

    def _declare_process(self) -> None:
        self.internal_errors = self._counter(
            "internal_errors", "Exceptions that should not have been, by the place that caught them.", "where"
        )
        for (
            where
        ) in _ERROR_PLACES:  # a counter that appears with its first error has not risen for Prometheus
            self.internal_errors.labels(where)
        self.workers = self._gauge(
            "workers", "Worker processes that take clients; 0 if there are none (`workers: 1`)."
        )
        self.worker_restarts = self._counter(
            "worker_restarts",
            "Worker processes that ended and were started again, by their number.",
            "worker",
        )
        self.tasks = self._gauge(
            "tasks", "Tasks that live in the process: a few, and some for each connection."
        )
        self.policy_reloads = self._counter(
            "policy_reloads", "Readings of the policy file while running, by what came of them.", "result"
        )
        self.policy_version = self._gauge("policy_version", "Policies that have held since the start.")
        self.policy_is_current = self._gauge(
            "policy_is_current", "0 while the policy file is refused and the policy before it holds."
        )
        self.policy_is_current.set(1)
        self.tls_reloads = self._counter(
            "tls_reloads",
            "Readings of changed certificates while running, by where they are used and what came of them.",
            "where",
            "result",
        )
        self.tls_is_current = self._gauge(
            "tls_is_current",
            "0 while changed certificates are refused and those before them hold.",
            "where",
        )
        self.tls_expires = self._gauge(
            "tls_certificate_expiry_timestamp_seconds",
            "When the certificate that is shown there ends, in seconds since 1970.",
            "where",
        )
        self.ready = self._gauge("ready", "1 while the process takes clients, as /readyz says.")
        self.build = self._gauge("build_info", "Always 1; the labels say what runs.", "version", "python")
        self.build.labels(software_version(), platform.python_version()).set(1)
        ProcessCollector(registry=self.without_groups)
        PlatformCollector(registry=self.without_groups)
        GCCollector(registry=self.without_groups)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        self.table.append(Described(f"{PREFIX}{name}_total", "counter", labels, meaning))
        return Counter(PREFIX + name, meaning, labels, registry=self.without_groups)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        self.table.append(Described(PREFIX + name, "gauge", labels, meaning))
        return Gauge(PREFIX + name, meaning, labels, registry=self.without_groups)

    def _summary(self, name: str, meaning: str, *labels: str) -> Summary:
        self.table.append(Described(PREFIX + name, "summary", labels, meaning))
        return Summary(PREFIX + name, meaning, labels, registry=self.without_groups)

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        self.table.append(Described(PREFIX + name, "histogram", labels, meaning))
        return Histogram(PREFIX + name, meaning, labels, registry=self.without_groups, buckets=buckets)

    def _hot_counter(self, name: str, meaning: str, *labels: str) -> HotCounters:
        self.table.append(Described(f"{PREFIX}{name}_total", "counter", labels, meaning))
        return HotCounters(PREFIX + name, meaning, labels, self.without_groups)

    def _hot_summary(self, name: str, meaning: str, *labels: str) -> HotSummaries:
        self.table.append(Described(PREFIX + name, "summary", labels, meaning))
        return HotSummaries(PREFIX + name, meaning, labels, self.without_groups)

    def _hot_histogram(
        self, name: str, meaning: str, buckets: tuple[float, ...], *labels: str
    ) -> HotHistograms:
        self.table.append(Described(PREFIX + name, "histogram", labels, meaning))
        return HotHistograms(PREFIX + name, meaning, labels, self.without_groups, buckets)


def _value(gauge: Gauge) -> float:
    (family,) = gauge.collect()
    return float(family.samples[0].value)
