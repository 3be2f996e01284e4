"""AlterShareGroupOffsets (91): let the share partitions of an empty share group begin elsewhere (KIP-932).

Flexible from the start.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, int64, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class AlterShareGroupOffsetsRequestPartition(Message):
    """Where one share partition is to begin."""

    partition_index: int = int32()
    start_offset: int = int64()


class AlterShareGroupOffsetsRequestTopic(Message):
    """Partitions of one topic."""

    topic_name: str = string()
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...] = array(
        AlterShareGroupOffsetsRequestPartition
    )


class AlterShareGroupOffsetsRequest(
    Message, api_key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"
):
    """The new start offsets of one group."""

    group_id: str = string()
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...] = array(AlterShareGroupOffsetsRequestTopic)


class AlterShareGroupOffsetsResponsePartition(Message):
    """The result of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Message):
    """The results of one topic."""

    topic_name: str = string()
    topic_id: Uuid = uuid()
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...] = array(
        AlterShareGroupOffsetsResponsePartition
    )


class AlterShareGroupOffsetsResponse(
    Message, api_key=ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"
):
    """The result of each partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = array(AlterShareGroupOffsetsResponseTopic)
