"""OffsetForLeaderEpoch (23): the end offset of a leader epoch, to detect a truncated log (KIP-320).

- v0 and v1 are gone from Kafka 4. v2: the client's own leader epoch, so that stale clients are refused.
- v3: the replica id of a follower.
- v4: flexible.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int16, int32, int64, string
from protocol_codecs.message import Message


class OffsetForLeaderEpochRequestPartition(Message):
    """One partition and an epoch."""

    partition: int = int32()
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32()


class OffsetForLeaderEpochRequestTopic(Message):
    """Partitions of one topic."""

    topic: str = string()
    partitions: tuple[OffsetForLeaderEpochRequestPartition, ...] = array(OffsetForLeaderEpochRequestPartition)


class OffsetForLeaderEpochRequest(
    Message, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="2-4", flexible="4+"
):
    """Asks for the end offsets of leader epochs."""

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: tuple[OffsetForLeaderEpochRequestTopic, ...] = array(OffsetForLeaderEpochRequestTopic)


class OffsetForLeaderEpochResponsePartition(Message):
    """The end offset of an epoch of one partition; -1 if it is not known."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


class OffsetForLeaderEpochResponseTopic(Message):
    """The results of one topic."""

    topic: str = string()
    partitions: tuple[OffsetForLeaderEpochResponsePartition, ...] = array(
        OffsetForLeaderEpochResponsePartition
    )


class OffsetForLeaderEpochResponse(
    Message, api_key=ApiKey.OFFSET_FOR_LEADER_EPOCH, versions="2-4", flexible="4+"
):
    """The end offsets of each topic."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: tuple[OffsetForLeaderEpochResponseTopic, ...] = array(OffsetForLeaderEpochResponseTopic)
