"""Builds the parts of one process in an order in which each gets what it needs of others.

Of two parts that need each other, one gets it only when :class:`proxy.server.server.Server` runs it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from proxy.admin.admin_http import Health
from proxy.admin.process_queries import QueryHandler, Readiness
from proxy.config.schema import Config, Limits
from proxy.config.schema import Listener as ListenerSection
from proxy.connection.connection_deps import ConnectionDeps
from proxy.connection.connection_manager import ConnectionManager
from proxy.connection.share_session_cuts import ShareSessionCuts
from proxy.connection.translator_driver import TranslatorDriver
from proxy.groups.group_records import GroupLookups, nothing
from proxy.groups.observability import Observability, replica_name
from proxy.metrics.dump import MetricDump, dump_metrics
from proxy.metrics.registry import Metrics
from proxy.metrics.wave_groups import WaveGroups
from proxy.runtime.fd_limits import pipe_limit
from proxy.runtime.file_watcher import Reloadable
from proxy.runtime.wall_clock import WallClock
from proxy.server.advertised_cluster import AdvertisedCluster
from proxy.server.broker_health import BrokerHealth
from proxy.server.gate_keeper import GateKeeper, no_lag
from proxy.session.held_calls_budget import HeldCallsBudget
from proxy.session.listener import Listener
from proxy.session.request_metrics import RequestMetrics
from proxy.transport.dialer import Dialer, Open
from proxy.transport.node_table import NodeTable
from proxy.transport.splice import PipePool
from proxy.wire.api_versions import ApiVersionsNegotiator
from translation.actions import Event
from translation.engine.group_router import with_routed_groups
from translation.member_log.group_records import Phase
from translation.member_log.signals import GateState
from translation.moving.move_view import SETTLED, TO_APPROVE
from translation.passthrough.observer import Observer
from translation.passthrough.topic_names import TopicNames
from translation.policy.policy import Policy, Rule
from translation.policy.rule_cache import RuleCache
from translation.translator import Translator

if TYPE_CHECKING:
    from proxy.control.hook_caller import HookCaller
    from proxy.groups.lag.group_lags import GroupLags
    from proxy.identity.setup import Identities
    from proxy.member_log.driver import FleetDriver
    from proxy.proof.live_proof import LiveProof

_SHOWN_PHASES = (TO_APPROVE, SETTLED, *(phase for phase in Phase if phase is not Phase.OVER))


class Account(Protocol):
    """What the proxy authenticates with, for itself or for clients."""

    @property
    def reloadables(self) -> Sequence[Reloadable]:
        """What has to be reloaded when its files change."""
        ...

    def prepare(self, config: Config, listeners: Mapping[int, ListenerSection]) -> Callable[[], None]:
        """Read what a configuration says of it, and return what puts that in force, which can't fail.

        ``listeners`` are those of ``config`` by their numbers.

        :raises UnreadableSecret: a file can't be used; nothing has changed.
        """
        ...


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one process; None for those that its configuration does without."""

    health: Health
    nodes: NodeTable
    dialer: Dialer
    broker_health: BrokerHealth
    connections: ConnectionManager
    pipes: PipePool
    rules: RuleCache
    driver: TranslatorDriver
    observability: Observability
    gates: GateKeeper
    query_handlers: Mapping[str, QueryHandler]
    held_calls: HeldCallsBudget
    connection_deps: Callable[[int, ListenerSection, AdvertisedCluster, Limits], ConnectionDeps]
    """Returns what the connections need of the listener with this number."""
    lags: "GroupLags | None"
    proof: "LiveProof | None"
    hook: "HookCaller | None"
    identities: "Identities | None"
    accounts: Sequence[Account]
    """Those that another configuration may replace."""


def compose(
    config: Config,
    translator: Translator,
    *,
    metrics: Metrics,
    descriptors: int,
    open_: Open,
    policy: Policy,
    replica: str | None,
    folder: Path | None,
    fleet: "FleetDriver | None",
) -> Parts:
    """Build the parts of a process whose ports take so many ``descriptors``; the other arguments are the server's."""
    rollout, clock, replica = translator.rollout, WallClock(), replica or replica_name()
    health = Health(metrics)
    connections = ConnectionManager(config.limits, metrics, ports=descriptors)
    nodes = NodeTable(on_change=connections.node_learned)
    dialer = Dialer(config.upstream.addresses, nodes, config.upstream.connect_timeout_s, metrics, open_)
    broker_health = BrokerHealth(dialer, metrics)
    lags = proof = hook = identities = account = None
    if config.identity is not None:
        from proxy.identity.setup import Identities  # noqa: PLC0415 - many clients have no certificates

        identities = Identities(config, dialer, metrics)
    if config.fleet is not None:  # else there is no account to ask with
        from proxy.groups.lag.group_lags import GroupLags  # noqa: PLC0415
        from proxy.groups.lag.reader import LagReader  # noqa: PLC0415
        from proxy.member_log.kafka_account import KafkaAccount  # noqa: PLC0415

        account = KafkaAccount(config.fleet, metrics)
        crashed = metrics.kafka_process_crashes.labels("lag").inc
        lags = GroupLags(LagReader(account.properties, crashed=crashed))
        account.on_change.append(partial(lags.reader.asking.replace, "its account has changed"))
        if fleet is not None:
            account.on_change.append(partial(fleet.set_account, account.properties))
            fleet.set_account(account.properties)
    properties = None if account is None else account.properties
    if config.verify.live:
        from proxy.proof.live_proof import live_proof  # noqa: PLC0415 - the rules of the audit come with it
        from proxy.proof.sources import Election  # noqa: PLC0415

        election = None if fleet is None else Election.among(fleet.replicas, lambda: fleet.replica)
        proof = live_proof(config, metrics, clock, replica, election, properties)
    if config.hook is not None:
        from proxy.control.hook_caller import HookCaller  # noqa: PLC0415 - most proxies have no hook

        hook = HookCaller(config.hook, metrics)
    observability = Observability(
        config,
        metrics,
        policy,
        lambda: health.reason,
        replica=replica,
        clock=clock,
        lookups=GroupLookups(
            move_of=rollout.move_of,
            unowned_of=translator.unowned.of_group,
            proof_of=nothing if proof is None else proof.view,
            lag_of=nothing if lags is None else lags.of,
        ),
        folder=folder,
        dialer=dialer,
        sinks=() if proof is None else proof.sinks,
        on_look=None if lags is None else lags.look,
        account=properties,
    )
    lag_source = no_lag if lags is None else lags.read
    gates = GateKeeper(rollout.gated_groups, rollout.groups_in_moves, metrics, lag_source=lag_source)

    def emit(event: Event) -> None:
        observability.record(event)
        gates.record(event)

    request_metrics, topics, rules = RequestMetrics(metrics), TopicNames(), RuleCache(policy)
    driver = TranslatorDriver(
        translator,
        request_metrics,
        emit,
        Observer(topics),
        carry_out=None if fleet is None else fleet.carry_out,
        on_disconnected=gates.disconnected,
        call_hook=None if hook is None else hook.call,
    )
    translator.on_router_failure(metrics.internal_errors.labels("hosted group").inc)
    held_calls = HeldCallsBudget(config.limits.group_calls_held_max_bytes)
    metrics.known_nodes.set_function(lambda: len(nodes))
    metrics.large_group_calls_held.set_function(lambda: held_calls.taken)
    for state in GateState:
        metrics.group_gates.labels(state).set_function(partial(_count, rollout.gates_by_state, state))
    for phase in _SHOWN_PHASES:
        metrics.group_moves.labels(phase).set_function(partial(_count, rollout.moves_by_phase, phase))
    metrics.without_groups.register(WaveGroups(rollout.waves))
    negotiator = ApiVersionsNegotiator(allow_unknown_apis=config.versions.allow_unknown_apis)
    pipes, cuts = PipePool(pipe_limit()), ShareSessionCuts(metrics)
    rule_for: Callable[[str], Rule] = rules.rule_for
    if config.experimental:
        rule_for = with_routed_groups(rule_for, driver.has_routed_group)

    def connection_deps(
        number: int, section: ListenerSection, cluster: AdvertisedCluster, limits: Limits
    ) -> ConnectionDeps:
        listener = Listener(
            map_address=cluster.map_address,
            negotiator=negotiator,
            limits=limits,
            request_metrics=request_metrics,
            clock=time.perf_counter,
            topics=topics,
            rule_for=rule_for,
            passes_through=driver.passes_through,
            held_calls=held_calls,
            known_nodes=cluster.known_nodes,
            learn_cluster=cluster.learn,
        )
        identify = None if identities is None else identities.identify_at(number)
        by_name = section.nodes_by_name is not None
        return ConnectionDeps(listener, dialer, broker_health, driver, pipes, cuts, identify, by_name)

    return Parts(
        health=health,
        nodes=nodes,
        dialer=dialer,
        broker_health=broker_health,
        connections=connections,
        pipes=pipes,
        rules=rules,
        driver=driver,
        observability=observability,
        gates=gates,
        query_handlers=_query_handlers(config, metrics, health, observability, fleet),
        held_calls=held_calls,
        connection_deps=connection_deps,
        lags=lags,
        proof=proof,
        hook=hook,
        identities=identities,
        accounts=[one for one in (identities, account) if one is not None],
    )


def _count(counts: Callable[[], Mapping[str, int]], key: str) -> int:
    return counts()[key]


def _query_handlers(
    config: Config, metrics: Metrics, health: Health, groups: Observability, fleet: "FleetDriver | None"
) -> Mapping[str, QueryHandler]:
    async def metrics_of_all_but_groups() -> list[MetricDump]:
        return dump_metrics(metrics.without_groups)

    async def readiness() -> Readiness:
        return Readiness(health.reason)

    handlers: dict[str, QueryHandler] = {
        "metrics": metrics_of_all_but_groups,
        "readiness": readiness,
        "groups": partial(groups.snapshot, events=False),
        "groups with events": partial(groups.snapshot, events=True),
    }
    if fleet is not None:
        from proxy.groups.fleet_reading import FleetReader  # noqa: PLC0415 - as the driver

        reader = FleetReader(fleet, groups.registry, config.visibility)
        handlers["fleet"] = partial(reader.read, members=False)
        handlers["fleet with members"] = partial(reader.read, members=True)
    return handlers
