"""ListOffsets (2): find the offset of a timestamp, or of the beginning or end of a log.

Timestamps below zero are special: -1 latest, -2 earliest, -3 of the largest timestamp (v7), -4 local earliest (v8),
-5 latest tiered (v9), -6 earliest pending upload (v11).

- v0 is gone from Kafka 4. v1: one offset a partition.
- v2: isolation levels; the response has a throttle time; v3: the broker answers before it throttles.
- v4: leader epochs (KIP-320).
- v6: flexible.
- v10: a timeout for offsets in remote storage.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, int8, int16, int32, int64, string
from protocol_codecs.message import Message


class ListOffsetsRequestPartition(Message):
    """One partition and a timestamp."""

    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()


class ListOffsetsRequestTopic(Message):
    """Partitions of one topic."""

    name: str = string()
    partitions: tuple[ListOffsetsRequestPartition, ...] = array(ListOffsetsRequestPartition)


class ListOffsetsRequest(Message, api_key=ApiKey.LIST_OFFSETS, versions="1-11", flexible="6+"):
    """Asks for offsets by timestamp."""

    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: tuple[ListOffsetsRequestTopic, ...] = array(ListOffsetsRequestTopic)
    timeout_ms: int = int32("10+", ignorable=True)


class ListOffsetsResponsePartition(Message):
    """The offset of one partition; -1 if there is none."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsResponseTopic(Message):
    """The offsets of one topic."""

    name: str = string()
    partitions: tuple[ListOffsetsResponsePartition, ...] = array(ListOffsetsResponsePartition)


class ListOffsetsResponse(Message, api_key=ApiKey.LIST_OFFSETS, versions="1-11", flexible="6+"):
    """The offsets of each topic."""

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: tuple[ListOffsetsResponseTopic, ...] = array(ListOffsetsResponseTopic)
