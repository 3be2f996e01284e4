"""OffsetFetch (9): read a group's stored offsets.

- v0 read from ZooKeeper; Kafka 4 no longer has it.
- v1: from Kafka itself; the same bytes.
- v2: null topics ask for all of them; the response has an error for the whole group.
- v3: the response has a throttle time; v4: the broker answers before it throttles.
- v5: leader epochs (KIP-320).
- v6: flexible.
- v7: the request may insist on stable offsets, without pending transactions (KIP-447).
- v8: several groups in one request; the fields of one group move into an array.
- v9: member id and epoch, for members of the new protocol (KIP-848).
- v10: topics by id instead of by name.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, boolean, int16, int32, int64, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class OffsetFetchRequestTopic(Message):
    """Partitions asked for, v0 to v7."""

    name: str = string("0-7")
    partition_indexes: tuple[int, ...] = array(int32, "0-7")


class OffsetFetchRequestTopics(Message):
    """Partitions asked for, v8 and later."""

    name: str = string("8-9", ignorable=True)
    topic_id: Uuid = uuid("10+", ignorable=True)
    partition_indexes: tuple[int, ...] = array(int32, "8+")


class OffsetFetchRequestGroup(Message):
    """A group asked for, v8 and later."""

    group_id: str = string("8+")
    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: tuple[OffsetFetchRequestTopics, ...] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+")


class OffsetFetchRequest(Message, api_key=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    """Asks for stored offsets: of one group (v0 to v7) or of several."""

    group_id: str = string("0-7")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: tuple[OffsetFetchRequestGroup, ...] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


class OffsetFetchResponsePartition(Message):
    """The offset of one partition, v0 to v7; -1 if there is none."""

    partition_index: int = int32("0-7")
    committed_offset: int = int64("0-7")
    committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
    metadata: str | None = string("0-7", nullable="0-7")
    error_code: int = int16("0-7")


class OffsetFetchResponseTopic(Message):
    """The offsets of one topic, v0 to v7."""

    name: str = string("0-7")
    partitions: tuple[OffsetFetchResponsePartition, ...] = array(OffsetFetchResponsePartition, "0-7")


class OffsetFetchResponsePartitions(Message):
    """The offset of one partition, v8 and later; -1 if there is none."""

    partition_index: int = int32("8+")
    committed_offset: int = int64("8+")
    committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
    metadata: str | None = string("8+", nullable="8+")
    error_code: int = int16("8+")


class OffsetFetchResponseTopics(Message):
    """The offsets of one topic, v8 and later."""

    name: str = string("8-9", ignorable=True)
    topic_id: Uuid = uuid("10+", ignorable=True)
    partitions: tuple[OffsetFetchResponsePartitions, ...] = array(OffsetFetchResponsePartitions, "8+")


class OffsetFetchResponseGroup(Message):
    """The offsets of one group, v8 and later."""

    group_id: str = string("8+")
    topics: tuple[OffsetFetchResponseTopics, ...] = array(OffsetFetchResponseTopics, "8+")
    error_code: int = int16("8+")


class OffsetFetchResponse(Message, api_key=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    """The stored offsets of one group (v0 to v7) or of several."""

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: tuple[OffsetFetchResponseTopic, ...] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: tuple[OffsetFetchResponseGroup, ...] = array(OffsetFetchResponseGroup, "8+")
