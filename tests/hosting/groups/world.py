"""Classic clients in virtual time, eager and cooperative, and the room that hosts their group.

Clients do what Kafka's Java consumer does: they give up what they own before or after a JoinGroup, as their assignor's
protocol says, heartbeat in between, and lose everything when they are told that they are members no longer. ``World``
checks after every step that no partition has two owners by what the clients themselves believe.
"""

import random
from collections.abc import Callable, Mapping

from coordinator.uuids import SeededUuids
from hosting.groups.member import HostedCall
from hosting.groups.room import HostedAnswer, HostedGroups
from hosting.groups.settings import HostedSettings
from protocol_codecs import ErrorCode
from protocol_codecs.all_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from protocol_codecs.codec import encode
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

GROUP = "billing"
SESSION_MS, HEARTBEAT_MS, REBALANCE_MS = 10_000, 3_000, 20_000
JOIN_VERSION = 5
NEVER = 1 << 62

Owned = frozenset[tuple[str, int]]
Computed = dict[str, set[tuple[str, int]]]
Assignor = Callable[[Mapping[str, ConsumerProtocolSubscription], Mapping[str, int]], Computed]


def by_topic(partitions: Owned | set[tuple[str, int]]) -> tuple[ConsumerProtocolTopicPartition, ...]:
    """Partitions as messages have them."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return tuple(ConsumerProtocolTopicPartition(topic=t, partitions=tuple(n)) for t, n in topics.items())


def partitions_in(topics: tuple[ConsumerProtocolTopicPartition, ...]) -> set[tuple[str, int]]:
    """Partitions from messages."""
    return {(one.topic, number) for one in topics for number in one.partitions}


def balanced(members: Mapping[str, ConsumerProtocolSubscription], topics: Mapping[str, int]) -> Computed:
    """Give each member as many, and leave with it what it has, as sticky assignors do."""
    wanted = [(topic, number) for topic, count in sorted(topics.items()) for number in range(count)]
    limit = -(-len(wanted) // len(members))
    computed: Computed = {}
    for member_id in sorted(members):
        kept = sorted(partitions_in(members[member_id].owned_partitions) & set(wanted))
        computed[member_id] = set(kept[:limit])
    taken = {one for part in computed.values() for one in part}
    for one in wanted:
        if one not in taken:
            computed[min(computed, key=lambda member_id: (len(computed[member_id]), member_id))].add(one)
    return computed


def cooperative(members: Mapping[str, ConsumerProtocolSubscription], topics: Mapping[str, int]) -> Computed:
    """As :func:`balanced`, but what another member still has goes to nobody yet, as with cooperative-sticky."""
    computed = balanced(members, topics)
    owner = {one: m for m, said in members.items() for one in partitions_in(said.owned_partitions)}
    return {m: {one for one in part if owner.get(one, m) == m} for m, part in computed.items()}


def odd_and_even(members: Mapping[str, ConsumerProtocolSubscription], topics: Mapping[str, int]) -> Computed:
    """An assignor of somebody's own: everything to the first member but the highest partition of each topic."""
    first, last = min(members), max(members)
    computed: Computed = {member_id: set() for member_id in members}
    for topic, count in topics.items():
        computed[first] |= {(topic, number) for number in range(count - 1)}
        computed[last].add((topic, count - 1))
    return computed


class Client:
    """One consumer. It does one thing each time it is called; ``due_ms`` is when it wants to be called."""

    def __init__(
        self,
        world: "World",
        name: str,
        assignors: Mapping[str, Assignor],
        *,
        eager: bool,
        instance_id: str | None = None,
    ) -> None:
        self.world, self.name, self.assignors, self.eager = world, name, assignors, eager
        self.instance_id = instance_id
        self.member_id, self.generation = "", -1
        self.owned: Owned = frozenset()
        self.alive = True
        self.dead_since_ms: int | None = None
        self.waits = False
        self.due_ms = world.now_ms
        self.syncs = 0
        self.computes = 0
        self.leads = False
        self._heard_ms = world.now_ms
        self._leads: Computed | None = None
        self._protocol: str | None = None
        self._joins = True

    def act(self) -> None:
        """Send what is due."""
        if self._joins:
            self._join()
        else:
            self._heartbeat()

    def _join(self) -> None:
        if self.eager or not self.member_id:
            self.owned = frozenset()
        self.world.check(f"{self.name} joins")
        subscription = ConsumerProtocolSubscription(
            topics=tuple(self.world.topics),
            owned_partitions=by_topic(self.owned),
            generation_id=self.generation,
        )
        self.waits = True
        self.due_ms = NEVER
        self.world.send(
            self,
            JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=tuple(
                    JoinGroupRequestProtocol(name=name, metadata=encode_subscription(subscription, 2))
                    for name in self.assignors
                ),
            ),
            self._joined,
        )

    def _joined(self, response) -> None:
        self.waits = False
        if response.error_code:
            self._failed(response.error_code)
            return
        self.member_id, self.generation = response.member_id, response.generation_id
        self.world.known_as[self.member_id] = self.instance_id or self.member_id
        self._protocol = response.protocol_name
        self._leads = None
        self.leads = response.leader == self.member_id
        if response.leader == self.member_id:
            members = {m.member_id: decode_subscription(m.metadata)[1] for m in response.members}
            self._leads = self.assignors[response.protocol_name](members, self.world.topics)
            self.computes += 1
            self.world.told.append({m: partitions_in(s.owned_partitions) for m, s in members.items()})
        assignments = tuple(
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(
                    ConsumerProtocolAssignment(assigned_partitions=by_topic(part)), 1
                ),
            )
            for member_id, part in (self._leads or {}).items()
        )
        self.world.send(
            self,
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_name=self._protocol,
                assignments=assignments,
            ),
            self._synced,
        )

    def _synced(self, response) -> None:
        if response.error_code:
            self._failed(response.error_code)
            return
        if self._leads is not None:
            self.world.computed = self._leads
        assigned = frozenset(partitions_in(decode_assignment(response.assignment)[1].assigned_partitions))
        self.syncs += 1
        self._heard_ms = self.world.now_ms
        gives_up = self.owned - assigned
        self.owned = assigned
        self.world.check(f"{self.name} has its assignment")
        self._joins = bool(gives_up)
        self.due_ms = self.world.now_ms + (0 if gives_up else HEARTBEAT_MS)

    def _heartbeat(self) -> None:
        self.world.send(
            self,
            HeartbeatRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            ),
            self._heard,
        )

    def _heard(self, response) -> None:
        if response.error_code:
            self._failed(response.error_code)
            return
        self._heard_ms = self.world.now_ms
        self.due_ms = self.world.now_ms + HEARTBEAT_MS

    def _failed(self, code: int) -> None:
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self.alive, self.owned = False, frozenset()
            return
        if code not in {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            self.member_id, self.generation, self.owned = "", -1, frozenset()
        self._joins = True
        self.due_ms = self.world.now_ms + self.world.random.choice((0, 0, 100, 1_000))

    def leave(self) -> None:
        """Close: give everything up, and leave the group."""
        self.alive, self.owned = False, frozenset()
        if self.member_id:
            one = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
            self.world.send(self, LeaveGroupRequest(group_id=GROUP, members=(one,)), lambda _: None)
        self.world.disconnect(self)

    def die(self) -> None:
        """Be killed, or hang: what it owned is not free before its session has ended."""
        self.alive = False
        self.dead_since_ms = self._heard_ms if not self.waits else self.world.now_ms
        self.world.disconnect(self)


class World:
    """The group, its clients, the clock and the check."""

    def __init__(self, seed: int, topics: dict[str, int], settings: HostedSettings | None = None) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible on purpose
        self.now_ms = 0
        self.topics = topics
        self.clients: list[Client] = []
        self.told: list[dict[str, set[tuple[str, int]]]] = []
        self.computed: Computed = {}
        self.known_as: dict[str, str] = {}
        """By member id: the instance id of a static member, which inherits what was computed for the one before."""
        self._ids = 0
        self._waiting: dict[int, tuple[Client, Callable]] = {}
        self._calls = 0
        self.room = HostedGroups(
            settings or HostedSettings(), new_id=self._new_id, uuids=SeededUuids(seed), now_ms=-NEVER
        )

    def _new_id(self) -> str:
        self._ids += 1
        return f"hosted-{self._ids:03}"

    def add(self, name: str, assignors: Mapping[str, Assignor], *, eager: bool, **more) -> Client:
        """Start a client."""
        client = Client(self, name, assignors, eager=eager, **more)
        self.clients.append(client)
        return client

    def send(self, client: Client, message, on_answer: Callable) -> None:
        """Hand a call to the room, and all answers to their clients."""
        self._calls += 1
        self._waiting[self._calls] = client, on_answer
        call = HostedCall(key=self._calls, connection=client.name, version=JOIN_VERSION)
        self._deliver(self.room.handle(call, message, self.now_ms))

    def disconnect(self, client: Client) -> None:
        """The client's connection ends."""
        self._deliver(self.room.client_gone(client.name, self.now_ms))

    def _deliver(self, answers: list[HostedAnswer]) -> None:
        for answer in answers:
            version = answer.call.version if isinstance(answer.message, JoinGroupResponse) else 3
            encode(answer.message, version)
            client, on_answer = self._waiting.pop(answer.call.key)
            if client.alive:
                on_answer(answer.message)

    def run(self, ms: int) -> None:
        """Let time pass."""
        end_ms = self.now_ms + ms
        while True:
            due = [
                (client.due_ms, n)
                for n, client in enumerate(self.clients)
                if client.alive and not client.waits
            ]
            room_due = self.room.next_deadline_ms()
            next_ms = min([when for when, _ in due] + ([] if room_due is None else [room_due]), default=NEVER)
            if next_ms > end_ms:
                self.now_ms = end_ms
                return
            self.now_ms = max(self.now_ms, next_ms)
            if room_due is not None and room_due <= self.now_ms:
                self._deliver(self.room.advance(self.now_ms))
                continue
            ready = [n for when, n in due if when <= self.now_ms]
            self.clients[self.random.choice(ready)].act()

    def owners(self) -> dict[tuple[str, int], list[str]]:
        """Who believes to own each partition; a dead client does until its session ends."""
        found: dict[tuple[str, int], list[str]] = {}
        for client in self.clients:
            died = client.dead_since_ms
            if client.alive or (died is not None and self.now_ms < died + SESSION_MS):
                for one in client.owned:
                    found.setdefault(one, []).append(client.name)
        return found

    def check(self, when: str) -> None:
        """No partition has two owners."""
        twice = {one: names for one, names in self.owners().items() if len(names) > 1}
        assert not twice, f"at {self.now_ms} ms, as {when}: {twice}"

    def settled(self) -> None:
        """Every partition has an owner, and each client has what the last leader computed for it."""
        alive = {self.known_as[one.member_id]: set(one.owned) for one in self.clients if one.alive}
        computed = {self.known_as[member_id]: part for member_id, part in self.computed.items()}
        everything = {(topic, number) for topic, count in self.topics.items() for number in range(count)}
        assert set().union(*alive.values()) == everything, alive
        assert alive == {one: part for one, part in computed.items() if one in alive}
