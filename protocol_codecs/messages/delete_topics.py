"""DeleteTopics (20): delete topics.

- v0 is gone from Kafka 4. v1: the response has a throttle time; v2: the broker answers before it throttles.
- v4: flexible.
- v5: error messages; may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
- v6: topics by name or by id.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class DeleteTopicsRequestTopic(Message):
    """One topic, by name or by id."""

    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: Uuid = uuid("6+")


class DeleteTopicsRequest(Message, api_key=ApiKey.DELETE_TOPICS, versions="1-6", flexible="4+"):
    """Asks to delete topics, by name (v1 to v5) or by name or id."""

    topics: tuple[DeleteTopicsRequestTopic, ...] = array(DeleteTopicsRequestTopic, "6+")
    topic_names: tuple[str, ...] = array(string, "0-5", ignorable=True)
    timeout_ms: int = int32()


class DeleteTopicsResponseTopic(Message):
    """The result of one topic."""

    name: str | None = string(nullable="6+")
    topic_id: Uuid = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message, api_key=ApiKey.DELETE_TOPICS, versions="1-6", flexible="4+"):
    """The result of each topic."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: tuple[DeleteTopicsResponseTopic, ...] = array(DeleteTopicsResponseTopic)
