"""Fetch (1), v4 to v17: reads batches, and waits for new ones if there are none.

There are no fetch sessions: every request names all its partitions, as clients do when the broker gives them session 0.
"""

import trio

from coordinator.broker.cluster import Topic
from coordinator.broker.context import RequestScope
from coordinator.broker.partition_log import LEADER_EPOCH, OffsetOutOfRange
from protocol_codecs.all_messages import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponseLeader,
    FetchResponsePartition,
    FetchResponseTopic,
)
from protocol_codecs.error_code import ErrorCode

FIRST_VERSION_WITH_LEADERS = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13
_NOTHING = -1


async def serve(context: RequestScope, request: FetchRequest) -> FetchResponse:
    """Serve the request as soon as ``min_bytes`` are available, there is an error, or ``max_wait_ms`` have passed."""
    if request.session_id != 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    with trio.move_on_after(max(request.max_wait_ms, 0) / 1000):
        while not _is_due(context, request):
            await context.cluster.wait_for_records()
    left = max(request.max_bytes, 1)
    topics = []
    for asked in request.topics:
        topic, missing = _find(context, asked)
        partitions = []
        for partition in asked.partitions:
            answer = _partition(context, topic, missing, partition, left)
            left -= len(answer.records or b"")
            partitions.append(answer)
        topics.append(
            FetchResponseTopic(topic=asked.topic, topic_id=asked.topic_id, partitions=tuple(partitions))
        )
    return FetchResponse(responses=tuple(topics))


def _find(context: RequestScope, asked: FetchRequestTopic) -> tuple[Topic | None, ErrorCode]:
    """Return the topic, and the error code if it does not exist."""
    if context.version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return context.cluster.topic_by_id(asked.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return context.cluster.topics.get(asked.topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _is_due(context: RequestScope, request: FetchRequest) -> bool:
    """Whether there is enough to read, or an error to report."""
    available = 0
    for asked in request.topics:
        topic, missing = _find(context, asked)
        for partition in asked.partitions:
            if _error(context, topic, missing, partition) is not None or topic is None:
                return True
            log = topic.logs[partition.partition]
            if not log.start_offset <= partition.fetch_offset <= log.next_offset:
                return True
            available += log.available(partition.fetch_offset)
    return available >= request.min_bytes


def _error(
    context: RequestScope, topic: Topic | None, missing: ErrorCode, asked: FetchRequestPartition
) -> ErrorCode | None:
    if topic is None:
        return missing
    if not 0 <= asked.partition < len(topic.logs):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if context.cluster.leader_of(asked.partition) != context.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if asked.current_leader_epoch > LEADER_EPOCH:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return None


def _partition(
    context: RequestScope,
    topic: Topic | None,
    missing: ErrorCode,
    asked: FetchRequestPartition,
    max_bytes: int,
) -> FetchResponsePartition:
    error = _error(context, topic, missing, asked)
    if error is not None or topic is None:
        leader = FetchResponseLeader()
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and context.version >= FIRST_VERSION_WITH_LEADERS:
            leader_id = context.cluster.leader_of(asked.partition)
            leader = FetchResponseLeader(leader_id=leader_id, leader_epoch=LEADER_EPOCH)
        return FetchResponsePartition(
            partition_index=asked.partition,
            error_code=error or missing,
            high_watermark=_NOTHING,
            current_leader=leader,
            aborted_transactions=None,
            records=b"",
        )
    log = topic.logs[asked.partition]
    records = b""
    error = ErrorCode.NONE
    try:
        if max_bytes > 0:
            records = log.read(asked.fetch_offset, min(asked.partition_max_bytes, max_bytes))
    except OffsetOutOfRange:
        error = ErrorCode.OFFSET_OUT_OF_RANGE
    return FetchResponsePartition(
        partition_index=asked.partition,
        error_code=error,
        high_watermark=log.next_offset,
        last_stable_offset=log.next_offset,
        log_start_offset=log.start_offset,
        aborted_transactions=None,
        records=records,
    )
