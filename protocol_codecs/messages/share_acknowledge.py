"""ShareAcknowledge (79): say what became of acquired records, without acquiring more (KIP-932).

It goes on in a share session that ShareFetch has opened; session epoch -1 closes it. Flexible from the start. v0 was
in Kafka 4.0 alone, as a preview, and is not declared.

- v2: renewal of locks (KIP-1222).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int8, int16, int32, int64, string, struct, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class ShareAcknowledgeRequestBatch(Message):
    """What became of the records at these offsets: one type for all of them, or one for each."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: tuple[int, ...] = array(int8)


class ShareAcknowledgeRequestPartition(Message):
    """Acknowledgements for one partition."""

    partition_index: int = int32()
    acknowledgement_batches: tuple[ShareAcknowledgeRequestBatch, ...] = array(ShareAcknowledgeRequestBatch)


class ShareAcknowledgeRequestTopic(Message):
    """Acknowledgements for one topic."""

    topic_id: Uuid = uuid()
    partitions: tuple[ShareAcknowledgeRequestPartition, ...] = array(ShareAcknowledgeRequestPartition)


class ShareAcknowledgeRequest(Message, api_key=ApiKey.SHARE_ACKNOWLEDGE, versions="1-2", flexible="0+"):
    """Acknowledgements, or renewals if ``is_renew_ack`` is set."""

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default="")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+")
    topics: tuple[ShareAcknowledgeRequestTopic, ...] = array(ShareAcknowledgeRequestTopic)


class ShareAcknowledgeResponseLeader(Message):
    """The leader as the broker knows it."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class ShareAcknowledgeResponsePartition(Message):
    """Whether the acknowledgements for one partition were accepted."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: ShareAcknowledgeResponseLeader = struct(ShareAcknowledgeResponseLeader)


class ShareAcknowledgeResponseTopic(Message):
    """Whether the acknowledgements for one topic were accepted."""

    topic_id: Uuid = uuid()
    partitions: tuple[ShareAcknowledgeResponsePartition, ...] = array(ShareAcknowledgeResponsePartition)


class ShareAcknowledgeResponseNodeEndpoint(Message):
    """The address of a leader that is named above."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class ShareAcknowledgeResponse(Message, api_key=ApiKey.SHARE_ACKNOWLEDGE, versions="1-2", flexible="0+"):
    """Whether the acknowledgements were accepted, and how long renewed records are locked."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16(ignorable=True)
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+")
    responses: tuple[ShareAcknowledgeResponseTopic, ...] = array(ShareAcknowledgeResponseTopic)
    node_endpoints: tuple[ShareAcknowledgeResponseNodeEndpoint, ...] = array(
        ShareAcknowledgeResponseNodeEndpoint
    )
