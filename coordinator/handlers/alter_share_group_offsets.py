"""AlterShareGroupOffsets (91), v0: lets share partitions of a group without members begin elsewhere (KIP-932).

Their state begins anew: what was acknowledged behind the new start offset is delivered again. A group that does not
exist is created.
"""

from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from coordinator.share_groups import initialization
from coordinator.share_groups.group import ShareGroup
from protocol_codecs.all_messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.uuids import ZERO_UUID, Uuid


def serve(
    shard: Shard, request: AlterShareGroupOffsetsRequest, _call: Call
) -> AlterShareGroupOffsetsResponse:
    """Serve the request."""
    try:
        if not request.group_id:
            raise RequestRefused(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        group = _empty_group(shard, request.group_id)
        starts = _starts(shard, request)
        succeeded = not starts or initialization.start_at(shard, group, starts)
    except RequestRefused as refused:
        return AlterShareGroupOffsetsResponse(error_code=refused.code, error_message=refused.message)
    responses = (_answer(shard, topic, succeeded=succeeded) for topic in request.topics)
    return AlterShareGroupOffsetsResponse(responses=tuple(responses))


def _empty_group(shard: Shard, group_id: str) -> ShareGroup:
    """Return the group, or a new one. Raises RequestRefused with GROUP_ID_NOT_FOUND and NON_EMPTY_GROUP."""
    if group_id not in shard.groups:
        return ShareGroup(group_id)
    group = shard.share_group(group_id)
    if not group.is_empty:
        raise RequestRefused(ErrorCode.NON_EMPTY_GROUP, f"group {group_id!r} has members")
    return group


def _starts(shard: Shard, request: AlterShareGroupOffsetsRequest) -> dict[tuple[Uuid, int], int]:
    """Return the new start offsets of partitions that exist."""
    return {
        (topic.topic_id, partition.partition_index): partition.start_offset
        for asked in request.topics
        if (topic := shard.image.by_name(asked.topic_name)) is not None
        for partition in asked.partitions
        if partition.partition_index < topic.partitions
    }


def _answer(
    shard: Shard, asked: AlterShareGroupOffsetsRequestTopic, *, succeeded: bool
) -> AlterShareGroupOffsetsResponseTopic:
    topic = shard.image.by_name(asked.topic_name)
    count = 0 if topic is None else topic.partitions
    done = ErrorCode.NONE if succeeded else ErrorCode.FENCED_STATE_EPOCH
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        topic_id=ZERO_UUID if topic is None else topic.topic_id,
        partitions=tuple(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=partition.partition_index,
                error_code=done
                if partition.partition_index < count
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for partition in asked.partitions
        ),
    )
