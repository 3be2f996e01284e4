"""DescribeShareGroupOffsets (90), v0 and v1: returns where share partitions begin, and their lags (KIP-932, KIP-1226).

What is not known is no error: a share partition without state, or of a topic that does not exist, begins at -1.
"""

from collections.abc import Iterable

from coordinator.image import TopicImage
from coordinator.shard import Call, Shard
from coordinator.share_groups.group import ShareGroup
from coordinator.share_state import UNINITIALIZED_START_OFFSET, SharePartition
from protocol_codecs.all_messages import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

UNKNOWN = -1


def serve(
    shard: Shard, request: DescribeShareGroupOffsetsRequest, _call: Call
) -> DescribeShareGroupOffsetsResponse:
    """Serve the request."""
    return DescribeShareGroupOffsetsResponse(groups=tuple(_group(shard, asked) for asked in request.groups))


def _group(
    shard: Shard, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    if asked.topics is None:
        topics = _all_topics(shard, asked.group_id)
    else:
        topics = tuple(_asked_topic(shard, asked.group_id, topic) for topic in asked.topics)
    return DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=topics)


def _all_topics(shard: Shard, group_id: str) -> tuple[DescribeShareGroupOffsetsResponseTopic, ...]:
    """Return all partitions with initialized state; none for a group that is no share group."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return ()
    return tuple(
        _topic(shard, group_id, topic, sorted(state.partitions))
        for topic_id, state in group.initialized.items()
        if (topic := shard.image.by_id(topic_id)) is not None
    )


def _asked_topic(
    shard: Shard, group_id: str, asked: DescribeShareGroupOffsetsRequestTopic
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = shard.image.by_name(asked.topic_name)
    if topic is not None:
        return _topic(shard, group_id, topic, asked.partitions)
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        partitions=tuple(
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=number, start_offset=UNINITIALIZED_START_OFFSET
            )
            for number in asked.partitions
        ),
    )


def _topic(
    shard: Shard, group_id: str, topic: TopicImage, numbers: Iterable[int]
) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            _partition(shard, SharePartition(group_id, topic.topic_id, number)) for number in numbers
        ),
    )


def _partition(shard: Shard, key: SharePartition) -> DescribeShareGroupOffsetsResponsePartition:
    state = shard.share_state.summary(key)
    if state is None:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=key.partition, start_offset=UNINITIALIZED_START_OFFSET
        )
    lag = UNKNOWN
    if state.start_offset != UNINITIALIZED_START_OFFSET and state.delivery_complete_count != UNKNOWN:
        end_offset = shard.end_offset(key.topic_id, key.partition)
        if end_offset is not None:
            lag = end_offset - state.start_offset - state.delivery_complete_count
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=key.partition,
        start_offset=state.start_offset,
        leader_epoch=state.leader_epoch,
        lag=lag,
    )
