"""A Stable group of classic members made by hand, and the calls that convert its members in place."""

import contextlib
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Self

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i64

from support.broker import GroupView, Kafka
from support.raw_member import Offer, RawMember, Topics
from support.raw_new_member import LEAVE, RawNewMember
from support.waiting import eventually

NO_TOPICS: tuple[str, ...] = ()
SESSION_MS = 45_000


class Classic(RawMember):
    """A classic member that keeps what its last SyncGroup gave it."""

    def __init__(self, kafka: Kafka, group: str, topic: str, *other_topics: str, **options: Any) -> None:
        super().__init__(
            kafka.bootstrap, group, topic, *other_topics, **{"session_timeout_ms": SESSION_MS, **options}
        )
        self.topic = topic
        self.shares: Topics = {}

    @property
    def instance_id(self) -> str | None:
        """Its instance id, if it is a static member."""
        return self._offer.instance_id

    @property
    def owned(self) -> frozenset[int]:
        """Its partitions of its first topic."""
        return self.shares.get(self.topic, frozenset())

    def call(self, request: Any) -> Any:
        """The answer to a request of any API, on its connection."""
        return self._connection.call(request)

    def sync_as(self, assignments: Mapping[str, Topics] | None = None) -> None:
        """SyncGroup, with these assignments if it leads."""
        self.shares = self.sync(assignments=assignments or {})

    def rejoin_alone(self, *, claims: Topics | None = None) -> None:
        """JoinGroup with its true list, or `claims`, and SyncGroup: in a consumer group no other member takes part."""
        self.join(self.shares if claims is None else claims)
        self.sync_as()

    def sync_error(self) -> int:
        """The error code of SyncGroup."""
        return int(self._connection.call(self._sync_request({})).error_code)

    def join_error(self) -> int:
        """The error code of JoinGroup with its true list."""
        return int(self._connection.call(self._join_request(self.shares)).error_code)

    def commit_as(self, version: int, epoch: int | None = None) -> int:
        """The error code of OffsetCommit in this version, with this epoch or its generation."""
        schema = importlib.import_module(f"kio.schema.offset_commit.v{version}.request")
        at = schema.OffsetCommitRequestPartition(
            partition_index=i32(min(self.owned, default=0)), committed_offset=i64(1), committed_metadata=None
        )
        request = schema.OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self.generation if epoch is None else i32(epoch),
            member_id=self.member_id,
            topics=(schema.OffsetCommitRequestTopic(name=self._topic, partitions=(at,)),),
            **({"group_instance_id": self._offer.instance_id} if version >= 7 else {}),
        )
        return int(self._connection.call(request).topics[0].partitions[0].error_code)


class Conversion:
    """A classic group, its helper, and the members that are converted. All connections end with the block.

    Members are called one by one by the test, so their sessions are long: a busy machine must not end one.
    """

    def __init__(self, kafka: Kafka, group: str, *topics: str, partitions: int = 6) -> None:
        self.kafka = kafka
        self.group = group
        self.topics = topics
        self.partitions = partitions
        self.members: list[Classic] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.use_session(SESSION_MS)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def use_session(self, timeout_ms: int) -> None:
        """The session timeout of members of the new protocol in this group."""
        self.kafka.configure_group(self.group, {"consumer.session.timeout.ms": str(timeout_ms)})

    def until_the_coordinator_knows_the_topics(self) -> None:
        """A new topic is in the coordinator's metadata image a moment after its creation; until then it is left out."""
        for topic in self.topics:
            native = self.native(topic=topic).join().until_owns(self.partitions)
            assert native.beat(LEAVE).error_code == ErrorCode.none

    def form(self, count: int = 3, *, offers: Sequence[Offer] | None = None, **options: Any) -> list[Classic]:
        """So many members, Stable, with what range gives them."""
        self.until_the_coordinator_knows_the_topics()
        for number in range(count):
            self.add(offer=offers[number] if offers else None, **options)
        return self.members

    def add(self, **options: Any) -> Classic:
        """One more classic member: it and all others join."""
        joiner = self.connect(**options)
        joiner.send_join()
        for member in self.members:
            until(member, ErrorCode.rebalance_in_progress)
        self.members.append(joiner)
        self.rebalance(joiner)
        return joiner

    def connect(self, **options: Any) -> Classic:
        """A classic member that has not joined yet."""
        return self._stack.enter_context(Classic(self.kafka, self.group, *self.topics, **options))

    def rebalance(self, waiting: Classic | None = None) -> None:
        """All join, with what they own; the leader assigns as range does. `waiting` has sent its JoinGroup already."""
        for member in self.members:
            if member is not waiting:
                member.send_join(member.shares)
        for member in self.members:
            member.receive_join()
        leader = next(member for member in self.members if member.leads)
        leader.sync_as(self.range([member.member_id for member in self.members]))
        for member in self.members:
            if member is not leader:
                member.sync_as()

    def range(self, member_ids: Sequence[str]) -> dict[str, Topics]:
        """What the client-side range assignor gives to these members."""
        size, rest = divmod(self.partitions, len(member_ids))
        shares: dict[str, Topics] = {}
        start = 0
        for number, member_id in enumerate(sorted(member_ids)):
            end = start + size + (number < rest)
            shares[member_id] = {topic: frozenset(range(start, end)) for topic in self.topics}
            start = end
        return shares

    @property
    def generation(self) -> int:
        """That of the classic members, which is the same for all."""
        (generation,) = {int(member.generation) for member in self.members}
        return generation

    def helper(self) -> RawNewMember:
        """A member without topics joins; its epoch is the group's."""
        helper = self.native()
        answer = helper.full(epoch=0, topics=NO_TOPICS)
        assert answer.error_code == ErrorCode.none, answer
        return helper

    def native(
        self, member_id: str | None = None, *, topic: str | None = None, **options: Any
    ) -> RawNewMember:
        """A native member that has sent nothing yet, on a connection of its own."""
        topics = self.topics if topic is None else (topic,)
        return self._stack.enter_context(
            RawNewMember(self.kafka, self.group, *topics, member_id=member_id, **options)
        )

    def convert(self, member: Classic, **options: Any) -> RawNewMember:
        """The member is converted as the procedure says; it keeps epoch and partitions."""
        native = self.native(member.member_id, **options)
        answer = native.full(member.shares, epoch=int(member.generation))
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, member.generation), answer
        assert native.shares == held(member.shares)
        return native

    def convert_all(self) -> list[RawNewMember]:
        """All members are converted."""
        return [self.convert(member) for member in self.members]

    def view(self) -> GroupView:
        """The group as ConsumerGroupDescribe shows it; it must be a consumer group."""
        view = self.kafka.describe(self.group)
        assert view is not None, "it is no consumer group"
        return view

    def types(self) -> dict[str, str]:
        """{member id: classic or consumer}."""
        return {member.member_id: member.member_type for member in self.view().members}

    def classic_state(self) -> str:
        """The state of the classic group."""
        assert self.kafka.describe(self.group) is None, "it is a consumer group"
        return str(self.kafka.describe_classic(self.group).group_state)


def held(shares: Topics) -> dict[str, frozenset[int]]:
    """Without topics of which nothing is owned."""
    return {topic: partitions for topic, partitions in shares.items() if partitions}


def until(member: RawMember, code: int) -> None:
    """Heartbeats until one is answered so."""
    eventually(member.heartbeat, lambda seen: seen == code, what=f"its Heartbeat is answered {code}")


def settle(natives: Sequence[RawNewMember], epoch: int) -> None:
    """Heartbeats of all until each has this epoch: each acknowledges what the answer before it took away."""

    def look() -> set[int]:
        for native in natives:
            answer = native.acknowledge()
            assert answer.error_code == ErrorCode.none, answer
        return {native.epoch for native in natives}

    eventually(look, lambda seen: seen == {epoch}, what=f"all have epoch {epoch}")
