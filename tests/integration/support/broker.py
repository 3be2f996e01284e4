"""What a test does with the broker itself, past everything that stands between it and the clients."""

import itertools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.types import GroupId
from kio.static.primitive import i8

from support import raw
from support.waiting import eventually
from translation.members.conversion import is_helper

FLUSH_S = 120.0
"""So long a producer of librdkafka has by default for a record; a busy broker may need more than half a minute."""

QUIET = {"log_level": 0}  # both outlive the broker, and would say so after the last line of the tests
_GROUP_RESOURCE = i8(32)
_CLIENT_METRICS_RESOURCE = i8(16)
_SET = i8(0)
MEMBER_TYPES = {-1: "unknown", 0: "classic", 1: "consumer"}


@dataclass(frozen=True)
class Record:
    """A record that was produced and acknowledged; `value` is unique within its topic."""

    topic: str
    partition: int
    offset: int
    value: str


@dataclass(frozen=True)
class MemberView:
    """A member as ConsumerGroupDescribe shows it; assignments are {topic: partitions}."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    member_epoch: int
    member_type: str
    subscribed_topics: frozenset[str]
    assignment: Mapping[str, frozenset[int]]
    target: Mapping[str, frozenset[int]]


@dataclass(frozen=True)
class GroupView:
    """A consumer group as ConsumerGroupDescribe shows it; `helpers` are members that the proxy itself has in it."""

    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[MemberView, ...]
    helpers: int = 0


class Kafka:
    """A broker (or three) under test, however it was found."""

    def __init__(self, bootstrap: str, *, source: str, version: str) -> None:
        self.bootstrap = bootstrap
        self.source = source
        self.version = version
        self._numbers = itertools.count()

    def __repr__(self) -> str:
        return f"<Kafka {self.version} from {self.source} on {self.bootstrap}>"

    def new_topic(self, prefix: str = "t", *, partitions: int = 6, name: str | None = None) -> str:
        """Create a topic, which nobody else uses if no name is given; returns when every partition has a leader."""
        name = name or f"{prefix}-{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(name, num_partitions=partitions)])[name].result(timeout=60)
        eventually(
            lambda: [at.leader for at in self._partitions(name)],
            lambda leaders: len(leaders) == partitions and -1 not in leaders,
            what=f"every partition of {name} has a leader",
        )
        return name

    def produce(self, topic: str, count: int) -> list[Record]:
        """Produce `count` records spread evenly over the partitions; returns when all are acknowledged."""
        partitions = len(self._partitions(topic))
        written: list[Record] = []
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)
            else:
                value, partition, offset = message.value(), message.partition(), message.offset()
                assert value is not None
                assert partition is not None
                assert offset is not None
                written.append(Record(topic, partition, offset, value.decode()))

        for number in itertools.islice(self._numbers, count):
            self._producer.produce(
                topic, str(number).encode(), partition=number % partitions, on_delivery=delivered
            )
            self._producer.poll(0)
        self._producer.flush(FLUSH_S)
        if failed or len(written) != count:
            raise AssertionError(f"{len(written)} of {count} records were acknowledged: {failed[:1]}")
        return written

    def configure_group(self, group: str, settings: Mapping[str, str]) -> None:
        """Set these configurations of the group, which need not exist yet (`IncrementalAlterConfigs`)."""
        self._configure(_GROUP_RESOURCE, group, settings)

    def subscribe_to_client_metrics(self, name: str, settings: Mapping[str, str]) -> None:
        """Have the broker want these metrics of its clients (KIP-714), under this name of the subscription."""
        self._configure(_CLIENT_METRICS_RESOURCE, name, settings)

    def _configure(self, resource_type: i8, name: str, settings: Mapping[str, str]) -> None:
        resource = AlterConfigsResource(
            resource_type=resource_type,
            resource_name=name,
            configs=tuple(
                AlterableConfig(name=key, config_operation=_SET, value=value)
                for key, value in settings.items()
            ),
        )
        with raw.RawConnection(self.bootstrap.split(",", maxsplit=1)[0]) as connection:
            answer = connection.call(
                IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
            )
        assert [one.error_code for one in answer.responses] == [0], answer

    def describe(self, group: str) -> GroupView | None:
        """The group as a group of type consumer; None if the broker has no such group of that type."""
        with raw.to_coordinator(self.bootstrap, group) as connection:
            answer = connection.call(
                ConsumerGroupDescribeRequest(group_ids=(GroupId(group),), include_authorized_operations=False)
            ).groups[0]
        if answer.error_code:
            return None
        return GroupView(
            state=answer.group_state,
            group_epoch=answer.group_epoch,
            assignment_epoch=answer.assignment_epoch,
            assignor=answer.assignor_name,
            members=tuple(_member(member) for member in answer.members if not is_helper(member.member_id)),
            helpers=sum(is_helper(member.member_id) for member in answer.members),
        )

    def describe_classic(self, group: str) -> Any:
        """The group as DescribeGroups (v5) shows it to old tools."""
        with raw.to_coordinator(self.bootstrap, group) as connection:
            request = DescribeGroupsRequest(groups=(GroupId(group),), include_authorized_operations=False)
            return connection.call(request).groups[0]

    def type_of(self, group: str) -> str | None:
        """The type of the group as ListGroups shows it, such as `streams`; None if there is no such group."""
        with raw.to_coordinator(self.bootstrap, group) as connection:
            listed = connection.call(ListGroupsRequest()).groups
        return next((one.group_type for one in listed if one.group_id == group), None)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """{(topic, partition): committed offset} of the whole group."""
        request = [ConsumerGroupTopicPartitions(group)]
        answer = self.admin.list_consumer_group_offsets(request)[group].result(timeout=60)
        return {(at.topic, at.partition): at.offset for at in answer.topic_partitions if at.offset >= 0}

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit for an empty group, as an operator's tool does; returns when every partition is committed.

        A coordinator that has not heard of a new topic yet refuses its partitions one by one, and the call as a
        whole succeeds: those are committed again.
        """
        at = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, at)]

        def refused() -> dict[tuple[str, int], str]:
            answer = self.admin.alter_consumer_group_offsets(request)[group].result(timeout=60)
            return {
                (one.topic, one.partition): str(one.error) for one in answer.topic_partitions if one.error
            }

        eventually(refused, lambda errors: not errors, what=f"the offsets of {group} are committed")

    def _partitions(self, topic: str) -> list[PartitionMetadata]:
        return list(self.admin.list_topics(topic, timeout=60).topics[topic].partitions.values())

    @cached_property
    def admin(self) -> AdminClient:
        """librdkafka's admin client."""
        return AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})

    @cached_property
    def _producer(self) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "acks": "all", **QUIET})


def _member(member: Any) -> MemberView:
    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_epoch=member.member_epoch,
        member_type=MEMBER_TYPES[member.member_type],
        subscribed_topics=frozenset(member.subscribed_topic_names),
        assignment=_partitions(member.assignment),
        target=_partitions(member.target_assignment),
    )


def _partitions(assignment: Any) -> dict[str, frozenset[int]]:
    return {topic.topic_name: frozenset(topic.partitions) for topic in assignment.topic_partitions}
