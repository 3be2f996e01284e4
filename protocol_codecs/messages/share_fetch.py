"""ShareFetch (78): acquire records of share partitions, and acknowledge those acquired before (KIP-932).

The session epoch is 0 to open a share session, then counts up; -1 closes it. Flexible from the start. v0 was in
Kafka 4.0 alone, as a preview with other fields, and is not declared.

- v2: acquisition by the exact number of records, and renewal of locks (KIP-1206, KIP-1222).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, binary, boolean, int8, int16, int32, int64, string, struct, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class ShareFetchRequestAcknowledgementBatch(Message):
    """What became of the records at these offsets: one type for all of them, or one for each."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: tuple[int, ...] = array(int8)


class ShareFetchRequestPartition(Message):
    """One partition to acquire records of, and acknowledgements for it."""

    partition_index: int = int32()
    acknowledgement_batches: tuple[ShareFetchRequestAcknowledgementBatch, ...] = array(
        ShareFetchRequestAcknowledgementBatch
    )


class ShareFetchRequestTopic(Message):
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    partitions: tuple[ShareFetchRequestPartition, ...] = array(ShareFetchRequestPartition)


class ShareFetchRequestForgottenTopic(Message):
    """Partitions to remove from the share session."""

    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(int32)


class ShareFetchRequest(Message, api_key=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    """Which partitions are new in the share session, and how long to wait for how much."""

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default="")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32("1+")
    batch_size: int = int32("1+")
    share_acquire_mode: int = int8("2+")
    is_renew_ack: bool = boolean("2+")
    topics: tuple[ShareFetchRequestTopic, ...] = array(ShareFetchRequestTopic)
    forgotten_topics_data: tuple[ShareFetchRequestForgottenTopic, ...] = array(
        ShareFetchRequestForgottenTopic
    )


class ShareFetchResponseLeader(Message):
    """The leader as the broker knows it."""

    leader_id: int = int32()
    leader_epoch: int = int32()


class ShareFetchResponseAcquiredRecords(Message):
    """Offsets that are locked for the member now, and how often they have been delivered with this time."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class ShareFetchResponsePartition(Message):
    """The records of one partition: whole batches, as bytes, of which only some may be acquired."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: ShareFetchResponseLeader = struct(ShareFetchResponseLeader)
    records: bytes = binary()
    acquired_records: tuple[ShareFetchResponseAcquiredRecords, ...] = array(ShareFetchResponseAcquiredRecords)


class ShareFetchResponseTopic(Message):
    """The records of one topic."""

    topic_id: Uuid = uuid()
    partitions: tuple[ShareFetchResponsePartition, ...] = array(ShareFetchResponsePartition)


class ShareFetchResponseNodeEndpoint(Message):
    """The address of a leader that is named above."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class ShareFetchResponse(Message, api_key=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    """The records of each topic, and how long those acquired are locked."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16(ignorable=True)
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("1+")
    responses: tuple[ShareFetchResponseTopic, ...] = array(ShareFetchResponseTopic)
    node_endpoints: tuple[ShareFetchResponseNodeEndpoint, ...] = array(ShareFetchResponseNodeEndpoint)
