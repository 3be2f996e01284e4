"""What a scenario can do to a coordinator, whichever it is: Kafka's or the embedded one.

A scenario is a function of a :class:`Script`. Every answer goes into the transcript in a normal form, and two
transcripts of the same scenario must be the same. A transcript is plain data, so that those of Kafka can be kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from protocol_codecs import ErrorCode, Uuid
from protocol_codecs import messages as m
from protocol_codecs.message import Message
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)

LATEST = {
    m.ConsumerGroupHeartbeatRequest: 1,
    m.ConsumerGroupDescribeRequest: 1,
    m.JoinGroupRequest: 9,
    m.SyncGroupRequest: 5,
    m.HeartbeatRequest: 4,
    m.LeaveGroupRequest: 5,
    m.DescribeGroupsRequest: 6,
    m.ListGroupsRequest: 5,
    m.DeleteGroupsRequest: 2,
    m.OffsetCommitRequest: 9,
    m.OffsetFetchRequest: 9,
    m.OffsetDeleteRequest: 0,
}
Partitions = dict[str, list[int]]


class Pending(Protocol):
    """A request that may have to wait."""

    def result(self) -> Any: ...
    def arrive(self) -> None: ...
    def is_answered(self) -> bool: ...


class Backend(Protocol):
    """A coordinator with the topics that it knows."""

    def send(self, request: Message, version: int, client_id: str) -> Pending: ...
    def create_topic(self, name: str, partitions: int) -> None: ...
    def delete_topic(self, name: str) -> None: ...
    def create_partitions(self, name: str, count: int) -> None: ...
    def topic_id(self, name: str) -> Uuid: ...
    def topic_name(self, topic_id: Uuid) -> str: ...
    def configure_group(self, group_id: str, settings: dict[str, str]) -> None: ...
    def pass_time(self, ms: int) -> None: ...


@dataclass
class Script:
    """One run of a scenario. Groups, topics and members are given names that are unique to it."""

    backend: Backend
    prefix: str
    transcript: list[Any] = field(default_factory=list)

    @property
    def group_id(self) -> str:
        return f"{self.prefix}-group"

    def note(self, step: str, answer: Any) -> None:
        """Put an answer into the transcript."""
        self.transcript.append([step, answer])

    # The surroundings

    def topic(self, name: str, partitions: int) -> None:
        """Create a topic."""
        self.backend.create_topic(self.full(name), partitions)

    def delete_topic(self, name: str) -> None:
        self.backend.delete_topic(self.full(name))

    def add_partitions(self, name: str, count: int) -> None:
        self.backend.create_partitions(self.full(name), count)

    def configure(self, **settings: int) -> None:
        """Set the group's timeouts; ``interval=0`` computes assignments at once."""
        names = {
            "interval": "consumer.assignment.interval.ms",
            "session": "consumer.session.timeout.ms",
            "heartbeat": "consumer.heartbeat.interval.ms",
        }
        self.backend.configure_group(self.group_id, {names[k]: str(v) for k, v in settings.items()})

    def pass_time(self, ms: int) -> None:
        self.backend.pass_time(ms)

    def full(self, topic: str) -> str:
        return f"{self.prefix}-{topic}"

    def short(self, name: str) -> str:
        return name.removeprefix(f"{self.prefix}-")

    def member(self, name: str, **options: Any) -> "Member":
        """A client that speaks the new protocol."""
        return Member(self, name, f"{self.prefix}-{name}", **options)

    def classic(self, name: str, **options: Any) -> "Classic":
        """A client that speaks the classic protocol."""
        return Classic(self, name, **options)

    # Requests of nobody in particular

    def call(self, request: Message, version: int | None = None, client_id: str = "script") -> Any:
        return self._send(request, version, client_id).result()

    def send(self, request: Message, version: int | None = None, client_id: str = "script") -> Pending:
        """Send a request that may have to wait, and give it the time to arrive."""
        pending = self._send(request, version, client_id)
        pending.arrive()
        return pending

    def _send(self, request: Message, version: int | None, client_id: str) -> Pending:
        return self.backend.send(request, LATEST[type(request)] if version is None else version, client_id)

    def describe(self) -> Any:
        """The group as a consumer group."""
        response = self.call(m.ConsumerGroupDescribeRequest(group_ids=(self.group_id,)))
        group = response.groups[0]
        described = {
            "error": error_name(group.error_code),
            "state": group.group_state,
            "group_epoch": group.group_epoch,
            "assignment_epoch": group.assignment_epoch,
            "assignor": group.assignor_name,
            "members": sorted((self._described(member) for member in group.members), key=lambda d: d["id"]),
        }
        self.note("describe", described)
        return described

    def _described(self, member: m.ConsumerGroupDescribeResponseMember) -> dict[str, Any]:
        return {
            "id": self.short(member.member_id),
            "instance": member.instance_id,
            "rack": member.rack_id,
            "epoch": member.member_epoch,
            "client": member.client_id,
            "topics": sorted(map(self.short, member.subscribed_topic_names)),
            "regex": member.subscribed_topic_regex,
            "type": member.member_type,
            "assignment": self.by_name(member.assignment.topic_partitions),
            "target": self.by_name(member.target_assignment.topic_partitions),
        }

    def describe_classic(self, version: int | None = None) -> None:
        """The group as a classic group."""
        response = self.call(m.DescribeGroupsRequest(groups=(self.group_id,)), version)
        group = response.groups[0]
        self.note(
            "describe classic",
            {
                "error": error_name(group.error_code),
                "state": group.group_state,
                "protocol": [group.protocol_type, group.protocol_data],
                "members": sorted(
                    [
                        self.short(member.member_id),
                        member.group_instance_id,
                        member.member_metadata.hex(),
                        self.embedded(member.member_assignment),
                    ]
                    for member in group.members
                ),
            },
        )

    def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> None:
        """This scenario's group in a list of groups."""
        response = self.call(m.ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types)))
        self.note(
            "list",
            [
                [group.protocol_type, group.group_state, group.group_type]
                for group in response.groups
                if group.group_id == self.group_id
            ],
        )

    def delete_group(self) -> None:
        response = self.call(m.DeleteGroupsRequest(groups_names=(self.group_id,)))
        self.note("delete group", error_name(response.results[0].error_code))

    def offsets(self, topics: Partitions | None = None, *, version: int = 9, member: Any = None) -> None:
        """Read committed offsets: all of them, or those of some partitions."""
        asked = None
        if topics is not None:
            asked = tuple(
                m.OffsetFetchRequestTopics(name=self.full(name), partition_indexes=tuple(numbers))
                for name, numbers in topics.items()
            )
        group = m.OffsetFetchRequestGroup(group_id=self.group_id, topics=asked)
        if member is not None:
            group = m.OffsetFetchRequestGroup(
                group_id=self.group_id, topics=asked, member_id=member[0], member_epoch=member[1]
            )
        answer = self.call(m.OffsetFetchRequest(groups=(group,), require_stable=False), version).groups[0]
        self.note(
            "offsets",
            [
                error_name(answer.error_code),
                sorted(
                    [self.short(t.name), p.partition_index, p.committed_offset, p.metadata, error_name(p.error_code)]
                    for t in answer.topics
                    for p in t.partitions
                ),
            ],
        )

    def delete_offsets(self, topics: Partitions) -> None:
        answer = self.call(
            m.OffsetDeleteRequest(
                group_id=self.group_id,
                topics=tuple(
                    m.OffsetDeleteRequestTopic(
                        name=self.full(name),
                        partitions=tuple(m.OffsetDeleteRequestPartition(partition_index=n) for n in numbers),
                    )
                    for name, numbers in topics.items()
                ),
            )
        )
        self.note(
            "delete offsets",
            [
                error_name(answer.error_code),
                sorted(
                    [self.short(t.name), p.partition_index, error_name(p.error_code)]
                    for t in answer.topics
                    for p in t.partitions
                ),
            ],
        )

    def commit(
        self,
        who: str,
        topics: dict[str, dict[int, int]],
        *,
        epoch: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
        version: int = 9,
        metadata: str = "",
    ) -> None:
        """Commit offsets, as anybody."""
        by_id = version >= 10
        response = self.call(
            m.OffsetCommitRequest(
                group_id=self.group_id,
                generation_id_or_member_epoch=epoch,
                member_id=member_id,
                group_instance_id=instance_id,
                topics=tuple(
                    m.OffsetCommitRequestTopic(
                        name="" if by_id else self.full(name),
                        topic_id=self.backend.topic_id(self.full(name)) if by_id else Uuid(bytes(16)),
                        partitions=tuple(
                            m.OffsetCommitRequestPartition(
                                partition_index=n, committed_offset=offset, committed_metadata=metadata
                            )
                            for n, offset in offsets.items()
                        ),
                    )
                    for name, offsets in topics.items()
                ),
            ),
            version,
        )
        self.note(
            f"{who} commits",
            sorted(
                [p.partition_index, error_name(p.error_code)]
                for topic in response.topics
                for p in topic.partitions
            ),
        )

    # Normal forms

    def by_name(self, topics: Any) -> Partitions:
        """Topics with their partitions, by name; of topics that are gone, by what is left of their name."""
        return {
            self.short(self.backend.topic_name(topic.topic_id)): sorted(topic.partitions)
            for topic in sorted(topics, key=lambda t: self.backend.topic_name(t.topic_id))
        }

    def embedded(self, content: bytes) -> Partitions | None:
        """An embedded assignment by short names."""
        if not content:
            return None
        _, assignment = decode_assignment(content)
        return {
            self.short(topic.topic): sorted(topic.partitions)
            for topic in sorted(assignment.assigned_partitions, key=lambda t: t.topic)
        }


def error_name(code: int) -> str:
    return ErrorCode(code).name


@dataclass
class Member:
    """A member of the new protocol that remembers its epoch and what it was assigned."""

    script: Script
    name: str
    member_id: str
    topics: Sequence[str] | None = ("foo",)
    regex: str | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int = 30_000
    version: int = 1
    epoch: int = 0
    assigned: Partitions = field(default_factory=dict)

    def heartbeat(self, step: str, epoch: int, **fields: Any) -> Any:
        """Send a heartbeat with exactly these fields."""
        response = self.script.call(
            m.ConsumerGroupHeartbeatRequest(
                group_id=self.script.group_id,
                member_id=self.member_id,
                member_epoch=epoch,
                instance_id=self.instance_id,
                **fields,
            ),
            self.version,
            self.name,
        )
        assignment = response.assignment
        told = None if assignment is None else self.script.by_name(assignment.topic_partitions)
        answer = {
            "error": error_name(response.error_code),
            "epoch": response.member_epoch,
            "interval": response.heartbeat_interval_ms,
            "assignment": told,
        }
        self.script.note(f"{self.name} {step}", answer)
        if response.error_code == 0:
            self.epoch = response.member_epoch
            if told is not None:
                self.assigned = told
        return answer

    def join(self, **changes: Any) -> Any:
        """Join, or join again."""
        return self.heartbeat("joins", 0, **self._full(owned={}) | changes)

    def beat(self, **changes: Any) -> Any:
        """A plain heartbeat: nothing has changed."""
        return self.heartbeat("beats", self.epoch, **changes)

    def ack(self, owned: Partitions | None = None, **changes: Any) -> Any:
        """Say what is owned: by default all that was assigned, and no more."""
        owned = self.assigned if owned is None else owned
        return self.heartbeat("owns", self.epoch, topic_partitions=self._owned(owned), **changes)

    def full(self, owned: Partitions | None = None, epoch: int | None = None) -> Any:
        """Tell everything, as after an error."""
        owned = self.assigned if owned is None else owned
        return self.heartbeat("tells all", self.epoch if epoch is None else epoch, **self._full(owned))

    def subscribe(self, *topics: str) -> Any:
        """Change the subscription."""
        self.topics = topics
        return self.heartbeat("subscribes", self.epoch, subscribed_topic_names=self._names())

    def leave(self, epoch: int = -1) -> Any:
        return self.heartbeat("leaves", epoch)

    def commit(self, topics: dict[str, dict[int, int]], *, epoch: int | None = None, version: int = 9) -> None:
        self.script.commit(
            self.name,
            topics,
            epoch=self.epoch if epoch is None else epoch,
            member_id=self.member_id,
            instance_id=self.instance_id,
            version=version,
        )

    def settle(self, rounds: int = 1) -> None:
        """Heartbeat and do what is asked, as a client would."""
        for _ in range(rounds):
            self.beat()
            self.ack()

    def _full(self, owned: Partitions) -> dict[str, Any]:
        return {
            "rack_id": self.rack_id,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": self._names(),
            "subscribed_topic_regex": self._regex(),
            "server_assignor": self.assignor,
            "topic_partitions": self._owned(owned),
        }

    def _names(self) -> tuple[str, ...] | None:
        return None if self.topics is None else tuple(self.script.full(topic) for topic in self.topics)

    def _regex(self) -> str | None:
        return None if self.regex is None else self.script.full(self.regex) if self.regex else ""

    def _owned(self, owned: Partitions) -> tuple[m.ConsumerGroupHeartbeatRequestTopicPartitions, ...]:
        return tuple(
            m.ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=self.script.backend.topic_id(self.script.full(name)), partitions=tuple(numbers)
            )
            for name, numbers in owned.items()
        )


@dataclass
class Classic:
    """A classic member that remembers its id, its generation and what it was assigned."""

    script: Script
    name: str
    topics: Sequence[str] = ("foo",)
    instance_id: str | None = None
    protocols: Sequence[str] = ("range",)
    protocol_type: str = "consumer"
    session_timeout_ms: int = 30_000
    rebalance_timeout_ms: int = 30_000
    version: int = 9
    embedded_version: int = 3
    user_data: bytes | None = None
    rack_id: str | None = None
    member_id: str = ""
    generation: int = -1
    assigned: Partitions = field(default_factory=dict)
    others: tuple[str, ...] = ()
    is_leader: bool = False

    def send_join(self, owned: Partitions | None = None, **changes: Any) -> Pending:
        """Send a JoinGroup; :meth:`joined` takes the answer."""
        metadata = encode_subscription(
            ConsumerProtocolSubscription(
                topics=tuple(self.script.full(topic) for topic in self.topics),
                user_data=self.user_data,
                owned_partitions=self._named(self.assigned if owned is None else owned),
                generation_id=self.generation if self.embedded_version >= 2 else -1,
                rack_id=self.rack_id,
            ),
            self.embedded_version,
        )
        fields = {
            "group_id": self.script.group_id,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms if self.version >= 1 else -1,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocols": tuple(m.JoinGroupRequestProtocol(name=p, metadata=metadata) for p in self.protocols),
        }
        return self.script.send(m.JoinGroupRequest(**fields | changes), self.version, self.name)

    def joined(self, pending: Pending) -> m.JoinGroupResponse:
        """Take the answer to a JoinGroup."""
        response = pending.result()
        if response.member_id:
            self.member_id = response.member_id
        self.others = tuple(member.member_id for member in response.members)
        self.is_leader = bool(response.leader) and response.leader == response.member_id
        self.script.note(
            f"{self.name} joined",
            {
                "error": error_name(response.error_code),
                "generation": response.generation_id,
                "protocol": [response.protocol_type, response.protocol_name],
                "leader": self.script.short(response.leader),
                "member": self.script.short(response.member_id),
                "members": sorted(map(self.script.short, self.others)),
                "skip": response.skip_assignment,
            },
        )
        if response.error_code == 0:
            self.generation = response.generation_id
        return response

    def join(self, owned: Partitions | None = None, **changes: Any) -> m.JoinGroupResponse:
        """Join and take the answer; with a member id asked for first if need be."""
        response = self.joined(self.send_join(owned, **changes))
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            response = self.joined(self.send_join(owned, **changes))
        return response

    def ask_member_id(self) -> None:
        self.joined(self.send_join())

    def send_sync(self, assignments: dict[str, Partitions] | None = None, **changes: Any) -> Pending:
        """Send a SyncGroup; the leader's carries assignments by member id."""
        fields = {
            "group_id": self.script.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocols[0],
            "assignments": tuple(
                m.SyncGroupRequestAssignment(
                    member_id=member_id,
                    assignment=encode_assignment(
                        ConsumerProtocolAssignment(
                            assigned_partitions=self._named(partitions), user_data=self.user_data
                        ),
                        1,
                    ),
                )
                for member_id, partitions in (assignments or {}).items()
            ),
        }
        return self.script.send(m.SyncGroupRequest(**fields | changes), client_id=self.name)

    def synced(self, pending: Pending) -> m.SyncGroupResponse:
        """Take the answer to a SyncGroup."""
        response = pending.result()
        assignment = self.script.embedded(response.assignment)
        self.script.note(
            f"{self.name} synced",
            {
                "error": error_name(response.error_code),
                "protocol": [response.protocol_type, response.protocol_name],
                "assignment": assignment,
            },
        )
        if response.error_code == 0:
            self.assigned = assignment or {}
        return response

    def sync(self, assignments: dict[str, Partitions] | None = None, **changes: Any) -> m.SyncGroupResponse:
        return self.synced(self.send_sync(assignments, **changes))

    def beat(self, **changes: Any) -> str:
        fields = {
            "group_id": self.script.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        response = self.script.call(m.HeartbeatRequest(**fields | changes), client_id=self.name)
        error = error_name(response.error_code)
        self.script.note(f"{self.name} beats", error)
        return error

    def leave(self, *, by_instance: bool = False, version: int | None = None) -> None:
        identity = m.MemberIdentity(
            member_id="" if by_instance else self.member_id, group_instance_id=self.instance_id
        )
        response = self.script.call(
            m.LeaveGroupRequest(group_id=self.script.group_id, members=(identity,)), client_id=self.name
        )
        errors = [error_name(member.error_code) for member in response.members]
        self.script.note(f"{self.name} leaves", [error_name(response.error_code), errors])
        self.assigned = {}

    def commit(self, topics: dict[str, dict[int, int]], *, version: int = 9, epoch: int | None = None) -> None:
        self.script.commit(
            self.name,
            topics,
            epoch=self.generation if epoch is None else epoch,
            member_id=self.member_id,
            instance_id=self.instance_id,
            version=version,
        )

    def _named(self, partitions: Partitions) -> tuple[ConsumerProtocolTopicPartition, ...]:
        return tuple(
            ConsumerProtocolTopicPartition(topic=self.script.full(name), partitions=tuple(numbers))
            for name, numbers in partitions.items()
        )
