"""OffsetDelete (47), v0: deletes stored offsets of topics that the group does not subscribe to."""

from coordinator import records
from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Group, Shard
from coordinator.share_groups.group import ShareGroup
from protocol_codecs.all_messages import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CoordinatorRecord


def serve(shard: Shard, request: OffsetDeleteRequest, _call: Call) -> OffsetDeleteResponse:
    """Serve the request."""
    try:
        group = _group(shard, request.group_id)
    except RequestRefused as refused:
        return OffsetDeleteResponse(error_code=refused.code)
    change: list[CoordinatorRecord] = []
    topics = tuple(_topic(shard, group, topic, change) for topic in request.topics)
    shard.apply(change)
    shard.activity.offset_deletions += len(change)
    return OffsetDeleteResponse(topics=topics)


def _group(shard: Shard, group_id: str) -> Group:
    if not group_id:
        raise RequestRefused(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    group = shard.group(group_id)
    if isinstance(group, ShareGroup):
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} has no offsets")
    if not isinstance(group, ClassicGroup):
        return group
    if group.state is ClassicGroupState.DEAD:
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} is gone")
    if not group.is_empty and not group.uses_consumer_protocol:
        raise RequestRefused(ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} has members")
    return group


def _topic(
    shard: Shard, group: Group, topic: OffsetDeleteRequestTopic, change: list[CoordinatorRecord]
) -> OffsetDeleteResponseTopic:
    results = []
    for asked in topic.partitions:
        number = asked.partition_index
        error = ErrorCode.NONE
        if not shard.image.has_partition(topic.name, number):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif group.is_subscribed_to(topic.name):
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif _is_stored(shard, group.group_id, topic.name, number):
            change.append(records.offset_commit_tombstone(group.group_id, topic.name, number))
        results.append(OffsetDeleteResponsePartition(partition_index=number, error_code=error))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=tuple(results))


def _is_stored(shard: Shard, group_id: str, topic: str, partition: int) -> bool:
    stores = (shard.offsets, *shard.pending_offsets.values())
    return any(store.get(group_id, topic, partition) is not None for store in stores)
