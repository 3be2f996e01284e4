"""DeleteShareGroupOffsets (92): forget the state of topics that an empty share group has read (KIP-932).

Flexible from the start.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class DeleteShareGroupOffsetsRequestTopic(Message):
    """One topic."""

    topic_name: str = string()


class DeleteShareGroupOffsetsRequest(
    Message, api_key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"
):
    """The topics that the group is to forget."""

    group_id: str = string()
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...] = array(DeleteShareGroupOffsetsRequestTopic)


class DeleteShareGroupOffsetsResponseTopic(Message):
    """The result of one topic."""

    topic_name: str = string()
    topic_id: Uuid = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DeleteShareGroupOffsetsResponse(
    Message, api_key=ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions="0", flexible="0+"
):
    """The result of each topic."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = array(DeleteShareGroupOffsetsResponseTopic)
