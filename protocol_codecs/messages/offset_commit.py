"""OffsetCommit (8): store a group's offsets.

- v0 stored offsets in ZooKeeper. Kafka 4 no longer has v0 and v1; old clients may still send them.
- v1: generation and member id; a commit timestamp for each partition, in this version only.
- v2: a retention time for the whole request instead.
- v3: the response has a throttle time; v4: the broker answers before it throttles.
- v5: no retention time any more.
- v6: leader epochs (KIP-320).
- v7: group instance id (KIP-345).
- v8: flexible.
- v9: also for members of the new protocol, whose epoch takes the generation's place (KIP-848).
- v10: topics by id instead of by name.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, int64, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class OffsetCommitRequestPartition(Message):
    """The offset of one partition."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class OffsetCommitRequestTopic(Message):
    """The offsets of one topic."""

    name: str = string("0-9", ignorable=True)
    topic_id: Uuid = uuid("10+", ignorable=True)
    partitions: tuple[OffsetCommitRequestPartition, ...] = array(OffsetCommitRequestPartition)


class OffsetCommitRequest(Message, api_key=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    """A group's offsets to store."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: tuple[OffsetCommitRequestTopic, ...] = array(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Message):
    """The result of one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class OffsetCommitResponseTopic(Message):
    """The results of one topic."""

    name: str = string("0-9", ignorable=True)
    topic_id: Uuid = uuid("10+", ignorable=True)
    partitions: tuple[OffsetCommitResponsePartition, ...] = array(OffsetCommitResponsePartition)


class OffsetCommitResponse(Message, api_key=ApiKey.OFFSET_COMMIT, versions="0-10", flexible="8+"):
    """The result of each partition."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: tuple[OffsetCommitResponseTopic, ...] = array(OffsetCommitResponseTopic)
