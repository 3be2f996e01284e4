"""StreamsGroupDescribe (89): state and members of streams groups (KIP-1071).

Flexible from the start. v1 of Kafka 4.4 adds the description of the topology and is not declared.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int16, int32, int64, string, struct, uint16
from protocol_codecs.message import Message


class StreamsGroupDescribeRequest(
    Message, api_key=ApiKey.STREAMS_GROUP_DESCRIBE, versions="0", flexible="0+"
):
    """Asks for the state and members of streams groups."""

    group_ids: tuple[str, ...] = array(string)
    include_authorized_operations: bool = boolean()


class StreamsGroupDescribeResponseKeyValue(Message):
    """A setting of a topic, or a tag of a client."""

    key: str = string()
    value: str = string()


class StreamsGroupDescribeResponseTopicInfo(Message):
    """A topic that the broker creates for the application."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: tuple[StreamsGroupDescribeResponseKeyValue, ...] = array(
        StreamsGroupDescribeResponseKeyValue
    )


class StreamsGroupDescribeResponseSubtopology(Message):
    """A part of the topology, and the topics that it reads and writes."""

    subtopology_id: str = string()
    source_topics: tuple[str, ...] = array(string)
    repartition_sink_topics: tuple[str, ...] = array(string)
    state_changelog_topics: tuple[StreamsGroupDescribeResponseTopicInfo, ...] = array(
        StreamsGroupDescribeResponseTopicInfo
    )
    repartition_source_topics: tuple[StreamsGroupDescribeResponseTopicInfo, ...] = array(
        StreamsGroupDescribeResponseTopicInfo
    )


class StreamsGroupDescribeResponseTopology(Message):
    """The topology that the group runs."""

    epoch: int = int32()
    subtopologies: tuple[StreamsGroupDescribeResponseSubtopology, ...] | None = array(
        StreamsGroupDescribeResponseSubtopology, nullable="0+", default=None
    )


class StreamsGroupDescribeResponseEndpoint(Message):
    """Where the application answers interactive queries; not an address of a broker."""

    host: str = string()
    port: int = uint16()


class StreamsGroupDescribeResponseTaskOffset(Message):
    """How far a task has read its changelogs."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupDescribeResponseTaskIds(Message):
    """Tasks of one subtopology."""

    subtopology_id: str = string()
    partitions: tuple[int, ...] = array(int32)


class StreamsGroupDescribeResponseAssignment(Message):
    """The tasks of a member."""

    active_tasks: tuple[StreamsGroupDescribeResponseTaskIds, ...] = array(StreamsGroupDescribeResponseTaskIds)
    standby_tasks: tuple[StreamsGroupDescribeResponseTaskIds, ...] = array(
        StreamsGroupDescribeResponseTaskIds
    )
    warmup_tasks: tuple[StreamsGroupDescribeResponseTaskIds, ...] = array(StreamsGroupDescribeResponseTaskIds)


class StreamsGroupDescribeResponseMember(Message):
    """One member."""

    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: StreamsGroupDescribeResponseEndpoint | None = struct(
        StreamsGroupDescribeResponseEndpoint, nullable="0+", default=None
    )
    client_tags: tuple[StreamsGroupDescribeResponseKeyValue, ...] = array(
        StreamsGroupDescribeResponseKeyValue
    )
    task_offsets: tuple[StreamsGroupDescribeResponseTaskOffset, ...] = array(
        StreamsGroupDescribeResponseTaskOffset
    )
    task_end_offsets: tuple[StreamsGroupDescribeResponseTaskOffset, ...] = array(
        StreamsGroupDescribeResponseTaskOffset
    )
    assignment: StreamsGroupDescribeResponseAssignment = struct(StreamsGroupDescribeResponseAssignment)
    target_assignment: StreamsGroupDescribeResponseAssignment = struct(StreamsGroupDescribeResponseAssignment)
    is_classic: bool = boolean()


class StreamsGroupDescribeResponseDescribedGroup(Message):
    """One group."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: StreamsGroupDescribeResponseTopology | None = struct(
        StreamsGroupDescribeResponseTopology, nullable="0+", default=None
    )
    members: tuple[StreamsGroupDescribeResponseMember, ...] = array(StreamsGroupDescribeResponseMember)
    authorized_operations: int = int32(default=-2147483648)


class StreamsGroupDescribeResponse(
    Message, api_key=ApiKey.STREAMS_GROUP_DESCRIBE, versions="0", flexible="0+"
):
    """The groups that were asked for."""

    throttle_time_ms: int = int32()
    groups: tuple[StreamsGroupDescribeResponseDescribedGroup, ...] = array(
        StreamsGroupDescribeResponseDescribedGroup
    )
