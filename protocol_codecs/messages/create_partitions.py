"""CreatePartitions (37): give topics more partitions.

- v1: the broker answers before it throttles.
- v2: flexible.
- v3: may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int16, int32, string
from protocol_codecs.message import Message


class CreatePartitionsRequestAssignment(Message):
    """The brokers that are to hold the replicas of one new partition."""

    broker_ids: tuple[int, ...] = array(int32)


class CreatePartitionsRequestTopic(Message):
    """One topic, and its new total number of partitions."""

    name: str = string()
    count: int = int32()
    assignments: tuple[CreatePartitionsRequestAssignment, ...] | None = array(
        CreatePartitionsRequestAssignment, nullable="0+"
    )


class CreatePartitionsRequest(Message, api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    """Asks for more partitions."""

    topics: tuple[CreatePartitionsRequestTopic, ...] = array(CreatePartitionsRequestTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsResponseTopic(Message):
    """The result of one topic."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreatePartitionsResponse(Message, api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"):
    """The result of each topic."""

    throttle_time_ms: int = int32()
    results: tuple[CreatePartitionsResponseTopic, ...] = array(CreatePartitionsResponseTopic)
