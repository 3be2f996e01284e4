"""An attacker that knows every id of a group and attacks it with every kind of call.

It takes the ids for its requests from the world: the member ids, instance ids, generations and epochs of this moment.
It follows no protocol, waits for no answer, and leaves connections open, half-closed or abandoned at random.

Its actions and the delays of its connections come from a random source of their own: the history is the same without
it, unless the proxy lets it make a difference.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol_codecs.messages.describe_groups import DescribeGroupsRequest
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol_codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol_codecs.messages.sync_group import SyncGroupRequest
from protocol_codecs.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.simulation.authorizer import OPEN_GROUP, PRINCIPALS, Principal
from tests.simulation.clients.habits import JAVA_COOPERATIVE, JAVA_EAGER
from tests.simulation.clients.speech import commit_request, join_request
from tests.simulation.kernel import Kernel
from tests.simulation.network import Link
from tests.simulation.watch import Watch
from tests.simulation.wire import GROUP, Ask, Reply

UNKNOWN_TOPIC = "nobody-has-this-topic"
REBALANCE_TIMEOUT_MS = 66_666
"""No other client declares this value, so it identifies requests that contain an attacker's fields."""

_STALLS_MS = (3_000, 20_000, 10**8)
"""The delays of the broker's answers on a stalled connection; the last one is infinite."""


class HostilePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One attacker. ``principal`` is a name in :mod:`tests.simulation.authorizer`.

    With READ on the group Kafka would let it do anything to the members, even end them all. Then it sends only calls
    that disturb nobody in Kafka, on connections that it does not read: ``stalls`` is true. They go to the process that
    serves their victim, because another one would adopt the member.
    """

    name: str
    principal: str
    starts_ms: int
    pause_ms: int
    """The longest time between two of its moves."""

    @property
    def stalls(self) -> bool:
        """Whether it has READ on the group, and so only stalls its connections."""
        return PRINCIPALS[self.principal].reads_group


class Victim(msgspec.Struct, frozen=True):
    """The known ids of a member at this moment."""

    member_id: str
    instance_id: str | None
    generation: int
    topics: tuple[str, ...]


class Surroundings(Protocol):
    """The interface of the world that an attacker uses."""

    kernel: Kernel
    watch: Watch

    def victims(self) -> list[Victim]:
        """Return all current and former members."""
        ...

    def victims_at(self, link: Link) -> list[Victim]:
        """Return the members that are served by the process that this connection reaches."""
        ...

    def dial_as(self, hostile: "Hostile") -> Link | None:
        """Connect to any process of the proxy; None if it is down."""
        ...

    def stall_answers(self, link: Link, for_ms: int) -> None:
        """Stop reading on this connection: the broker's answers on it get stuck."""
        ...


class Hostile:
    """An attacker's client; see the module."""

    def __init__(self, plan: HostilePlan, world: Surroundings, seed: int) -> None:
        self.name = plan.name
        self.host = f"/{plan.name}"
        self.plan = plan
        self.principal: Principal = PRINCIPALS[plan.principal]
        self.chance = random.Random(f"{seed} {plan.name}")  # noqa: S311  reproducible on purpose
        self.links = 0
        self._world = world
        self._kernel = world.kernel
        self._open: list[Link] = []
        self._last_number = 0
        self._stopped = False

    def __repr__(self) -> str:
        return self.name

    def delay_ms(self) -> int:
        """Return the delay of a message on its connections."""
        return self.chance.randint(1, 8)

    # -- what it does ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Attack until :meth:`stop`."""
        if not self._stopped:
            if self.plan.stalls:
                self._stall()
            else:
                self._attack()
            self._kernel.after(self.chance.randint(1, self.plan.pause_ms), self.start)

    def stop(self) -> None:
        """Close every connection and end."""
        self._stopped = True
        for link in list(self._open):
            self._close(link)

    def _attack(self) -> None:
        """Send one or several calls, on a new connection or on an existing one."""
        link = self._any_link()
        if link is None:
            return
        for _ in range(self.chance.choice((1, 1, 1, 2, 4))):
            self._say(link, *self._call(_CALLS, self._world.victims()))
        if self.chance.random() < 0.3:
            self._close(link)

    def _stall(self) -> None:
        """Prove its READ right, then stop reading, and then send a call in a member's name."""
        if len(self._open) > 2:
            self._close(self._open[0])
        link = self._dial()
        if link is None:
            return
        stranger = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="nobody-has-this-id")
        self._say(link, ApiKey.HEARTBEAT, 4, stranger)
        self._kernel.after(self.chance.randint(20, 500), self._speak_and_stall, link)

    def _speak_and_stall(self, link: Link) -> None:
        if link not in self._open:
            return
        if self.chance.random() < 0.8:  # before its call is read, or while the broker is asked for it
            self._kernel.after(self.chance.choice((0, self.chance.randint(1, 40))), self._stop_reading, link)
        self._kernel.after(1, self._speak, link)

    def _stop_reading(self, link: Link) -> None:
        for_ms = self.chance.choice(_STALLS_MS)
        self._world.watch.aside(self, f"reads nothing on {link} for {for_ms} ms")
        self._world.stall_answers(link, for_ms)

    def _speak(self, link: Link) -> None:
        if link not in self._open:
            return
        for _ in range(self.chance.randint(1, 2)):
            victims = self._world.victims_at(link)
            self._say(link, *self._call(_CALLS_THAT_KAFKA_LETS_DISTURB_NOBODY, victims))

    def _call(self, kinds: Sequence["Kind"], victims: list[Victim]) -> tuple[ApiKey, int, Any]:
        victim = self.chance.choice(victims or [Victim("epochgate-m1", None, 1, ("orders",))])
        return self.chance.choice(kinds)(self.chance, victim)

    # -- connections -----------------------------------------------------------------------------------------------

    def _any_link(self) -> Link | None:
        if self._open and self.chance.random() < 0.6:
            return self.chance.choice(self._open)
        return self._dial() if len(self._open) < 4 else None

    def _dial(self) -> Link | None:
        link = self._world.dial_as(self)
        if link is not None:
            self._open.append(link)
        return link

    def _close(self, link: Link) -> None:
        self._open.remove(link)
        link.close(self)

    def _say(self, link: Link, api_key: ApiKey, version: int, message: Any) -> None:
        self._last_number += 1
        self._world.watch.aside(self, f"-> {link}", message)
        link.send(self, Ask(self._last_number, api_key, version, self.name, message))

    def received(self, link: Link, reply: Reply) -> None:
        """Ignore the answer."""

    def disconnected(self, link: Link) -> None:
        if link in self._open:
            self._open.remove(link)


# -- what it says ------------------------------------------------------------------------------------------------------

Kind = Callable[[random.Random, Victim], tuple[ApiKey, int, Any]]


def _join(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    """Build a JoinGroup in a member's name with fields that would change much."""
    claims = [(topic, index) for topic in victim.topics for index in range(3)]
    request = join_request(
        chance.choice((JAVA_EAGER, JAVA_COOPERATIVE)),
        member_id=victim.member_id,
        instance_id=chance.choice((victim.instance_id, None)),
        generation=chance.choice((-1, victim.generation)),
        topics=victim.topics,
        claims=chance.choice((claims, [])),
        session_timeout_ms=chance.choice((1, 10_000)),
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
    )
    changes: dict[str, Any] = {}
    match chance.randint(0, 5):
        case 0:
            instance_id = victim.instance_id or f"instance-of-{victim.member_id}"
            changes = {"member_id": "", "group_instance_id": instance_id}
        case 1:
            changes = {"member_id": ""}
        case 2 | 3 as which:
            topics = (UNKNOWN_TOPIC,) if which == 2 else victim.topics[:1] if len(victim.topics) > 1 else ()
            request = join_request(
                JAVA_EAGER,
                member_id=victim.member_id,
                instance_id=victim.instance_id,
                generation=victim.generation,
                topics=topics,
                claims=(),
                session_timeout_ms=10_000,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            )
        case 4:
            changes = {"protocol_type": "connect", "member_id": chance.choice(("", victim.member_id))}
        case _:
            changes = {"group_id": chance.choice((GROUP, f"a-group-of-{chance.randint(0, 99)}"))}
    return ApiKey.JOIN_GROUP, chance.choice((2, 5, 9)), msgspec.structs.replace(request, **changes)


def _generation(chance: random.Random, victim: Victim) -> int:
    return victim.generation + chance.choice((0, 0, -1, 1, 7))


def _sync(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=_generation(chance, victim),
        member_id=victim.member_id,
        group_instance_id=victim.instance_id,
    )
    return ApiKey.SYNC_GROUP, 3, request


def _late_sync(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    """Build a SyncGroup with an older generation: with the current one Kafka lets anyone with READ act as leader."""
    api_key, version, request = _sync(chance, victim)
    return api_key, version, msgspec.structs.replace(request, generation_id=victim.generation - 1)


def _heartbeat(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    request = HeartbeatRequest(
        group_id=GROUP,
        generation_id=_generation(chance, victim),
        member_id=victim.member_id,
        group_instance_id=victim.instance_id,
    )
    return ApiKey.HEARTBEAT, 4, request


def _heartbeat_elsewhere(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    """Build a Heartbeat for a group that it may access, which grants nothing in other groups."""
    api_key, version, request = _heartbeat(chance, victim)
    return api_key, version, msgspec.structs.replace(request, group_id=OPEN_GROUP)


def _right_heartbeat(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    """Build a Heartbeat that is valid as the victim's own."""
    api_key, version, request = _heartbeat(chance, victim)
    return api_key, version, msgspec.structs.replace(request, generation_id=victim.generation)


def _leave(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    by_instance = victim.instance_id is not None and chance.random() < 0.5
    identity = MemberIdentity(
        member_id="" if by_instance else victim.member_id, group_instance_id=victim.instance_id
    )
    return ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group_id=GROUP, members=(identity,))


def _commit(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    request = commit_request(
        member_id=victim.member_id,
        instance_id=victim.instance_id,
        generation=_generation(chance, victim),
        offsets={(UNKNOWN_TOPIC, 0): 1},
    )
    return ApiKey.OFFSET_COMMIT, chance.choice((8, 9)), request


def _possible_commit(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    """Build a commit with a generation of the victim: a process that adopts a member trusts the generation."""
    api_key, version, request = _commit(chance, victim)
    generation = victim.generation - chance.choice((0, 0, 1))
    return api_key, version, msgspec.structs.replace(request, generation_id_or_member_epoch=generation)


def _transaction(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = TxnOffsetCommitRequest(
        transactional_id="hostile",
        group_id=GROUP,
        producer_id=1,
        generation_id_or_member_epoch=_generation(chance, victim),
        member_id=victim.member_id,
        group_instance_id=victim.instance_id,
        topics=(TxnOffsetCommitRequestTopic(name=UNKNOWN_TOPIC, partitions=(partition,)),),
    )
    return ApiKey.TXN_OFFSET_COMMIT, 4, request


def _fetch_offsets(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    topics = tuple(OffsetFetchRequestTopics(name=name, partition_indexes=(0,)) for name in victim.topics)
    group = OffsetFetchRequestGroup(
        group_id=GROUP,
        member_id=victim.member_id,
        member_epoch=_generation(chance, victim),
        topics=topics,
    )
    return ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=(group,))


def _describe(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    return ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=(GROUP,))


def _native_heartbeat(chance: random.Random, victim: Victim) -> tuple[ApiKey, int, Any]:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=victim.member_id,
        instance_id=victim.instance_id,
        member_epoch=chance.choice((-2, -1, 0, victim.generation)),
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        subscribed_topic_names=victim.topics,
        topic_partitions=(),
    )
    return ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request


_CALLS: tuple[Kind, ...] = (
    _join,
    _join,
    _join,
    _sync,
    _heartbeat,
    _heartbeat,
    _heartbeat_elsewhere,
    _leave,
    _commit,
    _transaction,
    _fetch_offsets,
    _describe,
    _native_heartbeat,
)
_CALLS_THAT_KAFKA_LETS_DISTURB_NOBODY: tuple[Kind, ...] = (_right_heartbeat, _late_sync, _possible_commit)
