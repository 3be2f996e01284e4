"""CreateTopics (19): create topics.

- v0 and v1 are gone from Kafka 4. v2: the response has a throttle time; v3: the broker answers before it throttles.
- v4: -1 asks for the default number of partitions and replicas (KIP-464).
- v5: flexible; the response has the topic's configuration (KIP-525).
- v6: may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
- v7: the response has the topic's id.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int8, int16, int32, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class CreateTopicsRequestAssignment(Message):
    """The brokers that are to hold the replicas of one partition."""

    partition_index: int = int32()
    broker_ids: tuple[int, ...] = array(int32)


class CreateTopicsRequestConfig(Message):
    """One setting of the topic."""

    name: str = string()
    value: str | None = string(nullable="0+")


class CreateTopicsRequestTopic(Message):
    """One topic; -1 partitions or replicas mean the broker's default."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: tuple[CreateTopicsRequestAssignment, ...] = array(CreateTopicsRequestAssignment)
    configs: tuple[CreateTopicsRequestConfig, ...] = array(CreateTopicsRequestConfig)


class CreateTopicsRequest(Message, api_key=ApiKey.CREATE_TOPICS, versions="2-7", flexible="5+"):
    """Asks to create topics."""

    topics: tuple[CreateTopicsRequestTopic, ...] = array(CreateTopicsRequestTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean("1+")


class CreateTopicsResponseConfig(Message):
    """One setting that the topic has."""

    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+")


class CreateTopicsResponseTopic(Message):
    """The result of one topic."""

    name: str = string()
    topic_id: Uuid = uuid("7+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = int16("5+", ignorable=True, tag=0)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: tuple[CreateTopicsResponseConfig, ...] | None = array(
        CreateTopicsResponseConfig, "5+", nullable="5+", ignorable=True
    )


class CreateTopicsResponse(Message, api_key=ApiKey.CREATE_TOPICS, versions="2-7", flexible="5+"):
    """The result of each topic."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: tuple[CreateTopicsResponseTopic, ...] = array(CreateTopicsResponseTopic)
