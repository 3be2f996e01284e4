"""The state of share partitions in ``__share_group_state`` (record types 0 and 1 of that topic), as Kafka ships it.

The topic is not compacted, and its newest record of a key is not the whole state: that is the last snapshot with every
later update of the same snapshot epoch merged over it, batch by batch. Kafka writes a new snapshot after 500 updates.
The type numbers are those of offsets in ``__consumer_offsets``, so a reader must know which topic it reads.
"""

from protocol_codecs.fields import array, int8, int16, int32, int64, string, uuid
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid


class ShareSnapshotKey(Message, versions="0"):
    """Identifies the share partition (type 0)."""

    group_id: str = string()
    topic_id: Uuid = uuid()
    partition: int = int32()


class ShareUpdateKey(Message, versions="0"):
    """Identifies the share partition (type 1)."""

    group_id: str = string()
    topic_id: Uuid = uuid()
    partition: int = int32()


class ShareStateBatch(Message):
    """Records in one delivery state: 0 available, 2 acknowledged, 3 archiving (KIP-1191), 4 archived.

    1 would be acquired, which is never written: who acquired a record is known to the partition's leader only.
    """

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareSnapshotValue(Message, versions="0", flexible="0+"):
    """The whole state of a share partition. ``delivery_complete_count`` is there since Kafka 4.2 (KIP-1226)."""

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: tuple[ShareStateBatch, ...] = array(ShareStateBatch)


class ShareUpdateValue(Message, versions="0", flexible="0+"):
    """A change of a share partition's state since the snapshot. A start offset of -1 means that it stays."""

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    state_batches: tuple[ShareStateBatch, ...] = array(ShareStateBatch)
