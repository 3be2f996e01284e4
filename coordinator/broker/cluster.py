"""The embedded cluster: its nodes, its topics, and which node coordinates which groups."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import structlog
import trio

from coordinator import java_order
from coordinator.broker.clock import Clock
from coordinator.broker.connect_groups import ConnectGroupsHost
from coordinator.broker.connections import Connections
from coordinator.broker.experimental import groups_codec
from coordinator.broker.partition_log import PartitionLog
from coordinator.broker.shard_host import ShardHost
from coordinator.broker.share_leader import ShareLeader
from coordinator.broker.storage import Storage, StoredCluster, StoredTopic
from coordinator.config import CoordinatorConfig, parse_group_config
from coordinator.errors import CoordinatorError, CorruptLog, RequestRefused
from coordinator.image import MetadataImage, TopicImage
from coordinator.log import FileLog, MemoryLog, RecordLog
from coordinator.metrics.sensors import Sensors
from coordinator.share_state import ShareState
from coordinator.uuids import RandomUuids, UuidSource
from protocol_codecs.connect_groups import CONNECT_GROUPS
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import SHARE_STATE, TopicCodec
from protocol_codecs.uuids import Uuid, uuid_from_text, uuid_to_text

_log: structlog.stdlib.BoundLogger = structlog.get_logger("coordinator.broker")


class TopicExists(CoordinatorError):
    """A topic of this name exists already."""


class UnknownTopic(CoordinatorError):
    """No topic of this name exists."""


class NodeAddress(msgspec.Struct, frozen=True):
    """The address at which clients reach a node."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Topic:
    """One topic with its records and its settings."""

    def __init__(self, image: TopicImage, logs: list[PartitionLog]) -> None:
        self.image = image
        self.logs = logs
        self.settings: dict[str, str] = {}


class EmbeddedCluster:
    """A cluster of ``nodes`` nodes (ids from 0) on one host. ``serve`` starts it.

    - ``ports``: of the nodes; by default free ones.
    - ``shards``: the number of coordinators that the groups are divided among, like the partitions of
      ``__consumer_offsets``.
    - ``log_directory``: where topics, groups and the state of share partitions are kept over a restart; by default they
      are in memory.
    - ``racks``: of the nodes.
    - ``auto_create_partitions``: the number of partitions of a topic that a Metadata request creates; 0 creates none.
    - ``partition_max_bytes``: the size above which a partition drops its oldest records.
    - ``metrics_port``: where ``GET /metrics`` is served, on ``metrics_host``; 0 takes a free port, None serves none.
    """

    def __init__(
        self,
        *,
        nodes: int = 1,
        host: str = "127.0.0.1",
        ports: Sequence[int] = (),
        shards: int = 4,
        coordinator: CoordinatorConfig | None = None,
        log_directory: Path | None = None,
        racks: Sequence[str] = (),
        auto_create_partitions: int = 1,
        partition_max_bytes: int | None = None,
        metrics_port: int | None = None,
        metrics_host: str = "127.0.0.1",
        uuids: UuidSource | None = None,
    ) -> None:
        if ports and len(ports) != nodes:
            raise ValueError(f"{nodes} nodes need {nodes} ports, not {list(ports)}")
        if racks and len(racks) != nodes:
            raise ValueError(f"{nodes} nodes need {nodes} racks, not {list(racks)}")
        self.node_ids = range(nodes)
        self.host = host
        self.ports = tuple(ports) or (0,) * nodes
        self.racks = tuple(racks)
        self.auto_create_partitions = auto_create_partitions
        self.config = coordinator or CoordinatorConfig()
        self.uuids = uuids or RandomUuids()
        self.addresses: dict[int, NodeAddress] = {}
        self.topics: dict[str, Topic] = {}
        self.image = MetadataImage()
        self.group_settings: dict[str, dict[str, str]] = {}
        self.shards: list[ShardHost] = []
        self.share_state = ShareState()
        """The state of share partitions, of all groups: here there is one share coordinator."""
        self.sensors = Sensors(0.0)
        """What the coordinators do; from the start on."""
        self.metrics_host = metrics_host
        self.metrics_port = metrics_port
        """The port of the metrics; once the cluster is served, the one that was taken."""
        self._shard_count = shards
        self._log_directory = log_directory
        self.share_leaders: dict[int, ShareLeader] = {}
        """What each node does for share groups as the leader of partitions."""
        self.connect_groups: ConnectGroupsHost | None = None
        """Groups of Connect workers, an experiment; from the start on, if the configuration has it."""
        self._next_producer_id = 1000
        self.connections = Connections()
        self._arrivals = trio.lowlevel.ParkingLot()
        self._logs: list[RecordLog] = []
        self.log_damage: list[CorruptLog] = []
        """The damaged ends of the logs that were cut off when they were opened."""
        self._storage = Storage(
            None if log_directory is None else log_directory / "topics", partition_max_bytes
        )
        stored = self._storage.load()
        self.cluster_id = uuid_to_text(self.uuids.next()) if stored is None else stored.cluster_id
        if stored is not None:
            self._restore(stored)

    # Leaders and coordinators

    @property
    def bootstrap(self) -> str:
        """Return every node's host:port, separated by commas."""
        return ",".join(f"{address.host}:{address.port}" for address in self.addresses.values())

    @property
    def controller_id(self) -> int:
        """Return the node that is reported as the controller."""
        return self.node_ids[0]

    def leader_of(self, partition: int) -> int:
        """Return the node that leads this partition of every topic."""
        return self.node_ids[partition % len(self.node_ids)]

    def shard_of(self, group_id: str) -> ShardHost:
        """Return the coordinator of a group, chosen by the hash of its id as in Kafka."""
        return self.shards[java_order.absolute(java_order.text_hash(group_id)) % len(self.shards)]

    def coordinator_of(self, group_id: str) -> int:
        """Return the node that coordinates a group."""
        return self.shard_of(group_id).node_id

    def topic_by_id(self, topic_id: Uuid) -> Topic | None:
        """Return the topic of this id."""
        image = self.image.by_id(topic_id)
        return None if image is None else self.topics[image.name]

    def end_offset(self, topic_id: Uuid, partition: int) -> int | None:
        """Return where the log of a partition ends; None if there is no such partition."""
        topic = self.topic_by_id(topic_id)
        if topic is None or not 0 <= partition < len(topic.logs):
            return None
        return topic.logs[partition].next_offset

    # Changes

    def create_topic(
        self, name: str, partitions: int = 1, *, settings: Mapping[str, str] | None = None
    ) -> Uuid:
        """Create a topic; return its id. Raises TopicExists."""
        if name in self.topics:
            raise TopicExists(name)
        topic_id = self.uuids.next()
        self._add_topic(name, topic_id, partitions, settings or {})
        self._save()
        return topic_id

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records. Raises UnknownTopic."""
        if name not in self.topics:
            raise UnknownTopic(name)
        topic = self.topics.pop(name)
        for log in topic.logs:
            log.delete()
        self._set_image(self.image.without(name))
        for leader in self.share_leaders.values():
            leader.forget_topic(topic.image.topic_id)
        self._save()
        self.notify_records()

    def create_partitions(self, name: str, count: int) -> None:
        """Increase a topic's partitions to ``count``. Raises UnknownTopic, and ValueError for fewer than it has."""
        topic = self.topics.get(name)
        if topic is None:
            raise UnknownTopic(name)
        if count <= topic.image.partitions:
            raise ValueError(f"topic {name} has {topic.image.partitions} partitions already")
        topic.logs += [
            self._storage.log(topic.image.topic_id, number) for number in range(topic.image.partitions, count)
        ]
        topic.image = msgspec.structs.replace(topic.image, partitions=count, racks=self._racks_of(count))
        self._set_image(self.image.with_topic(topic.image))
        self._save()

    def set_topic_settings(self, name: str, settings: Mapping[str, str]) -> None:
        """Replace all settings of a topic. Raises UnknownTopic."""
        if name not in self.topics:
            raise UnknownTopic(name)
        self.topics[name].settings = dict(settings)
        self._save()

    def move_coordinator(self, group_id: str, node_id: int) -> None:
        """Move the coordinator of this group, and of its shard's other groups, to another node, which loads their log.

        Waiting requests are answered NOT_COORDINATOR. What is not in the log is lost, as in Kafka: rebalances in
        progress.
        """
        if node_id not in self.node_ids:
            raise ValueError(f"there is no node {node_id}")
        shard = self.shard_of(group_id)
        shard.move_to(node_id)
        if self.connect_groups is not None:
            self.connect_groups.reload(shard)

    def set_loading(self, group_id: str, *, loading: bool) -> None:
        """Make the group's coordinator answer COORDINATOR_LOAD_IN_PROGRESS, or stop doing so."""
        self.shard_of(group_id).is_loading = loading

    def check_group_settings(self, settings: Mapping[str, str]) -> None:
        """Raise RequestRefused with INVALID_CONFIG if a group may not have these settings."""
        parse_group_config(dict(settings), self.config)

    def set_group_settings(self, group_id: str, settings: Mapping[str, str]) -> None:
        """Replace all settings of a group. Raises RequestRefused with INVALID_CONFIG."""
        parse_group_config(dict(settings), self.config)
        self.group_settings[group_id] = dict(settings)
        self._apply_group_settings(group_id)
        self._save()

    def new_producer_id(self) -> int:
        """Return an unused producer id."""
        self._next_producer_id += 1
        self._save()
        return self._next_producer_id

    # Waiting for records

    def notify_records(self) -> None:
        """Wake the requests that wait for records, be they new or released by others."""
        self._arrivals.unpark_all()

    async def wait_for_records(self) -> None:
        """Wait until records were appended to any partition, or may have become available to a share group."""
        await self._arrivals.park()

    # For the server

    def start(self, clock: Clock, addresses: Sequence[NodeAddress]) -> None:
        """Start the nodes at these addresses, and load the logs of groups and share partitions."""
        self.addresses = {address.node_id: address for address in addresses}
        self.sensors = Sensors(clock.elapsed_ms())
        self.share_state = ShareState(
            self._new_record_log("__share_group_state", SHARE_STATE),
            updates_per_snapshot=self.config.share_snapshot_update_records,
        )
        self.share_state.load()
        self.share_leaders = {
            node_id: ShareLeader(
                self.config,
                share_state=self.share_state,
                clock=clock,
                find_log=partial(self._led_log, node_id),
                notify=self.notify_records,
            )
            for node_id in self.node_ids
        }
        for number in range(self._shard_count):
            log = self._new_record_log(f"__consumer_offsets-{number}", groups_codec(self.config))
            self.shards.append(
                ShardHost(
                    number,
                    self.node_ids[number % len(self.node_ids)],
                    config=self.config,
                    log=log,
                    uuids=self.uuids,
                    clock=clock,
                    image=self.image,
                    sensors=self.sensors,
                    share_state=self.share_state,
                    end_offset=self.end_offset,
                )
            )
        for group_id in self.group_settings:
            self._apply_group_settings(group_id)
        if self.config.experimental_connect_groups:
            self.connect_groups = ConnectGroupsHost(
                self.shards,
                new_log=lambda number: self._new_record_log(f"connect_groups-{number}", CONNECT_GROUPS),
                clock=clock,
            )

    def stop(self) -> None:
        """Stop the coordinators and close all logs."""
        for shard in self.shards:
            shard.unload()
        for log in self._logs:
            if isinstance(log, FileLog):
                log.close()
        for topic in self.topics.values():
            for partition_log in topic.logs:
                partition_log.close()

    def _led_log(self, node_id: int, topic_id: Uuid, partition: int) -> PartitionLog:
        """Return the log of a partition that this node leads. Raises RequestRefused."""
        topic = self.topic_by_id(topic_id)
        if topic is None or not 0 <= partition < len(topic.logs):
            raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
        if self.leader_of(partition) != node_id:
            raise RequestRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {node_id} is not its leader")
        return topic.logs[partition]

    def _new_record_log(self, name: str, codec: TopicCodec) -> RecordLog:
        """Return the log of a coordinator, which is in memory unless there is a directory for logs."""
        log: RecordLog = MemoryLog(codec=codec)
        if self._log_directory is not None:
            log = self._opened(self._log_directory / f"{name}.log", codec)
        self._logs.append(log)
        return log

    def _opened(self, path: Path, codec: TopicCodec) -> FileLog:
        log = FileLog(path, codec)
        if log.damage is not None:
            self.log_damage.append(log.damage)
            _log.warning(
                "the end of a log was damaged and is cut off",
                log=path.name,
                offset=log.damage.offset,
                position=log.damage.position,
                reason=log.damage.reason,
            )
        return log

    def _set_image(self, image: MetadataImage) -> None:
        self.image = image
        for shard in self.shards:
            shard.update_image(image)

    def _add_topic(self, name: str, topic_id: Uuid, partitions: int, settings: Mapping[str, str]) -> None:
        image = TopicImage(topic_id, name, partitions, self._racks_of(partitions))
        topic = Topic(image, [self._storage.log(topic_id, number) for number in range(partitions)])
        topic.settings.update(settings)
        self.topics[name] = topic
        self._set_image(self.image.with_topic(image))

    def _apply_group_settings(self, group_id: str) -> None:
        config = parse_group_config(self.group_settings[group_id], self.config)
        self.shard_of(group_id).set_group_config(group_id, config)
        for leader in self.share_leaders.values():
            leader.set_group_config(group_id, config)

    def _restore(self, stored: StoredCluster) -> None:
        self._next_producer_id = stored.next_producer_id
        self.group_settings.update(stored.group_settings)
        for topic in stored.topics:
            self._add_topic(topic.name, uuid_from_text(topic.topic_id), topic.partitions, topic.settings)

    def _save(self) -> None:
        self._storage.save(
            StoredCluster(
                cluster_id=self.cluster_id,
                next_producer_id=self._next_producer_id,
                topics=tuple(
                    StoredTopic(
                        topic.image.name,
                        uuid_to_text(topic.image.topic_id),
                        topic.image.partitions,
                        topic.settings,
                    )
                    for topic in self.topics.values()
                ),
                group_settings=self.group_settings,
            )
        )

    def _racks_of(self, partitions: int) -> tuple[tuple[str, ...], ...]:
        if not self.racks:
            return ()
        return tuple((self.racks[self.leader_of(number)],) for number in range(partitions))
