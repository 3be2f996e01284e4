"""Builds the whole world of a run from its plan."""

from collections import deque
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

from coordinator.config import CoordinatorConfig
from tests.simulation import faults
from tests.simulation.broker import Broker
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.classic import ClassicClient
from tests.simulation.clients.habits import COUNT_THEIR_SESSION
from tests.simulation.clients.hostile import Hostile, Victim
from tests.simulation.clients.native import NativeMember
from tests.simulation.clients.producer import Producer
from tests.simulation.commands import People, is_rolled_back
from tests.simulation.fleet.log_topic import LogTopic
from tests.simulation.hold_ups import HoldUps
from tests.simulation.kernel import Kernel
from tests.simulation.network import Link, Network
from tests.simulation.plan import ClientPlan, Plan
from tests.simulation.proxy_process import ProxyProcess
from tests.simulation.watch import Watch
from tests.simulation.watch_hostile import HostileWatch
from tests.simulation.watch_natives import NativeWatch
from tests.simulation.wire import GROUP
from translation.member_log.member_log import MemberLog
from translation.policy.gates import AbortIf
from translation.policy.policy import Approval, Mode, Policy, Rule
from translation.settings import TranslatorSettings
from translation.translator import Translator

TRANSLATE_ALL = Policy(rules=(Rule(pattern=".*", mode=Mode.TRANSLATE),))
OBSERVE_ALL = Policy(rules=(Rule(pattern=".*", mode=Mode.OBSERVE),))


class World:
    """The clients, the processes of the proxy and the broker, in one virtual time."""

    def __init__(self, plan: Plan, late_before: AbstractSet[tuple[str, int]] = frozenset()) -> None:
        self.plan = plan
        self.late_before = late_before
        self.late_for_strangers: set[tuple[str, int]] = set()
        self.kernel = Kernel(f"run {plan.seed}")
        self.watch = Watch(self.kernel)
        if plan.has_gates:
            self.watch.gates.world = self
            self.watch.gates.is_faultless = plan.gates_faultless
        self.network = self._network()
        self.steps = plan.steps
        self.policy = OBSERVE_ALL if plan.starts_observed else self.translating()
        config = CoordinatorConfig(
            consumer_session_timeout_ms=plan.broker_session_ms,
            consumer_heartbeat_interval_ms=plan.broker_heartbeat_ms,
            consumer_assignment_interval_ms=plan.assignment_interval_ms,
            classic_initial_rebalance_delay_ms=500,
            # As before Kafka 4.4 if there are several processes: each has the members vote for one assignor that it
            # serves, and a group with two votes for two assignors may never settle there (docs/evidence/facts.md).
            consumer_assignor_moves_epoch=plan.processes == 1,
            consumer_describes_pending_revocation=plan.describes_pending_revocation,
        )
        self.broker = Broker(self.kernel, self.watch, config)
        self.watch.broker = self.broker
        self.watch.hostile = HostileWatch(self.watch)
        self.watch.natives = NativeWatch(self.watch)
        for name, partitions in plan.topics.items():
            self.broker.set_topic(name, partitions)
        self.learn_topics()
        self.log_topic = self._log_topic() if plan.fleet else None
        self.processes = [
            ProxyProcess(f"proxy{n}", self, self.network, self.broker, self._translator)
            for n in range(plan.processes)
        ]
        self.clients: list[Caller] = []
        self.newcomers = deque(plan.newcomers)
        self._producers: dict[ClassicClient, Producer] = {}
        self.homes: dict[str, int] = {}
        """Which process serves a client's address."""
        self._starts = 0
        self._links = 0
        self._uuids = 0
        for client in plan.clients:
            self.kernel.at(client.starts_ms, self.start, client, client.name)
        self.hostiles = [Hostile(one, self, plan.seed) for one in plan.hostiles]
        for hostile in self.hostiles:
            self.watch.observers[hostile] = self.watch.hostile
            if not hostile.principal.reads_group:
                self.watch.hostile.names.add(hostile.name)
            self.kernel.at(hostile.plan.starts_ms, hostile.start)
            self.kernel.at(plan.calm_from_ms, hostile.stop)
        self.people = People(self)
        for fault in plan.faults:
            self.kernel.at(fault.at_ms, faults.happen, self, fault.kind)

    # -- what everybody needs --------------------------------------------------------------------------------------

    def translating(self, **settings: Any) -> Policy:
        """Return the policy by which the group is translated now, by steps if there are any."""
        if not self.steps:
            return (
                Policy(rules=(Rule(pattern=".*", mode=Mode.TRANSLATE, **settings),))
                if settings
                else TRANSLATE_ALL
            )
        if self.plan.has_gates:
            settings["abort_if"] = AbortIf()
        whom: dict[str, Any] = {"groups": (GROUP,), "wave": 1} if self.plan.in_wave else {"pattern": ".*"}
        approval = Approval.REQUIRED if self.plan.approval else Approval.NONE
        rule = Rule(
            mode=Mode.TRANSLATE,
            steps=self.steps,
            hold_s=self.plan.hold_s,
            approval=approval,
            **whom,
            **settings,
        )
        return Policy(rules=(rule,))

    @property
    def translates(self) -> bool:
        """Whether the group is translated, by the policy's file and by what people have said."""
        by_policy = self.policy.rules[0].mode is Mode.TRANSLATE
        return by_policy and not all(map(is_rolled_back, self.processes))

    def planted(self) -> str:
        """What is planted for the gates now; empty: nothing."""
        plan = self.plan
        is_now = plan.has_gates and plan.gates_from_ms <= self.kernel.now_ms < plan.gates_until_ms
        return plan.gates_kind if is_now else ""

    def next_start_number(self) -> int:
        self._starts += 1
        return self._starts

    def _new_uuid(self) -> str:
        self._uuids += 1
        return f"m{self._uuids}"

    def _translator(self, member_log: MemberLog | None) -> Translator:
        settings = TranslatorSettings(
            sole_process=self.plan.processes == 1,
            revocation_grace_s=20.0,
            initial_rebalance_delay_s=self.plan.initial_rebalance_delay_ms / 1000,
        )
        return Translator(self.policy, settings=settings, new_uuid=self._new_uuid, member_log=member_log)

    def _network(self) -> Network:
        if self.plan.hold_ups_ms:
            return HoldUps(self.kernel, self._delay_ms, self.plan.hold_ups_ms)
        return Network(self.kernel, self._delay_ms)

    def _log_topic(self) -> LogTopic:
        return LogTopic(self.kernel, self.watch.log, self.plan.seed)

    def _delay_ms(self) -> int:
        delay_ms = self.kernel.between(1, 8)
        if self.plan.slow_network and self.kernel.chance(0.03):
            delay_ms += self.kernel.between(50, 1_500)
        return delay_ms

    def learn_topics(self) -> None:
        for topic in self.broker.image.topics.values():
            self.watch.story.learn_topic(topic.topic_id, topic.name)

    # -- clients ---------------------------------------------------------------------------------------------------

    def start(self, plan: ClientPlan, name: str) -> Caller:
        """Start a client's process."""
        client: Any
        self.watch.count(f"client {'native' if plan.habits is None else plan.habits.kind}")
        if plan.instance_id is not None:
            self.watch.count("client with an instance id")
        if plan.habits is None:
            client = NativeMember(name, self, plan)
            self.watch.began(client)
            self.watch.natives.began(client)
            if client.through_proxy:
                self.watch.count("members of the new protocol through the proxy")
            self.watch.observers[client] = self.watch.natives
            self.watch.client_of[client.member_id] = self.watch.standings[client]
            self.watch.standings[client].member_id = client.member_id
        else:
            client = ClassicClient(name, self, plan.habits, plan.pace, plan.topics, plan.instance_id)
            client.counts_its_session = self.plan.outage and plan.habits.kind in COUNT_THEIR_SESSION
            self.watch.began(client)
        client.plan = plan
        self.clients.append(client)
        client.start()
        return client

    def dial(self, client: Caller, line: str) -> Link | None:
        self._links += 1
        if isinstance(client, NativeMember) and not client.through_proxy:
            return self.network.connect(f"{client.name}.{self._links}", client, self.broker)
        process = self.process_of(client)
        if not process.up:
            return None
        link = self.network.connect(f"{client.name}.{line}{self._links}@{process}", client, process)
        process.accept(link, client.host)
        return link

    def producer_of(self, consumer: ClassicClient) -> Producer:
        """Return the transactional producer of a client's application, which calls another replica than the client."""
        producer = self._producers.get(consumer)
        if producer is None:
            producer = self._producers[consumer] = Producer(self, consumer)
            self.watch.began(producer)
            self.watch.observers[producer] = self.watch.producers
        home = self.processes.index(self.process_of(consumer))
        if self.homes.get(producer.host, home) == home:
            step = self.kernel.between(1, len(self.processes) - 1)
            self.homes[producer.host] = (home + step) % len(self.processes)
            producer.close_lines()
        return producer

    # -- hostile clients -------------------------------------------------------------------------------------------

    def victims(self) -> list[Victim]:
        """Return all members with their known ids."""
        return self._victims(self.watch.standings)

    def victims_at(self, link: Link) -> list[Victim]:
        """Return the members that are served by the process that this connection reaches."""
        return self._victims(
            client
            for client in self.watch.standings
            if client.host in self.homes and self.process_of(client) is link.far
        )

    @staticmethod
    def _victims(clients: Iterable[Any]) -> list[Victim]:
        return [
            Victim(
                client.member_id,
                getattr(client, "instance_id", None),
                client.epoch if isinstance(client, NativeMember) else client.generation,
                tuple(sorted(client.topics)),
            )
            for client in clients
            if client.member_id or getattr(client, "instance_id", None) is not None
        ]

    def dial_as(self, hostile: Hostile) -> Link | None:
        """Connect a hostile client to any process."""
        process = hostile.chance.choice(self.processes)
        if not process.up:
            return None
        hostile.links += 1
        name = f"{hostile.name}.{hostile.links}@{process}"
        link = self.network.connect(name, hostile, process, hostile.principal, hostile.delay_ms)
        process.accept(link, hostile.host)
        return link

    def stall_answers(self, link: Link, for_ms: int) -> None:
        """Stop reading the broker's answers for a client that does not read."""
        self.watch.count("hostile connections that read nothing")
        for process in self.processes:
            for shell in process.connections.values():
                if shell.client is link:
                    shell.upstream.to_near.slow_until_ms = self.kernel.now_ms + for_ms

    def process_of(self, client: Caller) -> ProxyProcess:
        """Return the process that serves the client's address."""
        return self.processes[
            self.homes.setdefault(client.host, self.kernel.between(0, len(self.processes) - 1))
        ]

    def alive(self) -> list[Caller]:
        return [client for client in self.clients if client.alive]
