"""Requests about a group that no member of it sends, and the normal form of answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from protocol_codecs import Uuid
from protocol_codecs import all_messages as m
from protocol_codecs.message import Message
from protocol_codecs.messages.consumer_protocol import decode_assignment
from tests.coordinator.script.backend import Backend, Partitions, Pending, error_name

LATEST = {
    m.ConsumerGroupHeartbeatRequest: 1,
    m.ConsumerGroupDescribeRequest: 1,
    m.ShareGroupHeartbeatRequest: 1,
    m.ShareGroupDescribeRequest: 1,
    m.JoinGroupRequest: 9,
    m.SyncGroupRequest: 5,
    m.HeartbeatRequest: 4,
    m.LeaveGroupRequest: 5,
    m.DescribeGroupsRequest: 6,
    m.ListGroupsRequest: 5,
    m.DeleteGroupsRequest: 3,
    m.OffsetCommitRequest: 9,
    m.OffsetFetchRequest: 9,
    m.OffsetDeleteRequest: 0,
}


@dataclass
class Conversation:
    """One group's requests that no member sends. Groups, topics and members are given names that are unique to it."""

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
            "share_interval": "share.assignment.interval.ms",
            "share_session": "share.session.timeout.ms",
            "share_heartbeat": "share.heartbeat.interval.ms",
        }
        self.backend.configure_group(self.group_id, {names[k]: str(v) for k, v in settings.items()})

    def pass_time(self, ms: int) -> None:
        self.backend.pass_time(ms)

    def full(self, topic: str) -> str:
        return f"{self.prefix}-{topic}"

    def short(self, name: str) -> str:
        return name.removeprefix(f"{self.prefix}-")

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

    def describe_share(self) -> None:
        """The group as a share group."""
        group = self.call(m.ShareGroupDescribeRequest(group_ids=(self.group_id,))).groups[0]
        members = [
            {
                "id": self.short(member.member_id),
                "rack": member.rack_id,
                "epoch": member.member_epoch,
                "client": member.client_id,
                "topics": sorted(map(self.short, member.subscribed_topic_names)),
                "assignment": self.by_name(member.assignment.topic_partitions),
            }
            for member in group.members
        ]
        self.note(
            "describe share",
            {
                "error": error_name(group.error_code),
                "state": group.group_state,
                "group_epoch": group.group_epoch,
                "assignment_epoch": group.assignment_epoch,
                "assignor": group.assignor_name,
                "members": sorted(members, key=lambda member: member["id"]),
            },
        )

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
                    [
                        self.short(t.name),
                        p.partition_index,
                        p.committed_offset,
                        p.metadata,
                        error_name(p.error_code),
                    ]
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
        """Topics with their partitions, by name; a topic that was deleted and its successor have the same name."""
        named: Partitions = {}
        for topic in topics:
            named.setdefault(self.short(self.backend.topic_name(topic.topic_id)), []).extend(topic.partitions)
        return {name: sorted(numbers) for name, numbers in sorted(named.items())}

    def embedded(self, content: bytes) -> Partitions | None:
        """An embedded assignment by short names."""
        if not content:
            return None
        _, assignment = decode_assignment(content)
        return {
            self.short(topic.topic): sorted(topic.partitions)
            for topic in sorted(assignment.assigned_partitions, key=lambda t: t.topic)
        }
