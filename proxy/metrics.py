"""Every metric of the process, declared here and nowhere else; docs/metrics.md is generated from this file.

What every Kafka proxy counts has the names that kroxylicious gives it, after the prefix, so that dashboards
carry over: ``client_to_proxy``, ``proxy_to_server``, ``server_to_proxy`` and ``proxy_to_client`` are the four
ways.
"""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

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

PREFIX = "epochgate_"

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


class Metrics:
    """The registry of one process and everything in it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.table: list[Described] = []
        self._declare_connections()
        self._declare_requests()
        self._declare_translation()
        self._declare_process()

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
        self.client_requests = self._counter(
            "client_to_proxy_request",
            "Requests of clients; `decoded` are those that the translation looks at.",
            "api_key",
            "api_version",
            "decoded",
        )
        self.client_request_size = self._summary(
            "client_to_proxy_request_size_bytes", "Size of the requests of clients.", "api_key"
        )
        self.upstream_requests = self._counter(
            "proxy_to_server_request",
            "Requests sent to brokers; `injected` are those that the proxy added.",
            "api_key",
            "api_version",
            "injected",
        )
        self.upstream_responses = self._counter(
            "server_to_proxy_response", "Responses of brokers.", "api_key", "api_version"
        )
        self.client_responses = self._counter(
            "proxy_to_client_response", "Responses sent to clients.", "api_key", "api_version"
        )
        self.client_response_size = self._summary(
            "proxy_to_client_response_size_bytes",
            "Size of the responses that brokers gave for clients.",
            "api_key",
        )
        self.request_duration = self._histogram(
            "request_duration_seconds",
            "From a request's arrival to its response, for requests that the broker answers.",
            _LATENCIES,
            "api_key",
        )
        self.refused = self._counter(
            "refused_requests", "Requests in versions that were not offered.", "api_key"
        )
        self.hidden_nodes = self._counter(
            "hidden_nodes", "Times that a node was left out of a response because its id has no port here."
        )
        self.known_nodes = self._gauge("known_nodes", "Nodes of the cluster whose address is known.")

    def _declare_translation(self) -> None:
        self.members = self._gauge(
            "members", "Members of translated groups, by the state of their member.", "state"
        )
        self.state_changes = self._counter(
            "member_state_changes", "State changes of translated members.", "previous_state", "state"
        )
        self.rebalances = self._counter("rebalances", "Members told to join again, by reason.", "reason")
        self.events = self._counter("events", "What happened to members and groups, by kind.", "kind")
        self.translation = self._histogram(
            "translation_seconds",
            "Time that the translation took for one thing that happened.",
            _TRANSLATION,
            "what",
        )
        self.answer_duration = self._histogram(
            "answer_duration_seconds",
            "From a request's arrival to its answer, for requests that the translation answers.",
            _LATENCIES,
            "api_key",
        )
        self.answer_errors = self._counter(
            "answer_errors", "Errors that the translation answered to clients.", "api_key", "error_code"
        )
        self.call_duration = self._histogram(
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

    def _declare_process(self) -> None:
        self.internal_errors = self._counter(
            "internal_errors", "Exceptions that should not have been, by the place that caught them.", "where"
        )
        self.ready = self._gauge("ready", "1 while the process takes clients, as /readyz says.")
        self.build = self._gauge("build_info", "Always 1; the labels say what runs.", "version", "python")
        self.build.labels(software_version(), platform.python_version()).set(1)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        self.table.append(Described(f"{PREFIX}{name}_total", "counter", labels, meaning))
        return Counter(PREFIX + name, meaning, labels, registry=self.registry)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        self.table.append(Described(PREFIX + name, "gauge", labels, meaning))
        return Gauge(PREFIX + name, meaning, labels, registry=self.registry)

    def _summary(self, name: str, meaning: str, *labels: str) -> Summary:
        self.table.append(Described(PREFIX + name, "summary", labels, meaning))
        return Summary(PREFIX + name, meaning, labels, registry=self.registry)

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        self.table.append(Described(PREFIX + name, "histogram", labels, meaning))
        return Histogram(PREFIX + name, meaning, labels, registry=self.registry, buckets=buckets)
