"""Committed offsets by group, topic name and partition."""

from collections.abc import Iterator

import msgspec

from protocol_codecs.uuids import ZERO_UUID, Uuid

NO_OFFSET = -1
NO_EXPIRY = -1
NO_LEADER_EPOCH = -1


class CommittedOffset(msgspec.Struct, frozen=True):
    """One committed offset. Times are in milliseconds since 1970."""

    offset: int
    commit_timestamp_ms: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    expire_timestamp_ms: int = NO_EXPIRY
    """When it expires, if the commit said so (OffsetCommit v2 to v4); -1 otherwise."""
    topic_id: Uuid = ZERO_UUID
    record_offset: int = 0
    """The commit's position in the log: of a transactional and a plain commit, the later one wins."""


PartitionOffsets = dict[int, CommittedOffset]
TopicOffsets = dict[str, PartitionOffsets]


class Offsets:
    """All committed offsets of a coordinator, or all pending ones of a transaction."""

    def __init__(self) -> None:
        self._groups: dict[str, TopicOffsets] = {}

    def group(self, group_id: str) -> TopicOffsets:
        """Return the offsets of a group, by topic and partition."""
        return self._groups.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return one offset."""
        return self.group(group_id).get(topic, {}).get(partition)

    def put(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        """Store one offset."""
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = offset

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Delete one offset if it exists."""
        topics = self.group(group_id)
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._groups.pop(group_id, None)

    def groups(self) -> tuple[str, ...]:
        """Return the groups that have offsets."""
        return tuple(self._groups)

    def entries(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        """Yield every offset with its group, topic and partition."""
        for group_id, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    yield group_id, topic, partition, offset
