"""One group with client-side assignors, spoken to request by request."""

from typing import Any

from coordinator.config import CoordinatorConfig
from coordinator.group_coordinator import GroupCoordinator
from coordinator.image import MetadataImage, TopicImage
from coordinator.log import MemoryLog
from coordinator.shard import Call
from coordinator.uuids import SeededUuids
from protocol_codecs.all_messages import ConsumerGroupHeartbeatRequestTopicPartitions
from protocol_codecs.experimental import (
    CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS,
    ClientAssignorsHeartbeatRequest,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentRequestMember,
    ConsumerGroupInstallAssignmentRequestTopicPartition,
    ConsumerGroupPrepareAssignmentRequest,
    HeartbeatClientAssignor,
)
from protocol_codecs.message import Message
from protocol_codecs.uuids import Uuid

FOO, BAR = Uuid(b"f" * 16), Uuid(b"b" * 16)
REBALANCE_MS = 30_000
CONFIG = CoordinatorConfig(experimental_client_assignors=True, classic_initial_rebalance_delay_ms=0)


def assignor(name: str = "theirs", *, low: int = 0, high: int = 3, reason: int = 0, **others: Any):
    """A client-side assignor, as a heartbeat declares it."""
    fields = {"metadata_version": max(low, 0), "metadata_bytes": b"", **others}
    return HeartbeatClientAssignor(
        name=name, minimum_version=low, maximum_version=high, reason=reason, **fields
    )


class Group:
    """The coordinator of group ``g``; topic ``foo`` has two partitions, ``bar`` has one."""

    def __init__(
        self, config: CoordinatorConfig = CONFIG, log: MemoryLog | None = None, now: int = 1_000_000
    ):
        self.now = now
        self.log = log or MemoryLog(codec=CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS)
        image = MetadataImage([TopicImage(FOO, "foo", 2), TopicImage(BAR, "bar", 1)])
        self.coordinator = GroupCoordinator(config, uuids=SeededUuids(1), log=self.log, image=image)
        self.coordinator.load(self.now)
        self._requests = 0
        self.epochs: dict[str, int] = {}

    @property
    def group(self) -> Any:
        return self.coordinator.shard.groups["g"]

    @property
    def target(self) -> dict[str, dict[bytes, tuple[int, ...]]]:
        return {one: dict(part) for one, part in self.group.target_assignment.items() if part}

    def ask(self, request: Message, version: int = 1) -> Any:
        """The answer, at once."""
        self._requests += 1
        call = Call(self._requests, version, "client", "/host")
        replies = self.coordinator.handle(request, call, self.now)
        return next(reply.response for reply in replies if reply.request_id == self._requests)

    def wait(self, ms: int) -> None:
        self.now += ms
        self.coordinator.advance(self.now)

    def restarted(self) -> "Group":
        """A coordinator that has read the log."""
        again = Group(
            self.coordinator.shard.config,
            MemoryLog(self.log.batches, codec=CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS),
            self.now,
        )
        again.epochs = self.epochs
        return again

    def join(
        self, member_id: str, *assignors: HeartbeatClientAssignor, topics=("foo",), **fields: Any
    ) -> Any:
        """A member joins; without assignors it offers ``theirs``, and with ``server_assignor`` none."""
        if not assignors and "server_assignor" not in fields:
            assignors = (assignor(),)
        answer = self.ask(
            ClientAssignorsHeartbeatRequest(
                **{
                    "group_id": "g",
                    "member_id": member_id,
                    "rebalance_timeout_ms": REBALANCE_MS,
                    "subscribed_topic_names": topics,
                    "topic_partitions": (),
                    "client_assignors": assignors or None,
                    **fields,
                }
            )
        )
        self.epochs[member_id] = answer.member_epoch
        return answer

    def beat(
        self, member_id: str, *, owned: dict[bytes, tuple[int, ...]] | None = None, **fields: Any
    ) -> Any:
        """A heartbeat; ``owned`` are the partitions that the member reports."""
        partitions = None
        if owned is not None:
            partitions = tuple(
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in owned.items()
            )
        answer = self.ask(
            ClientAssignorsHeartbeatRequest(
                **{
                    "group_id": "g",
                    "member_id": member_id,
                    "member_epoch": self.epochs[member_id],
                    "topic_partitions": partitions,
                    **fields,
                }
            )
        )
        if not answer.error_code:
            self.epochs[member_id] = answer.member_epoch
        return answer

    def leave(self, member_id: str, epoch: int = -1, **fields: Any) -> Any:
        return self.ask(
            ClientAssignorsHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
        )

    def prepare(self, sender: str, **fields: Any) -> Any:
        return self.ask(
            ConsumerGroupPrepareAssignmentRequest(
                **{
                    "group_id": "g",
                    "member_id": sender,
                    "member_epoch": self.epochs.get(sender, 1),
                    **fields,
                }
            ),
            0,
        )

    def install(
        self,
        sender: str,
        epoch: int,
        parts: dict[str, dict[bytes, tuple[int, ...]]],
        *,
        version: int = 0,
        metadata: bytes = b"",
        **fields: Any,
    ) -> Any:
        """Install these partitions by member and topic, with the same metadata for all."""
        members = tuple(
            ConsumerGroupInstallAssignmentRequestMember(
                member_id=one,
                partitions=tuple(
                    ConsumerGroupInstallAssignmentRequestTopicPartition(topic_id=topic_id, partitions=numbers)
                    for topic_id, numbers in part.items()
                ),
                metadata_version=version,
                metadata_bytes=metadata,
            )
            for one, part in parts.items()
        )
        return self.ask(
            ConsumerGroupInstallAssignmentRequest(
                **{
                    "group_id": "g",
                    "member_id": sender,
                    "member_epoch": self.epochs.get(sender, 1),
                    "group_epoch": epoch,
                    "members": members,
                    **fields,
                }
            ),
            0,
        )
