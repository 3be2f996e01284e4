"""ListOffsets (2), v1 to v10: the ends of a log, or the batch of a timestamp; records inside a batch are not read."""

from coordinator.broker.cluster import Topic
from coordinator.broker.context import RequestScope
from coordinator.broker.partition_log import LEADER_EPOCH, PartitionLog
from protocol_codecs.all_messages import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from protocol_codecs.error_code import ErrorCode

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
FIRST_VERSION_WITH_LEADER_EPOCH = 4
_NOWHERE = (-1, -1)


async def serve(context: RequestScope, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Serve the request."""
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsResponseTopic(
                name=topic.name,
                partitions=tuple(
                    _partition(context, context.cluster.topics.get(topic.name), partition)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _partition(
    context: RequestScope, topic: Topic | None, asked: ListOffsetsRequestPartition
) -> ListOffsetsResponsePartition:
    number = asked.partition_index
    if topic is None or not 0 <= number < len(topic.logs):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ListOffsetsResponsePartition(partition_index=number, error_code=error)
    if context.cluster.leader_of(number) != context.node_id:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ListOffsetsResponsePartition(partition_index=number, error_code=error)
    offset, timestamp_ms = _find(topic.logs[number], asked.timestamp)
    return ListOffsetsResponsePartition(
        partition_index=number,
        timestamp=timestamp_ms,
        offset=offset,
        leader_epoch=LEADER_EPOCH if context.version >= FIRST_VERSION_WITH_LEADER_EPOCH else -1,
    )


def _find(log: PartitionLog, timestamp_ms: int) -> tuple[int, int]:
    """Return the offset and its timestamp; -1 where there is none."""
    match timestamp_ms:
        case -1:
            return log.next_offset, -1
        case -2 | -4:
            return log.start_offset, -1
        case -3:
            return log.newest() or _NOWHERE
        case _ if timestamp_ms < 0:
            return _NOWHERE
        case _:
            return log.offset_of_timestamp(timestamp_ms) or _NOWHERE
