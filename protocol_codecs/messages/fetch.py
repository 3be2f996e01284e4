"""Fetch (1): read record batches; the broker may wait until there are some.

- v0 to v3 are gone from Kafka 4. v4: record batches of magic 2, isolation levels.
- v5: log start offsets.
- v7: fetch sessions: only what changed is asked for and answered (KIP-227).
- v9: leader epochs (KIP-320).
- v10: zstd.
- v11: racks, and replies that name a nearer replica (KIP-392).
- v12: flexible; truncation is detected by epochs (KIP-595).
- v13: topics by id instead of by name.
- v15: a replica's state moves into a tagged field (KIP-903).
- v16: the response may name the new leaders' addresses (KIP-951).
- v17: directory ids of replicas; v18: their high watermark.
"""

from protocol_codecs.api_key import ApiKey
from protocol_codecs.fields import array, binary, int8, int16, int32, int64, string, struct, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class FetchRequestReplicaState(Message):
    """The follower that fetches."""

    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchRequestPartition(Message):
    """One partition, and the offset to read from."""

    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: Uuid = uuid("17+", ignorable=True, tag=0)
    high_watermark: int = int64("18+", default=0x7FFFFFFFFFFFFFFF, ignorable=True, tag=1)


class FetchRequestTopic(Message):
    """Partitions of one topic to read."""

    topic: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partitions: tuple[FetchRequestPartition, ...] = array(FetchRequestPartition)


class FetchRequestForgottenTopic(Message):
    """Partitions to remove from the fetch session."""

    topic: str = string("7-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partitions: tuple[int, ...] = array(int32, "7+")


class FetchRequest(Message, api_key=ApiKey.FETCH, versions="4-18", flexible="12+"):
    """The partitions and offsets to read, and how long to wait for how many bytes."""

    cluster_id: str | None = string("12+", nullable="12+", default=None, ignorable=True, tag=0)
    replica_id: int = int32("0-14", default=-1)
    replica_state: FetchRequestReplicaState = struct(FetchRequestReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: tuple[FetchRequestTopic, ...] = array(FetchRequestTopic)
    forgotten_topics_data: tuple[FetchRequestForgottenTopic, ...] = array(FetchRequestForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


class FetchResponseDivergingEpoch(Message):
    """The largest epoch that both logs have, and its end offset."""

    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class FetchResponseLeader(Message):
    """The leader as the broker knows it."""

    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class FetchResponseSnapshotId(Message):
    """The snapshot that the follower has to load instead."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class FetchResponseAbortedTransaction(Message):
    """An aborted transaction, whose records the client skips."""

    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


class FetchResponsePartition(Message):
    """The records of one partition: whole batches, as bytes."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: FetchResponseDivergingEpoch = struct(FetchResponseDivergingEpoch, "12+", tag=0)
    current_leader: FetchResponseLeader = struct(FetchResponseLeader, "12+", tag=1)
    snapshot_id: FetchResponseSnapshotId = struct(FetchResponseSnapshotId, "12+", tag=2)
    aborted_transactions: tuple[FetchResponseAbortedTransaction, ...] | None = array(
        FetchResponseAbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: bytes | None = binary(nullable="0+")


class FetchResponseTopic(Message):
    """The records of one topic."""

    topic: str = string("0-12", ignorable=True)
    topic_id: Uuid = uuid("13+", ignorable=True)
    partitions: tuple[FetchResponsePartition, ...] = array(FetchResponsePartition)


class FetchResponseNodeEndpoint(Message):
    """The address of a leader that is named above."""

    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+", default=None)


class FetchResponse(Message, api_key=ApiKey.FETCH, versions="4-18", flexible="12+"):
    """The records of each topic."""

    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: tuple[FetchResponseTopic, ...] = array(FetchResponseTopic)
    node_endpoints: tuple[FetchResponseNodeEndpoint, ...] = array(FetchResponseNodeEndpoint, "16+", tag=0)
