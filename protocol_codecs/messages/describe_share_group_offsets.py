"""DescribeShareGroupOffsets (90): where the share partitions of share groups begin (KIP-932). Flexible from the start.

- v1: the lag (KIP-1226).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, int64, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class DescribeShareGroupOffsetsRequestTopic(Message):
    """Partitions of one topic."""

    topic_name: str = string()
    partitions: tuple[int, ...] = array(int32)


class DescribeShareGroupOffsetsRequestGroup(Message):
    """One group, and which of its partitions; null: all of them."""

    group_id: str = string()
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = array(
        DescribeShareGroupOffsetsRequestTopic, nullable="0+"
    )


class DescribeShareGroupOffsetsRequest(
    Message, api_key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions="0-1", flexible="0+"
):
    """The groups in question."""

    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = array(DescribeShareGroupOffsetsRequestGroup)


class DescribeShareGroupOffsetsResponsePartition(Message):
    """The start offset of one share partition; -1 if it is not known."""

    partition_index: int = int32()
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64("1+", ignorable=True, default=-1)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Message):
    """The partitions of one topic."""

    topic_name: str = string()
    topic_id: Uuid = uuid()
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = array(
        DescribeShareGroupOffsetsResponsePartition
    )


class DescribeShareGroupOffsetsResponseGroup(Message):
    """The topics of one group."""

    group_id: str = string()
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = array(DescribeShareGroupOffsetsResponseTopic)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(
    Message, api_key=ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions="0-1", flexible="0+"
):
    """The start offsets of each group."""

    throttle_time_ms: int = int32()
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...] = array(DescribeShareGroupOffsetsResponseGroup)
