"""TxnOffsetCommit (28): store a group's offsets as part of a transaction.

- v1: the broker answers before it throttles.
- v2: leader epochs (KIP-320).
- v3: flexible; generation, member id and group instance id (KIP-447).
- v4: may answer TRANSACTION_ABORTABLE (KIP-890).
- v5: also adds the group to the transaction, where transactions v2 are on (KIP-890): same bytes, another
  meaning.
- v6: topics by id instead of by name (KIP-1319).
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, int64, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class TxnOffsetCommitRequestPartition(Message):
    """The offset of one partition."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


class TxnOffsetCommitRequestTopic(Message):
    """The offsets of one topic."""

    name: str = string("0-5", ignorable=True)
    topic_id: Uuid = uuid("6+", ignorable=True)
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(Message, api_key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"):
    """Offsets of a group to store when the producer's transaction commits."""

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Message):
    """The result of one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Message):
    """The results of one topic."""

    name: str = string("0-5", ignorable=True)
    topic_id: Uuid = uuid("6+", ignorable=True)
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(Message, api_key=ApiKey.TXN_OFFSET_COMMIT, versions="0-6", flexible="3+"):
    """The result of each partition."""

    throttle_time_ms: int = int32()
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = array(TxnOffsetCommitResponseTopic)
