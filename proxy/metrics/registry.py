"""Declares every metric of the process with its labels and meaning; docs/reference/metrics.md is generated from this
file.

Metrics that any Kafka proxy has use kroxylicious's names after the prefix, so that dashboards carry over:
``client_to_proxy``, ``proxy_to_server``, ``server_to_proxy`` and ``proxy_to_client`` are the four directions.
"""

import platform
from collections.abc import Sequence
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

from proxy import VERSION
from proxy.metrics.bounds import Bound
from proxy.metrics.counters import HotCounters, HotHistograms, HotSummaries
from proxy.metrics.group_families import FAMILIES, PREFIX
from proxy.metrics.wave_groups import WAVES
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
_ERROR_PLACES = ("translation", "connection", "observer", "upkeep", "worker", "fleet", "hosted group")
_TRANSLATION = (0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.1)


disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the series of counters


class Described(NamedTuple):
    """One row of the table of metrics in the docs."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


class GroupSeries(Collector, Protocol):
    """Computes the metrics of groups (:data:`proxy.metrics.group_families.FAMILIES`) at each scrape."""

    async def collect_cooperatively(self) -> Sequence[Metric]:
        """See :meth:`collect`; it yields to other tasks in between."""


class PolicyState(NamedTuple):
    """The policy in force: its number (0: none from a file), and why the file's newer one is refused, if it is."""

    version: int
    is_current: bool
    refused: str | None


class Metrics:
    """All metrics of one process."""

    def __init__(self) -> None:
        self.without_groups = CollectorRegistry()
        self.table: list[Described] = []
        self._declare_connections()
        self._declare_requests()
        self._declare_translation()
        self._declare_journal()
        self._declare_proof()
        self._declare_fleet()
        self._declare_preflight()
        self._declare_identity()
        self._declare_process()
        self.groups: GroupSeries | None = None
        """Computes the metrics of groups; see :meth:`provide_groups`."""
        self.registry = CollectorRegistry(auto_describe=False)
        """All metrics. With many groups collecting takes long: use :func:`proxy.admin.text_format.render_metrics`."""
        self.registry.register(self.without_groups)
        self.table += [Described(PREFIX + f.name, "gauge", f.labels, f.meaning) for f in FAMILIES]

    def provide_groups(self, groups: GroupSeries) -> None:
        """Set the collector of the metrics of groups. Called once."""
        self.groups = groups
        self.registry.register(groups)

    def policy_in_force(self) -> "PolicyState":
        """Return what is known of the policy."""
        version, current = (_value(gauge) for gauge in (self.policy_version, self.policy_is_current))
        return PolicyState(int(version), bool(current), None if current else self.policy_refusal)

    def hit(self, bound: Bound) -> None:
        """Count that a bound was reached: data of a client was not kept or shown in full."""
        self.bounds_hit.labels(bound).inc()

    def _declare_connections(self) -> None:
        self.client_connections = self._counter(
            "client_to_proxy_connections",
            "Connections that clients opened, by node id of the port.",
            "node_id",
        )
        self.client_connections_active = self._gauge(
            "client_to_proxy_active_connections", "Open connections of clients.", "node_id"
        )
        self.client_disconnects = self._counter(
            "client_to_proxy_disconnects", "Connections of clients that ended, by cause.", "cause"
        )
        self.connections_refused = self._counter(
            "client_to_proxy_connections_refused",
            "Connections of clients that were closed right after being accepted, by the limit that was reached.",
            "reason",
        )
        self.accept_failures = self._counter(
            "client_to_proxy_accept_failures",
            "Times that a connection could not be accepted for lack of descriptors or memory; it waits and is retried.",
        )
        self.proxy_headers = self._counter(
            "client_to_proxy_proxy_headers",
            "Connections of load balancers with a PROXY header to read (`listeners[].proxy_protocol`), by result: "
            "`client` (the header names one), `peer` (a connection of the balancer's own), `health_check`, and what "
            "ended the connection: `invalid`, `timeout`, `crowded_out`.",
            "result",
        )
        self.client_errors = self._counter(
            "client_to_proxy_errors", "Invalid data from clients that ended their connection.", "kind"
        )
        self.upstream_connections = self._counter(
            "proxy_to_server_connections", "Attempts to connect to brokers, by node id.", "node_id"
        )
        self.upstream_connections_active = self._gauge(
            "proxy_to_server_active_connections", "Open connections to brokers.", "node_id"
        )
        self.upstream_errors = self._counter(
            "proxy_to_server_errors",
            "Failed attempts to connect, and invalid data from brokers that ended a connection.",
            "kind",
        )
        self.client_reads_paused = self._summary(
            "client_to_proxy_reads_paused_seconds",
            "Time that reading from a client was paused because the broker was slower.",
        )
        self.upstream_reads_paused = self._summary(
            "server_to_proxy_reads_paused_seconds",
            "Time that reading from a broker was paused because the client was slower.",
        )
        self.lingering = self._gauge(
            "lingering_upstream_connections",
            "Upstream connections kept open for members whose client has disconnected.",
        )
        self.share_sessions_open = self._gauge(
            "share_sessions_open",
            "Share sessions that brokers have for the clients of this proxy (KIP-932), at most one a connection.",
        )
        self.share_acknowledge_errors = self._counter(
            "share_acknowledge_errors",
            "Refused acknowledgements of share consumers, by the broker's error code: partitions of a ShareAcknowledge "
            "or ShareFetch, and whole ShareAcknowledges.",
            "error_code",
        )
        self.share_sessions_cut = self._counter(
            "share_sessions_cut",
            "Share sessions that the proxy ended while records were locked, which are delivered once more; by cause.",
            "cause",
        )

    def _declare_requests(self) -> None:
        self.client_requests = self._hot_counter(
            "client_to_proxy_request",
            "Requests of clients; `decoded` ones are seen by the translation.",
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
            "refused_requests", "Requests refused because their version was not offered.", "api_key"
        )
        self.large_group_calls = self._counter(
            "large_group_calls",
            "Group requests beyond a limit (`limits.group_call_max_bytes` and the keys after it), by outcome: "
            "`relayed` undecoded, `refused`, `ended` their connection, `waited_for_broker`, `waited_for_room`.",
            "outcome",
        )
        for outcome in ("relayed", "refused", "ended", "waited_for_broker", "waited_for_room"):
            self.large_group_calls.labels(outcome)
        self.large_group_calls_held = self._gauge(
            "large_group_calls_held_bytes",
            "Bytes in use of `limits.group_calls_held_max_bytes`.",
        )
        self.hidden_nodes = self._counter(
            "hidden_nodes", "Times that a node was removed from a response because its id has no port here."
        )
        self.unreachable = self._gauge(
            "unreachable_nodes", "Unreachable nodes; clients are refused on their ports."
        )
        self.known_nodes = self._gauge("known_nodes", "Nodes of the cluster whose address is known.")

    def _declare_translation(self) -> None:
        self.state_changes = self._counter(
            "member_state_changes", "State changes of members, translated or not.", "previous_state", "state"
        )
        self.rebalances = self._counter(
            "rebalances",
            "Members that had to rejoin, by category of reason and by protocol.",
            "reason",
            "protocol",
        )
        self.group_rebalances = self._counter(
            "group_rebalances", "Members that had to rejoin, by group and protocol.", "group", "protocol"
        )
        self.paused = self._histogram(
            "member_paused_seconds",
            "Time that a member had no partition because it had to revoke all of them to rejoin.",
            _PAUSES,
            "protocol",
        )
        for protocol in MemberProtocol:
            self.paused.labels(protocol)
        self.adoptions = self._counter(
            "adoptions",
            "Members taken over from another process, found at the broker.",
            "protocol",
        )
        self.conversions = self._counter(
            "conversions",
            "Classic members that were made members of the new protocol in place: 0 ms, not noticed by their clients.",
        )
        self.passed_through = self._counter(
            "passed_through",
            "JoinGroups that passed through untranslated, by category of reason (`translation/reasons.py`).",
            "reason",
        )
        self.events = self._counter("events", "Events of members and groups, by kind.", "kind")
        self.bounds_hit = self._counter(
            "bounds_hit",
            "Times that data of a client was not kept or shown in full, by the bound that was reached "
            "(docs/explanation/security.md).",
            "bound",
        )
        for bound in Bound:
            self.bounds_hit.labels(bound)
        self.translation = self._hot_histogram(
            "translation_seconds",
            "Time that the translation took for one request, response or timer.",
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
            "answer_errors", "Errors that the translation returned to clients.", "api_key", "error_code"
        )
        self.call_duration = self._hot_histogram(
            "upstream_call_duration_seconds",
            "Duration of requests that the proxy itself made to brokers, by API.",
            _LATENCIES,
            "api_key",
        )
        self.call_errors = self._counter(
            "upstream_call_errors",
            "Errors that brokers returned to the proxy's own requests.",
            "api_key",
            "error_code",
        )
        self.calls_in_flight = self._gauge(
            "upstream_calls_in_flight", "The proxy's own requests to brokers that are queued or in flight."
        )

    def _declare_journal(self) -> None:
        self.journal_events = self._counter("journal_events", "Events written to the journal.", "sink")
        self.journal_lost = self._counter(
            "journal_events_lost",
            "Events that the journal lost because its queue was full or writing failed.",
            "sink",
        )
        self.journal_errors = self._counter(
            "journal_errors", "Failed attempts to write to the journal.", "sink"
        )
        self.journal_files_deleted = self._counter(
            "journal_files_deleted",
            "Finished files of the journal that were deleted because of `journal.keep_bytes` or a full disk.",
        )
        self.journal_queue = self._gauge("journal_queue_events", "Events queued for the journal.", "sink")

    def _declare_proof(self) -> None:
        self.proof_groups = self._gauge(
            "proof_groups",
            "Groups that the live verification judges here, by verdict of the present window (`proven`, `unproven`), "
            "or `violated`.",
            "verdict",
        )
        self.proof_rebalances = self._gauge(
            "proof_rebalances",
            "Rebalances that the live verification has counted, of groups whose move has settled, by kind (`join`, "
            "`leave`, `kill`, `deploy`, `other`) and phase (`before`, `moving`, `after`).",
            "kind",
            "phase",
        )
        self.proof_stopped = self._gauge(
            "proof_rebalances_stopped_seconds", "How long these stopped clients, added up.", "kind", "phase"
        )
        self.proof_compared = self._gauge(
            "proof_compared_rebalances",
            "Pairs of a group whose move has settled and a kind of rebalance: after the move its median is `shorter`, "
            "the `same` or `longer`, or there are `too_few`.",
            "verdict",
        )
        self.proof_behind = self._gauge(
            "proof_behind_seconds",
            "How old the newest event is that the live verification has gone through to; infinite before the first.",
        )
        self.proof_waiting = self._gauge(
            "proof_waiting_events", "Events that wait in the live verification for earlier ones to come."
        )
        self.proof_left_out = self._counter(
            "proof_left_out_events", "Events of groups that the live verification has no room for."
        )
        self.proof_errors = self._counter(
            "proof_errors", "Failed attempts of the live verification to read the journal's topic."
        )

    def _declare_identity(self) -> None:
        self.identity_principals = self._gauge(
            "identity_principals", "Principals of client certificates that this process keeps a token for."
        )
        self.identity_tokens = self._counter(
            "identity_tokens",
            "Delegation tokens, by what became of a request: `created`, `refused` by the broker, `failed` without its "
            "answer, `expired` at the broker, `not_expired` (it ends by itself).",
            "result",
        )
        self.identity_authentications = self._counter(
            "identity_authentications",
            "Upstream connections that the proxy authenticated for clients with certificates: `done`, `again` (in the "
            "middle of a connection), `retried` (the token had not reached the broker yet), `failed`, and clients that "
            "were `refused` because of their principal.",
            "result",
        )
        self.identity_pauses = self._summary(
            "identity_reauthentication_pause_seconds",
            "Time for which a client's requests waited while its upstream connection authenticated again.",
        )

    def _declare_fleet(self) -> None:
        self.group_moves = self._gauge(
            "group_moves",
            "Groups that are moved by steps, by phase (`to_approve`: the next step waits for an approval; `awaiting` a "
            "window of time or the hook; `moving`, `paused`, `held`, `aborted`, `rolled_back`; `settled`: its last "
            "step has). With a member log every process knows those of all.",
            "phase",
        )
        self.control_requests = self._counter(
            "control_requests",
            "Requests to the `control` listener, by what became of them: a command that is `done`, `refused`, "
            "`pending` or `unavailable`, or something else (`invalid`).",
            "result",
        )
        self.admin_refusals = self._counter(
            "admin_refusals",
            "Refused at the admin port: requests without credentials (`missing`), with `wrong` ones, or made by a page "
            "of another site (`cross_site`), and failed TLS handshakes (`tls`).",
            "reason",
        )
        self.hook_calls = self._counter(
            "hook_calls",
            "Calls of the `hook`: it `agreed` to a step or gave a `veto` (also if it could not be reached), was `told` "
            "something or could not be (`failed`), or the call was `dropped` because too many waited.",
            "result",
        )
        self.group_gates = self._gauge(
            "group_gates",
            "Moves by steps that have gates (`abort_if`) and go on, by what the gates say: `baseline`, `clear`, "
            "`watching`, `suspect`, `paused`, `missing` or `harm`.",
            "say",
        )
        self.table.append(Described(PREFIX + WAVES.name, "gauge", WAVES.labels, WAVES.meaning))
        self.fleet_away = self._gauge(
            "fleet_log_away",
            "Partitions of the member log (`fleet`) that can't be read or written now, or are not read yet.",
        )
        self.fleet_refused = self._gauge(
            "fleet_log_refused",
            "1 while the member log can't be used, although its brokers answer; /readyz and the log say why. It is "
            "tried again every 8 s at least.",
        )
        self.fleet_expires = self._gauge(
            "fleet_expires",
            "1 while members whose timeout has passed are expired by the member log: as `fleet.expires` says (`auto`: "
            "while every replica writes the log), and not while a setting of its topic is wrong.",
        )
        self.fleet_wrong_settings = self._gauge(
            "fleet_topic_settings_wrong",
            "1 while a setting of the member log's topic is not as it has to be: no member is expired meanwhile; the "
            "log and `/api/groups` say which, and what mends it. Looked up every 60 s.",
        )
        self.kafka_process_crashes = self._counter(
            "kafka_process_crashes",
            "Processes of librdkafka that have ended by themselves, by what they do: `member log`, `journal`, `proof`, "
            "`lag`. Another one is started; the log says how it ended.",
            "process",
        )
        self.fleet_unresolved = self._gauge(
            "fleet_unresolved_records",
            "Records of members that were written to the member log and not read back.",
        )
        self.fleet_oldest_unresolved = self._gauge(
            "fleet_oldest_unresolved_seconds",
            "How long ago the oldest record was written that is not read back; 0 if all are.",
        )
        self.fleet_records = self._hot_counter(
            "fleet_records",
            "Records of the member log, by kind (`probe`: of no member; `group`: of a whole group) and direction "
            "(`read`, `written`); every process reads all.",
            "kind",
            "direction",
        )
        self.fleet_ignored = self._hot_counter(
            "fleet_records_ignored",
            "Records of the member log's topic that were skipped, by why: `key`, `value` (or a field out of range), "
            "`format` (none, or of a later release), `place`, `time`, `mac`, `error` (a bug). Above 0, something else "
            "than this fleet writes the topic.",
            "reason",
        )
        self.fleet_verdicts = self._hot_counter(
            "fleet_verdicts",
            "Calls that asked the member log whether their member is served here: `served`, `taken` (another replica "
            "serves it, and won each time), `dead` (so is its id), `relayed` (the broker serves it), `unresolved` (no "
            "answer in time). Calls on a connection that the log has confirmed ask nobody.",
            "verdict",
        )
        self.fleet_newest_age = self._gauge(
            "fleet_newest_record_age_seconds",
            "For how long nothing was read from the partition of the member log where that is longest, by this "
            "process's own monotonic clock. Each replica writes a probe to each partition every 30 s, so it normally "
            "stays below about 30.",
        )
        self.fleet_members_here = self._gauge(
            "fleet_members_here", "Members that the member log says this process serves."
        )
        self.fleet_members = self._gauge(
            "fleet_members",
            "Translated members of all replicas in the member log, by state: `served`, `silent` (so is their replica), "
            "`expiring` (the member id is dead, the broker may still have the member). Every process reads the same.",
            "state",
        )
        self.fleet_replicas = self._gauge(
            "fleet_replicas",
            "Replicas that write the member log, by state: `active`, or `silent` (no probe for 90 s to an hour, "
            "and the log still names it for members). Every process reads the same.",
            "state",
        )
        self.fleet_reader_replacements = self._counter(
            "fleet_reader_replacements",
            "Times that the consumer of the member log was replaced because it read nothing of a partition that was "
            "away: librdkafka may be stuck, or the brokers can't be reached.",
        )
        self.fleet_replay = self._gauge(
            "fleet_replay_seconds", "How long this process took at its start to read the member log."
        )

    def _declare_preflight(self) -> None:
        self.preflight_checks = self._gauge(
            "preflight_checks",
            "Checks of the proxy's own last preflight by how they ended: `passed`, `found`, `unknown`, `accepted`, "
            "`not asked`. After a preflight that came to no end all are `unknown`.",
            "status",
        )
        self.preflight_runs = self._counter(
            "preflight_runs", "The proxy's own preflights, by result: `done`, or `failed`.", "result"
        )
        self.preflight_asked_at = self._gauge(
            "preflight_asked_timestamp_seconds",
            "When the proxy's own last preflight began that came to an end, in seconds since 1970; 0 before the first.",
        )

    def _declare_process(self) -> None:
        self.shadow_seconds = self._counter(
            "shadow_cpu_seconds",
            "Processor time spent on what the new protocol would give to observed groups (`shadow`).",
        )
        self.internal_errors = self._counter(
            "internal_errors", "Unexpected exceptions, by the place that caught them.", "where"
        )
        # Prometheus sees no increase in a counter that appears with its first error.
        for where in _ERROR_PLACES:
            self.internal_errors.labels(where)
        self.workers = self._gauge("workers", "Worker processes that are serving; 0 with `workers: 1`.")
        self.worker_restarts = self._counter(
            "worker_restarts",
            "Restarts of worker processes, by number of the worker.",
            "worker",
        )
        self.tasks = self._gauge(
            "tasks", "Running tasks in the process: a few, and some for each connection."
        )
        self.config_reloads = self._counter(
            "config_reloads",
            "Reloads of the configuration file that would change something, by result.",
            "result",
        )
        self.config_is_current = self._gauge(
            "config_is_current",
            "0 while the configuration file is refused, or needs a restart, and the one before stays in force.",
        )
        self.config_is_current.set(1)
        self.policy_reloads = self._counter(
            "policy_reloads", "Reloads of the policy file, by result.", "result"
        )
        self.policy_version = self._gauge(
            "policy_version", "Number of policies that have been in force since the start."
        )
        self.policy_is_current = self._gauge(
            "policy_is_current", "0 while the policy file is refused and the previous policy stays in force."
        )
        self.policy_is_current.set(1)
        self.policy_refusal: str | None = None
        """Why the policy file was refused last: file, line, key and what was expected, one problem a line."""
        self.policy_watch_failures = self._counter(
            "policy_watch_failures",
            "Failed attempts to watch the policy's ConfigMap at the Kubernetes API, and watches that broke.",
        )
        self.tls_reloads = self._counter(
            "tls_reloads",
            "Reloads of changed certificates, by where they are used and by result.",
            "where",
            "result",
        )
        self.tls_is_current = self._gauge(
            "tls_is_current",
            "0 while changed certificates or a revocation list are refused and the previous ones stay in use.",
            "where",
        )
        self.tls_expires = self._gauge(
            "tls_certificate_expiry_timestamp_seconds",
            "When the certificate in use there expires, in seconds since 1970.",
            "where",
        )
        self.tls_crl_expires = self._gauge(
            "tls_crl_expiry_timestamp_seconds",
            "When the first revocation list in use there is out of date, in seconds since 1970; from then on "
            "its clients are refused.",
            "where",
        )
        self.ready = self._gauge("ready", "1 while the process is ready for clients, as in /readyz.")
        self.build = self._gauge("build_info", "Always 1; the labels say what runs.", "version", "python")
        self.build.labels(VERSION, platform.python_version()).set(1)
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
