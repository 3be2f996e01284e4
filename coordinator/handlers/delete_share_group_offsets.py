"""DeleteShareGroupOffsets (92), v0: forgets the state of topics that a group without members has read (KIP-932)."""

from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from coordinator.share_groups import initialization
from protocol_codecs.all_messages import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.uuids import ZERO_UUID


def serve(
    shard: Shard, request: DeleteShareGroupOffsetsRequest, _call: Call
) -> DeleteShareGroupOffsetsResponse:
    """Serve the request."""
    try:
        if not request.group_id:
            raise RequestRefused(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        group = shard.share_group(request.group_id)
        if not group.is_empty:
            raise RequestRefused(ErrorCode.NON_EMPTY_GROUP, f"group {request.group_id!r} has members")
    except RequestRefused as refused:
        return DeleteShareGroupOffsetsResponse(error_code=refused.code, error_message=refused.message)
    topics = [shard.image.by_name(asked.topic_name) for asked in request.topics]
    forgotten = initialization.forget(shard, group, [topic for topic in topics if topic is not None])
    return DeleteShareGroupOffsetsResponse(
        responses=tuple(
            DeleteShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=topic.topic_id)
            if topic is not None and topic.topic_id in forgotten
            else DeleteShareGroupOffsetsResponseTopic(
                topic_name=asked.topic_name,
                topic_id=ZERO_UUID,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message="the group has no state of this topic",
            )
            for asked, topic in zip(request.topics, topics, strict=True)
        )
    )
