"""Produce (0), v3 to v13: appends batches to partitions. With acks 0 there is no response."""

from coordinator.broker.cluster import Topic
from coordinator.broker.context import RequestScope
from coordinator.broker.partition_log import LEADER_EPOCH, OutOfOrderSequence
from protocol_codecs.all_messages import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponseLeader,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CorruptBatch

FIRST_VERSION_WITH_LEADERS = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13
_NO_ACKS = 0
_ALLOWED_ACKS = frozenset({-1, 0, 1})
_NO_OFFSET = -1


async def serve(context: RequestScope, request: ProduceRequest) -> ProduceResponse | None:
    """Serve the request; return None for acks 0."""
    topics = tuple(_topic(context, topic, request.acks) for topic in request.topic_data)
    context.cluster.notify_records()
    return None if request.acks == _NO_ACKS else ProduceResponse(responses=topics)


def _topic(context: RequestScope, asked: ProduceRequestTopic, acks: int) -> ProduceResponseTopic:
    by_id = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
    cluster = context.cluster
    topic = cluster.topic_by_id(asked.topic_id) if by_id else cluster.topics.get(asked.name)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ProduceResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partition_responses=tuple(
            _failed(partition.index, missing)
            if topic is None
            else _partition(context, topic, partition, acks)
            for partition in asked.partition_data
        ),
    )


def _partition(
    context: RequestScope, topic: Topic, asked: ProduceRequestPartition, acks: int
) -> ProduceResponsePartition:
    if acks not in _ALLOWED_ACKS:
        return _failed(asked.index, ErrorCode.INVALID_REQUIRED_ACKS)
    if not 0 <= asked.index < len(topic.logs):
        return _failed(asked.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    leader = context.cluster.leader_of(asked.index)
    if leader != context.node_id:
        return ProduceResponsePartition(
            index=asked.index,
            error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            base_offset=_NO_OFFSET,
            current_leader=ProduceResponseLeader(leader_id=leader, leader_epoch=LEADER_EPOCH)
            if context.version >= FIRST_VERSION_WITH_LEADERS
            else ProduceResponseLeader(),
        )
    log = topic.logs[asked.index]
    try:
        base_offset = log.append(asked.records or b"")
    except CorruptBatch:
        return _failed(asked.index, ErrorCode.CORRUPT_MESSAGE)
    except OutOfOrderSequence:
        return _failed(asked.index, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    return ProduceResponsePartition(
        index=asked.index, base_offset=base_offset, log_start_offset=log.start_offset
    )


def _failed(index: int, error: ErrorCode) -> ProduceResponsePartition:
    return ProduceResponsePartition(index=index, error_code=error, base_offset=_NO_OFFSET)
