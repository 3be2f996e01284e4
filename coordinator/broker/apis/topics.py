"""CreateTopics (19), DeleteTopics (20) and CreatePartitions (37)."""

from coordinator.broker.context import RequestScope
from coordinator.broker.topic_names import is_valid
from protocol_codecs.all_messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.uuids import ZERO_UUID

FIRST_VERSION_DELETING_BY_ID = 6
_DEFAULT = -1
_REPLICATION_FACTOR = 1


async def create(context: RequestScope, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Serve a CreateTopics request."""
    topics = (_create(context, topic, validate_only=request.validate_only) for topic in request.topics)
    return CreateTopicsResponse(topics=tuple(topics))


async def delete(context: RequestScope, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Serve a DeleteTopics request."""
    asked = request.topics
    if context.version < FIRST_VERSION_DELETING_BY_ID:
        asked = tuple(DeleteTopicsRequestTopic(name=name) for name in request.topic_names)
    return DeleteTopicsResponse(responses=tuple(_delete(context, topic) for topic in asked))


async def create_partitions(
    context: RequestScope, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Serve a CreatePartitions request."""
    results = (_grow(context, topic, validate_only=request.validate_only) for topic in request.topics)
    return CreatePartitionsResponse(results=tuple(results))


def _create(
    context: RequestScope, asked: CreateTopicsRequestTopic, *, validate_only: bool
) -> CreateTopicsResponseTopic:
    cluster = context.cluster
    partitions = len(asked.assignments) or asked.num_partitions
    if partitions == _DEFAULT:
        partitions = max(cluster.auto_create_partitions, 1)
    error, why = ErrorCode.NONE, None
    if not is_valid(asked.name):
        error, why = ErrorCode.INVALID_TOPIC_EXCEPTION, f"{asked.name!r} is no name for a topic"
    elif asked.name in cluster.topics:
        error, why = ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {asked.name!r} exists"
    elif partitions < 1:
        error, why = ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions"
    elif asked.replication_factor > len(cluster.node_ids) or asked.replication_factor == 0:
        error, why = ErrorCode.INVALID_REPLICATION_FACTOR, f"{asked.replication_factor} replicas"
    if error is not ErrorCode.NONE:
        return CreateTopicsResponseTopic(name=asked.name, error_code=error, error_message=why)
    topic_id = ZERO_UUID
    if not validate_only:
        settings = {config.name: config.value or "" for config in asked.configs}
        topic_id = cluster.create_topic(asked.name, partitions, settings=settings)
    return CreateTopicsResponseTopic(
        name=asked.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=_REPLICATION_FACTOR,
    )


def _delete(context: RequestScope, asked: DeleteTopicsRequestTopic) -> DeleteTopicsResponseTopic:
    cluster = context.cluster
    topic = cluster.topics.get(asked.name) if asked.name is not None else cluster.topic_by_id(asked.topic_id)
    if topic is None:
        by_name = asked.name is not None
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
        return DeleteTopicsResponseTopic(name=asked.name, topic_id=asked.topic_id, error_code=error)
    cluster.delete_topic(topic.image.name)
    return DeleteTopicsResponseTopic(name=topic.image.name, topic_id=topic.image.topic_id)


def _grow(
    context: RequestScope, asked: CreatePartitionsRequestTopic, *, validate_only: bool
) -> CreatePartitionsResponseTopic:
    topic = context.cluster.topics.get(asked.name)
    if topic is None:
        return CreatePartitionsResponseTopic(name=asked.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if asked.count <= topic.image.partitions:
        return CreatePartitionsResponseTopic(
            name=asked.name,
            error_code=ErrorCode.INVALID_PARTITIONS,
            error_message=f"there are {topic.image.partitions} partitions already",
        )
    if not validate_only:
        context.cluster.create_partitions(asked.name, asked.count)
    return CreatePartitionsResponseTopic(name=asked.name)
