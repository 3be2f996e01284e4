"""OffsetForLeaderEpoch (23), v2 to v4: there is one leader epoch, and its end offset is that of the log."""

from coordinator.broker.context import RequestScope
from coordinator.broker.partition_log import LEADER_EPOCH
from protocol_codecs.all_messages import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from protocol_codecs.error_code import ErrorCode


async def serve(context: RequestScope, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Serve the request."""
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderEpochResponseTopic(
                topic=topic.topic,
                partitions=tuple(_partition(context, topic.topic, asked) for asked in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _partition(
    context: RequestScope, name: str, asked: OffsetForLeaderEpochRequestPartition
) -> OffsetForLeaderEpochResponsePartition:
    topic = context.cluster.topics.get(name)
    error = ErrorCode.NONE
    if topic is None or not 0 <= asked.partition < len(topic.logs):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif context.cluster.leader_of(asked.partition) != context.node_id:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif asked.current_leader_epoch > LEADER_EPOCH:
        error = ErrorCode.UNKNOWN_LEADER_EPOCH
    if error is not ErrorCode.NONE or topic is None:
        return OffsetForLeaderEpochResponsePartition(partition=asked.partition, error_code=error)
    if asked.leader_epoch != LEADER_EPOCH:
        return OffsetForLeaderEpochResponsePartition(partition=asked.partition)
    return OffsetForLeaderEpochResponsePartition(
        partition=asked.partition,
        leader_epoch=LEADER_EPOCH,
        end_offset=topic.logs[asked.partition].next_offset,
    )
