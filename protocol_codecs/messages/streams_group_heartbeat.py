"""StreamsGroupHeartbeat (88): joins, stays in or leaves a streams group (KIP-1071).

Member epoch 0 joins, -1 leaves, -2 leaves for a restart of a static member. Flexible from the start. Null fields have
not changed since the last heartbeat.

- v1: the response has an acceptable recovery lag of 64 bits in another place, and says whether the broker wants a
  description of the topology (KIP-1331).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int8, int16, int32, int64, string, struct, uint16
from protocol_codecs.message import Message


class StreamsGroupHeartbeatRequestKeyValue(Message):
    """A setting of a topic, or a tag of the client."""

    key: str = string()
    value: str = string()


class StreamsGroupHeartbeatRequestTopicInfo(Message):
    """A topic that the broker creates for the application; 0 leaves the number to the broker."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: tuple[StreamsGroupHeartbeatRequestKeyValue, ...] = array(
        StreamsGroupHeartbeatRequestKeyValue
    )


class StreamsGroupHeartbeatRequestCopartitionGroup(Message):
    """Source topics that have to have equally many partitions, by their place in the arrays of the subtopology."""

    source_topics: tuple[int, ...] = array(int16)
    source_topic_regex: tuple[int, ...] = array(int16)
    repartition_source_topics: tuple[int, ...] = array(int16)


class StreamsGroupHeartbeatRequestSubtopology(Message):
    """A part of the topology, and the topics that it reads and writes."""

    subtopology_id: str = string()
    source_topics: tuple[str, ...] = array(string)
    source_topic_regex: tuple[str, ...] = array(string)
    state_changelog_topics: tuple[StreamsGroupHeartbeatRequestTopicInfo, ...] = array(
        StreamsGroupHeartbeatRequestTopicInfo
    )
    repartition_sink_topics: tuple[str, ...] = array(string)
    repartition_source_topics: tuple[StreamsGroupHeartbeatRequestTopicInfo, ...] = array(
        StreamsGroupHeartbeatRequestTopicInfo
    )
    copartition_groups: tuple[StreamsGroupHeartbeatRequestCopartitionGroup, ...] = array(
        StreamsGroupHeartbeatRequestCopartitionGroup
    )


class StreamsGroupHeartbeatRequestTopology(Message):
    """The application's topology; only in a heartbeat that joins."""

    epoch: int = int32()
    subtopologies: tuple[StreamsGroupHeartbeatRequestSubtopology, ...] = array(
        StreamsGroupHeartbeatRequestSubtopology
    )


class StreamsGroupHeartbeatRequestTaskIds(Message):
    """Tasks of one subtopology."""

    subtopology_id: str = string()
    partitions: tuple[int, ...] = array(int32)


class StreamsGroupHeartbeatRequestEndpoint(Message):
    """Where the application answers interactive queries; not an address of a broker."""

    host: str = string()
    port: int = uint16()


class StreamsGroupHeartbeatRequestTaskOffset(Message):
    """How far the changelogs of one task were read, or how long they are."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupHeartbeatRequest(
    Message, api_key=ApiKey.STREAMS_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    """Joins, stays in or leaves a group, and says which tasks the member has."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: StreamsGroupHeartbeatRequestTopology | None = struct(
        StreamsGroupHeartbeatRequestTopology, nullable="0+", default=None
    )
    active_tasks: tuple[StreamsGroupHeartbeatRequestTaskIds, ...] | None = array(
        StreamsGroupHeartbeatRequestTaskIds, nullable="0+", default=None
    )
    standby_tasks: tuple[StreamsGroupHeartbeatRequestTaskIds, ...] | None = array(
        StreamsGroupHeartbeatRequestTaskIds, nullable="0+", default=None
    )
    warmup_tasks: tuple[StreamsGroupHeartbeatRequestTaskIds, ...] | None = array(
        StreamsGroupHeartbeatRequestTaskIds, nullable="0+", default=None
    )
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: StreamsGroupHeartbeatRequestEndpoint | None = struct(
        StreamsGroupHeartbeatRequestEndpoint, nullable="0+", default=None
    )
    client_tags: tuple[StreamsGroupHeartbeatRequestKeyValue, ...] | None = array(
        StreamsGroupHeartbeatRequestKeyValue, nullable="0+", default=None
    )
    task_offsets: tuple[StreamsGroupHeartbeatRequestTaskOffset, ...] | None = array(
        StreamsGroupHeartbeatRequestTaskOffset, nullable="0+", default=None
    )
    task_end_offsets: tuple[StreamsGroupHeartbeatRequestTaskOffset, ...] | None = array(
        StreamsGroupHeartbeatRequestTaskOffset, nullable="0+", default=None
    )
    shutdown_application: bool = boolean()


class StreamsGroupHeartbeatResponseStatus(Message):
    """Something that the application should know, for example that a source topic is missing (1)."""

    status_code: int = int8()
    status_detail: str = string()


class StreamsGroupHeartbeatResponseTaskIds(Message):
    """Tasks of one subtopology."""

    subtopology_id: str = string()
    partitions: tuple[int, ...] = array(int32)


class StreamsGroupHeartbeatResponseEndpoint(Message):
    """Where an instance of the application answers interactive queries; not an address of a broker."""

    host: str = string()
    port: int = uint16()


class StreamsGroupHeartbeatResponseTopicPartition(Message):
    """Partitions of one topic."""

    topic: str = string()
    partitions: tuple[int, ...] = array(int32)


class StreamsGroupHeartbeatResponseEndpointToPartitions(Message):
    """What one member has, for interactive queries."""

    user_endpoint: StreamsGroupHeartbeatResponseEndpoint = struct(StreamsGroupHeartbeatResponseEndpoint)
    active_partitions: tuple[StreamsGroupHeartbeatResponseTopicPartition, ...] = array(
        StreamsGroupHeartbeatResponseTopicPartition
    )
    standby_partitions: tuple[StreamsGroupHeartbeatResponseTopicPartition, ...] = array(
        StreamsGroupHeartbeatResponseTopicPartition
    )


class StreamsGroupHeartbeatResponse(
    Message, api_key=ApiKey.STREAMS_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    """The member's epoch, and its tasks if they have changed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag_legacy: int = int32("0", ignorable=True)
    task_offset_interval_ms: int = int32()
    acceptable_recovery_lag: int = int64("1+", default=-1, ignorable=True)
    status: tuple[StreamsGroupHeartbeatResponseStatus, ...] | None = array(
        StreamsGroupHeartbeatResponseStatus, nullable="0+", default=()
    )
    active_tasks: tuple[StreamsGroupHeartbeatResponseTaskIds, ...] | None = array(
        StreamsGroupHeartbeatResponseTaskIds, nullable="0+", default=None
    )
    standby_tasks: tuple[StreamsGroupHeartbeatResponseTaskIds, ...] | None = array(
        StreamsGroupHeartbeatResponseTaskIds, nullable="0+", default=None
    )
    warmup_tasks: tuple[StreamsGroupHeartbeatResponseTaskIds, ...] | None = array(
        StreamsGroupHeartbeatResponseTaskIds, nullable="0+", default=None
    )
    topology_description_required: bool = boolean("1+")
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: tuple[StreamsGroupHeartbeatResponseEndpointToPartitions, ...] | None = array(
        StreamsGroupHeartbeatResponseEndpointToPartitions, nullable="0+", default=None
    )
