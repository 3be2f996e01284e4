"""OffsetDelete (47): delete stored offsets of topics that the group does not subscribe to. Never flexible."""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, string
from protocol_codecs.message import Message


class OffsetDeleteRequestPartition(Message):
    """One partition."""

    partition_index: int = int32()


class OffsetDeleteRequestTopic(Message):
    """Partitions of one topic."""

    name: str = string()
    partitions: tuple[OffsetDeleteRequestPartition, ...] = array(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Message, api_key=ApiKey.OFFSET_DELETE, versions="0"):
    """Asks to delete offsets of one group."""

    group_id: str = string()
    topics: tuple[OffsetDeleteRequestTopic, ...] = array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Message):
    """The result of one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class OffsetDeleteResponseTopic(Message):
    """The results of one topic."""

    name: str = string()
    partitions: tuple[OffsetDeleteResponsePartition, ...] = array(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Message, api_key=ApiKey.OFFSET_DELETE, versions="0"):
    """The result of each partition."""

    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: tuple[OffsetDeleteResponseTopic, ...] = array(OffsetDeleteResponseTopic)
