"""The members that are attacked: one dynamic and one static, who do what clients do, a step at a time.

A step never waits for another member, so that a rebalance goes on while a caller waits for its answer.
"""

import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kio.schema.consumer_protocol_assignment.v1.data import ConsumerProtocolAssignment, TopicPartition
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from support.raw import RawConnection
from support.raw_member import embedded
from support.waiting import eventually

from .target import INSTANCE_ID, PARTITIONS, Known, Target, join_group, message

REBALANCE = "a rebalance"
OFFSET_OF_MEMBERS = 1
"""What they commit."""


class Member(Protocol):
    """A member, of whichever protocol."""

    member_id: str
    generation: int
    instance_id: str | None
    holds: frozenset[int]
    heard: list[str]
    """What it was told besides that all is well, each once."""
    at_rest: bool
    """Whether it is a member and in no rebalance."""
    out: bool
    """Whether it has heard that it is no member, or hears nothing any more."""
    is_to_join: bool
    """Whether it has heard that it is to join again, and has not begun to."""

    def start_to_join(self) -> None:
        """The call that begins a membership, or with which it joins again."""

    def step(self) -> None:
        """What a client does next; returns without waiting for other members."""

    def commit(self, partition: int) -> str:
        """Commit an offset; the error's name."""

    def close(self) -> None:
        """End its connection."""


def name_of(code: int) -> str:
    """An error as the protocol guide writes it."""
    return ErrorCode(code).name.upper()


class _Connected:
    """What members of both protocols have."""

    def __init__(
        self, connect: Callable[[], RawConnection], group: str, topic: str, instance_id: str | None
    ) -> None:
        self._connect = connect
        self._connection = connect()
        self._group = group
        self._topic = topic
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.holds: frozenset[int] = frozenset()
        self.heard: list[str] = []
        self.at_rest = False
        self.out = False
        self.is_to_join = False

    def step(self) -> None:
        """See Member."""
        if self.out or self.is_to_join:
            return
        try:
            self._step()
        except ConnectionError:
            self._out("disconnected")
        except TimeoutError:
            self._out("not answered")

    def close(self) -> None:
        """See Member."""
        self._connection.close()

    def _step(self) -> None:
        raise NotImplementedError

    def _hear(self, what: str) -> None:
        if what not in self.heard:
            self.heard.append(what)

    def _out(self, what: str) -> None:
        self._hear(what)
        self.at_rest, self.out = False, True

    def _commit(self, version: int, partition: int) -> str:
        at = message(
            "offset_commit",
            version,
            "OffsetCommitRequestPartition",
            partition_index=partition,
            committed_offset=OFFSET_OF_MEMBERS,
            committed_metadata=None,
        )
        request = message(
            "offset_commit",
            version,
            group_id=self._group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=(
                message(
                    "offset_commit", version, "OffsetCommitRequestTopic", name=self._topic, partitions=(at,)
                ),
            ),
        )
        try:
            return name_of(self._connection.call(request).topics[0].partitions[0].error_code)
        except OSError as error:
            return type(error).__name__


class ClassicMember(_Connected):
    """JoinGroup v5, SyncGroup v3, Heartbeat v4, with range and eagerly; leads if the coordinator says so."""

    _waits_for: Any = None  # the request whose answer it waits for: JoinGroup or SyncGroup

    def start_to_join(self) -> None:
        """See Member. A dynamic member is given its id before its first JoinGroup."""
        self.is_to_join = False
        if self.instance_id is None and not self.member_id:
            self.member_id = self._connection.call(join_group(self._group, 5, [self._topic])).member_id
        self._join()

    def commit(self, partition: int) -> str:
        """See Member."""
        return self._commit(7, partition)

    def _step(self) -> None:
        if self._waits_for is not None:
            if self._connection.has_answer():
                self._go_on(self._connection.receive(self._waits_for))
            return
        request = message(
            "heartbeat",
            4,
            group_id=self._group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self._judge(self._connection.call(request).error_code)

    def _judge(self, code: int) -> None:
        if code in {ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation}:
            self._hear(REBALANCE)  # clients take both as a reason to join again under the same id
            self.at_rest, self.is_to_join = False, True
        elif code != ErrorCode.none:
            self._out(name_of(code))

    def _go_on(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.coordinator_not_available:
            self._connection.close()  # as Java does, which then looks for the coordinator
            self._connection, self._waits_for = self._connect(), None
            self.at_rest, self.is_to_join = False, True
        elif answer.error_code != ErrorCode.none:
            self._waits_for = None
            self._judge(answer.error_code)
        elif hasattr(answer, "generation_id"):
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self._sync(
                [member.member_id for member in answer.members] if answer.leader == self.member_id else []
            )
        else:
            self.holds = partitions_in(answer.assignment)
            self._waits_for, self.at_rest = None, True

    def _join(self) -> None:
        self.at_rest = False
        self._send(
            join_group(self._group, 5, [self._topic], member_id=self.member_id, instance_id=self.instance_id)
        )

    def _sync(self, members: list[str]) -> None:
        order = sorted(members, key=lambda member: (member != self.member_id, member))
        shares = {member: range(turn, PARTITIONS, len(order)) for turn, member in enumerate(order)}
        self._send(
            message(
                "sync_group",
                3,
                group_id=self._group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                assignments=tuple(
                    message(
                        "sync_group",
                        3,
                        "SyncGroupRequestAssignment",
                        member_id=member,
                        assignment=assignment_of(self._topic, share),
                    )
                    for member, share in shares.items()
                ),
            )
        )

    def _send(self, request: Any) -> None:
        self._waits_for = request
        self._connection.send(request)


class NativeMember(_Connected):
    """ConsumerGroupHeartbeat v1; gives up at once what is withdrawn."""

    def __init__(
        self,
        connect: Callable[[], RawConnection],
        group: str,
        topic: str,
        instance_id: str | None,
        topic_id: uuid.UUID,
    ) -> None:
        super().__init__(connect, group, topic, instance_id)
        self._topic_id = topic_id
        self.member_id = str(uuid.uuid4())

    def start_to_join(self) -> None:
        """See Member."""
        self.generation = 0
        self.step()

    def commit(self, partition: int) -> str:
        """See Member."""
        return self._commit(9, partition)

    def _step(self) -> None:
        answer = self._heartbeat(full=self.generation == 0)
        while answer.error_code == ErrorCode.none and answer.assignment is not None:
            at = frozenset(
                number for topic in answer.assignment.topic_partitions for number in topic.partitions
            )
            if at == self.holds:
                break
            self.holds = at
            self._hear(REBALANCE)
            answer = self._heartbeat(full=True)
        if answer.error_code == ErrorCode.fenced_member_epoch:
            self._out(name_of(ErrorCode.unknown_member_id))  # as a translated member is told
        elif answer.error_code != ErrorCode.none:
            self._out(name_of(answer.error_code))
        self.at_rest = not self.out

    def _heartbeat(self, *, full: bool) -> Any:
        owned = (
            message(
                "consumer_group_heartbeat", 1, "TopicPartitions",
                topic_id=self._topic_id, partitions=tuple(sorted(self.holds)),
            ),
        )  # fmt: skip
        fields = {
            "rebalance_timeout": dt.timedelta(seconds=30),
            "subscribed_topic_names": (self._topic,),
            "topic_partitions": owned if self.holds else (),
        }
        answer = self._connection.call(
            message(
                "consumer_group_heartbeat",
                1,
                **{
                    "group_id": self._group,
                    "member_id": self.member_id,
                    "member_epoch": self.generation,
                    "instance_id": self.instance_id,
                    "topic_partitions": None,
                    **(fields if full else {}),
                },
            )
        )
        if answer.error_code == ErrorCode.none:
            self.generation = answer.member_epoch
        return answer


class Members:
    """Both members of one group."""

    def __init__(self, dynamic: Member, static: Member, group: str) -> None:
        self.by_role: Mapping[str, Member] = {"dynamic": dynamic, "static": static}
        self._dynamic, self._static = dynamic, static
        self._group = group

    def step(self) -> None:
        """A step of each.

        When one hears of a rebalance the other is asked too, and they join one after another, the dynamic one first. So
        what a caller is answered in the same rebalance does not depend on who happened to hear of it.
        """
        members = self.by_role.values()
        for member in members:
            member.step()
        if any(member.is_to_join for member in members):
            for member in members:
                member.step()
        self._let_one_join()

    def _let_one_join(self) -> None:
        waiting = [member for member in self.by_role.values() if member.is_to_join]
        if waiting:
            waiting[0].start_to_join()

    @property
    def settled(self) -> bool:
        """Whether each is a member at rest, or none any more."""
        return all(member.at_rest or member.out for member in self.by_role.values())

    def join(self) -> None:
        """Both join, the dynamic one first, which so becomes the leader where there is one; until both have a half."""
        self._dynamic.start_to_join()
        self._until([self._dynamic], PARTITIONS)
        self._static.start_to_join()
        self._until([self._dynamic, self._static], PARTITIONS // 2)
        for member in self.by_role.values():
            member.heard.clear()

    def _until(self, members: list[Member], share: int) -> None:
        def look() -> list[tuple[int, bool, list[str]]]:
            for member in members:
                member.step()
            self._let_one_join()
            return [(len(one.holds), one.at_rest, one.heard) for one in members]

        eventually(
            look,
            lambda seen: all((holds, at_rest) == (share, True) for holds, at_rest, _ in seen),
            what=f"the members of {self._group} share the partitions",
            between_s=0.2,
        )

    def as_target(self, key: str, topic_id: uuid.UUID, epochs: Mapping[str, int]) -> Target:
        """What there is to know; `epochs` are member epochs as the broker shows them, where it has such."""
        dynamic, static = (
            Known(one.member_id, epochs.get(one.member_id, one.generation), one.instance_id)
            for one in (self._dynamic, self._static)
        )
        return Target(self._group, key, topic_id, dynamic, static)

    def close(self) -> None:
        """End both connections."""
        for member in self.by_role.values():
            member.close()


def classic_members(connect: Callable[[], RawConnection], group: str, topic: str) -> Members:
    """They join by JoinGroup."""
    dynamic, static = (ClassicMember(connect, group, topic, who) for who in (None, INSTANCE_ID))
    return Members(dynamic, static, group)


def native_members(
    connect: Callable[[], RawConnection], group: str, topic: str, topic_id: uuid.UUID
) -> Members:
    """They join by ConsumerGroupHeartbeat."""
    dynamic, static = (NativeMember(connect, group, topic, who, topic_id) for who in (None, INSTANCE_ID))
    return Members(dynamic, static, group)


def partitions_in(assignment: bytes) -> frozenset[int]:
    """The partitions in an embedded assignment of one topic."""
    if not assignment:
        return frozenset()
    read, _ = entity_reader(ConsumerProtocolAssignment)(assignment, 2)
    return frozenset(number for topic in read.assigned_partitions for number in topic.partitions)


def assignment_of(topic: str, share: range) -> bytes:
    """An embedded assignment."""
    given = (TopicPartition(topic=topic, partitions=tuple(share)),) if share else ()
    return embedded(ConsumerProtocolAssignment(assigned_partitions=given, user_data=None))
