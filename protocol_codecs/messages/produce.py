"""Produce (0): append record batches to partitions.

- v0 to v2 are gone from Kafka 4. v3: record batches of magic 2, transactional ids.
- v5: the response has the log start offset.
- v7: zstd.
- v8: errors of single records (KIP-467).
- v9: flexible.
- v10: the response may name the new leader, with its address (KIP-951).
- v11: may answer TRANSACTION_ABORTABLE; v12: adds partitions to the transaction by itself (KIP-890).
- v13: topics by id instead of by name.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, binary, int16, int32, int64, string, struct, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class ProduceRequestPartition(Message):
    """Records for one partition: one batch, as bytes."""

    index: int = int32()
    records: bytes | None = binary(nullable="0+")


class ProduceRequestTopic(Message):
    """Records for one topic."""

    name: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partition_data: tuple[ProduceRequestPartition, ...] = array(ProduceRequestPartition)


class ProduceRequest(Message, api_key=ApiKey.PRODUCE, versions="3-13", flexible="9+"):
    """Records to append; with acks 0 the broker does not answer."""

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: tuple[ProduceRequestTopic, ...] = array(ProduceRequestTopic)


class ProduceResponseRecordError(Message):
    """A record that caused its batch to be rejected."""

    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class ProduceResponseLeader(Message):
    """The leader as the broker knows it."""

    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class ProduceResponsePartition(Message):
    """The result of one partition."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: tuple[ProduceResponseRecordError, ...] = array(
        ProduceResponseRecordError, "8+", ignorable=True
    )
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: ProduceResponseLeader = struct(ProduceResponseLeader, "10+", tag=0)


class ProduceResponseTopic(Message):
    """The results of one topic."""

    name: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partition_responses: tuple[ProduceResponsePartition, ...] = array(ProduceResponsePartition)


class ProduceResponseNodeEndpoint(Message):
    """The address of a leader that is named above."""

    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


class ProduceResponse(Message, api_key=ApiKey.PRODUCE, versions="3-13", flexible="9+"):
    """The base offset or the error of each partition."""

    responses: tuple[ProduceResponseTopic, ...] = array(ProduceResponseTopic)
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: tuple[ProduceResponseNodeEndpoint, ...] = array(ProduceResponseNodeEndpoint, "10+", tag=0)
