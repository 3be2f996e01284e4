"""Keeps an embedded cluster's topics over a restart: one small file that says which there are, and one log a partition.

Without an fsync, as the coordinators' logs: it survives the end of its process.
"""

from pathlib import Path

import msgspec

from coordinator.broker.partition_log import PartitionLog
from protocol_codecs.uuids import Uuid, uuid_to_text

_WHAT_THERE_IS = "cluster.json"


class StoredTopic(msgspec.Struct, frozen=True):
    """A topic; ``topic_id`` in Kafka's text form."""

    name: str
    topic_id: str
    partitions: int
    settings: dict[str, str]


class StoredCluster(msgspec.Struct, frozen=True):
    """What a cluster has besides records and groups."""

    cluster_id: str
    next_producer_id: int
    topics: tuple[StoredTopic, ...]
    group_settings: dict[str, dict[str, str]]


class Storage:
    """The files of a cluster in a directory, which is created; without a directory everything is in memory."""

    def __init__(self, directory: Path | None, partition_max_bytes: int | None) -> None:
        self._directory = directory
        self._partition_max_bytes = partition_max_bytes
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)

    def load(self) -> StoredCluster | None:
        """Return what was saved; None for a new cluster. Raises msgspec.DecodeError for a damaged file."""
        if self._directory is None or not (self._directory / _WHAT_THERE_IS).exists():
            return None
        return msgspec.json.decode((self._directory / _WHAT_THERE_IS).read_bytes(), type=StoredCluster)

    def save(self, cluster: StoredCluster) -> None:
        """Replace what was saved."""
        if self._directory is not None:
            new = self._directory / f"{_WHAT_THERE_IS}.new"
            new.write_bytes(msgspec.json.format(msgspec.json.encode(cluster)))
            new.replace(self._directory / _WHAT_THERE_IS)

    def log(self, topic_id: Uuid, partition: int) -> PartitionLog:
        """Return the log of a partition with what is stored of it."""
        path = None
        if self._directory is not None:
            path = self._directory / f"{uuid_to_text(topic_id)}-{partition}.log"
        return PartitionLog(self._partition_max_bytes, path)
