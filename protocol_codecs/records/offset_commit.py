"""A committed offset in ``__consumer_offsets`` (record types 0 and 1, which have the same key)."""

from protocol_codecs.fields import int32, int64, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class OffsetCommitKey(Message, versions="0"):
    """Identifies group and partition."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    """The committed offset. Kafka writes v4, and v1 if the offset has an expire timestamp."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: Uuid = uuid("4+", ignorable=True, tag=0)
