"""The observability of one process: takes events, provides snapshots, group metrics and the journal."""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import trio

from protocol_codecs.messages.describe_groups import DescribedGroup
from proxy import VERSION
from proxy.config.fleet import Property
from proxy.config.schema import Config
from proxy.groups.broker_polling import BrokerGroupPoller, nobody
from proxy.groups.broker_queries import BrokerQueries
from proxy.groups.event_dispatcher import EventDispatcher
from proxy.groups.group_metrics import GroupCollector, GroupCounts, GroupLabels, counts_of_record
from proxy.groups.group_records import GroupLookups
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.snapshot import Snapshot
from proxy.journal.journal import STARTED, STOPPED, Journal, Sink
from proxy.metrics.periodic import keep_running, run_periodically
from proxy.metrics.registry import Metrics
from proxy.runtime.log_setup import log_suppressed_lines
from proxy.runtime.time_slice import TimeSlice
from proxy.runtime.wall_clock import WallClock
from proxy.transport.dialer import Dialer
from translation.actions import Event, EventKind, MemberProtocol
from translation.members.member_ids import kafka_uuid
from translation.policy.policy import Policy

_EVICT_INTERVAL_S = 60.0
_ALIVE_INTERVAL_S = 5.0
"""Whoever verifies the topic takes a process for dead that has written nothing for 15 s."""


def replica_name() -> str:
    """Return the name of this process in journal and snapshots: the host name."""
    return socket.gethostname()


class Observability:
    """Ties together event dispatcher, group registry, broker poller, group metrics and journal.

    ``reason()`` returns why the process is not ready, None if it is. ``folder`` is the configuration file's. ``sinks``
    are further destinations of the journal. ``on_look`` is called when somebody looks at the groups.
    """

    def __init__(
        self,
        config: Config,
        metrics: Metrics,
        policy: Policy,
        reason: Callable[[], str | None],
        *,
        replica: str,
        clock: WallClock,
        lookups: GroupLookups | None = None,
        folder: Path | None = None,
        dialer: Dialer | None = None,
        sinks: Sequence[Sink] = (),
        on_look: Callable[[], None] | None = None,
        account: Mapping[str, Property] | None = None,
    ) -> None:
        boot = kafka_uuid()
        self._config = config
        self._metrics = metrics
        self._reason = reason
        self._replica, self._clock = replica, clock
        self._poller: BrokerGroupPoller | None = None
        self._on_look = on_look
        self.registry = GroupRegistry(
            policy, lookups=lookups, on_drop=self._on_drop, limits=config.visibility, hit=metrics.hit
        )
        self.labels = GroupLabels(config.metrics.groups, self.registry.rule_number, self._without_series)
        self._dispatcher = EventDispatcher(metrics, self.registry, clock, self.labels, config.visibility)
        if config.journal.path is not None or config.journal.topic is not None:
            from proxy.journal.journal_sinks import journal_sinks  # noqa: PLC0415 - many keep no journal

            sinks = (*journal_sinks(config, folder, replica, boot, dialer, metrics, account), *sinks)
        self._journal = Journal(
            sinks,
            replica=replica,
            boot=boot,
            queue_events=config.journal.queue_events,
            queue_max_bytes=config.journal.queue_max_bytes,
            metrics=metrics,
        )
        metrics.provide_groups(GroupCollector(self.labels, self._group_counts))

    def record(self, event: Event) -> None:
        """Record an event of a member or a group."""
        now_us = self._clock.now_us()
        if event.kind is EventKind.COMMITTED:
            mode = self.registry.rule_of(event.group_id)[0].mode
            self._journal.record(self._dispatcher.journalled_only(event), mode, now_us)
            return
        recorded = self._dispatcher.dispatch(event, now_us)
        self._journal.record(recorded.event, recorded.group.mode, now_us)
        if (
            recorded.membership_changed
            and self._poller is not None
            and recorded.group.id in self.registry.groups
        ):
            self._poller.membership_changed(recorded.group.id)

    def set_policy(self, policy: Policy) -> None:
        """Apply another policy to what is shown of groups."""
        self.registry.set_policy(policy, self._clock.now_us())
        self.labels.rank_again()

    def start(self, nursery: trio.Nursery, brokers: BrokerQueries) -> None:
        """Start the background tasks: polling, eviction, journal."""
        described: Callable[[str, DescribedGroup], None] = nobody
        if self._config.shadow.enabled:
            from proxy.groups.shadowing import Shadowing  # noqa: PLC0415 - only where its key is set

            shadowing = Shadowing(brokers, self.registry, self._clock, self._config.shadow, self._metrics)
            described = shadowing.described
            nursery.start_soon(keep_running, shadowing.run, self._metrics)
        self._poller = BrokerGroupPoller(
            brokers,
            self.registry,
            self._clock,
            self._config.metrics.ask_brokers_every_s,
            self._metrics,
            described,
        )
        nursery.start_soon(self._poller.run)
        nursery.start_soon(run_periodically, _EVICT_INTERVAL_S, self._evict_idle, self._metrics)
        nursery.start_soon(self._run_journal)
        if self._config.verify.live:
            nursery.start_soon(run_periodically, _ALIVE_INTERVAL_S, self._record_alive, self._metrics)

    async def snapshot(self, *, events: bool = True) -> Snapshot:
        """Take a snapshot, with or without the groups' events.

        It yields to other tasks in between, so each group is shown as it is at its turn.
        """
        if self._on_look is not None:
            self._on_look()
        now_us = self._clock.now_us()
        reason = self._reason()
        policy = self._metrics.policy_in_force()
        time_slice, groups = TimeSlice(), []
        for group in self.registry.views(now_us, events=events):
            groups.append(group)
            await time_slice.yield_if_spent()
        return Snapshot(
            time=now_us / 1_000_000,
            replicas=(self._replica,),
            version=VERSION,
            ready=reason is None,
            not_ready_reason=reason,
            policy_version=policy.version,
            policy_is_current=policy.is_current,
            groups=tuple(groups),
            policy_refused=policy.refused,
            control=None if self._config.control is None else self._config.control.options,
        )

    def _group_counts(self) -> Iterator[GroupCounts]:
        now_us = self._clock.now_us()
        groups = list(self.registry.groups.values())  # groups come and go while they are counted
        return (counts_of_record(group, now_us) for group in groups)

    def _on_drop(self, group_id: str) -> None:
        if self.labels.drop(group_id):
            self._without_series(group_id)

    def _without_series(self, group_id: str) -> None:
        for protocol in MemberProtocol:
            self._metrics.group_rebalances.remove(group_id, protocol)

    async def _run_journal(self) -> None:
        self._journal.record_marker(STARTED, self._clock.now_us(), VERSION)
        # The last events are written after all other tasks have ended.
        writing = trio.CancelScope(shield=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write_journal, writing)
            try:
                await trio.sleep_forever()
            finally:
                self._journal.record_marker(STOPPED, self._clock.now_us())
                writing.cancel()

    async def _write_journal(self, writing: trio.CancelScope) -> None:
        with writing:
            await self._journal.run()

    def _record_alive(self) -> None:
        self._journal.record_alive(self._clock.now_us())

    def _evict_idle(self) -> None:
        log_suppressed_lines()
        self.registry.evict_idle(self._clock.now_us())
