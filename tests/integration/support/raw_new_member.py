"""A member of the new protocol made by hand, a heartbeat at a time: to ask a broker what it really does."""

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic

from support import raw
from support.broker import Kafka
from support.waiting import eventually

NONE = 0
LOADING = 14
STATIC_LEAVE = -2
LEAVE = -1


def topic_id(kafka: Kafka, topic: str) -> uuid.UUID:
    """The id that the topic has now."""
    request = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=None, name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    with raw.RawConnection(kafka.bootstrap.split(",", maxsplit=1)[0]) as connection:
        return connection.call(request).topics[0].topic_id


class RawNewMember:
    """One member of `group` that subscribes to `topic` and others. Nothing is sent but what a test says."""

    def __init__(
        self,
        kafka: Kafka,
        group: str,
        topic: str,
        *other_topics: str,
        instance_id: str | None = None,
        member_id: str | None = None,
    ) -> None:
        self._kafka = kafka
        self._connection = raw.to_coordinator(kafka.bootstrap, group)
        self._topics = {name: topic_id(kafka, name) for name in (topic, *other_topics)}
        self.topic = topic
        self.group = group
        self.instance_id = instance_id
        self.member_id = member_id or str(uuid.uuid4())
        self.epoch = 0
        self.owned: frozenset[int] = frozenset()
        """What the last assignment that came said, as numbers only."""
        self.shares: dict[str, frozenset[int]] = {}
        """The same by topic."""

    def beat(
        self, epoch: int | None = None, *, instance_id: bool = True, server_assignor: str | None = None
    ) -> Any:
        """A plain heartbeat: all else is null. Takes over epoch and assignment if it is answered without an error."""
        return self._send(epoch, instance_id=instance_id, server_assignor=server_assignor)

    def full(
        self,
        owned: Iterable[int] | Mapping[str, Iterable[int]] = (),
        *,
        epoch: int | None = None,
        rebalance_timeout_ms: int = 30_000,
        topics: tuple[str, ...] | None = None,
        server_assignor: str | None = None,
    ) -> Any:
        """A heartbeat with everything set.

        `owned` is what it says to hold, of its first topic or by topic; `topics` are others than its own.
        """
        return self._send(
            epoch,
            rebalance_timeout=dt.timedelta(milliseconds=rebalance_timeout_ms),
            subscribed_topic_names=tuple(self._topics) if topics is None else topics,
            topic_partitions=self._claims(owned if isinstance(owned, Mapping) else {self.topic: owned}),
            server_assignor=server_assignor,
        )

    def acknowledge(self) -> Any:
        """A heartbeat with what the last assignment said as its owned list, all else null."""
        return self._send(None, topic_partitions=self._claims(self.shares))

    def join(self, **options: int) -> Self:
        """Epoch 0; must succeed, once the coordinator has loaded."""
        answer = eventually(
            lambda: self.full(epoch=0, **options),
            lambda answer: answer.error_code != LOADING,
            what="the coordinator has loaded its groups",
        )
        assert answer.error_code == NONE, answer
        return self

    def until_owns(self, count: int) -> Self:
        """Heartbeat, acknowledging what is taken away, until the assignment has so many partitions."""

        def look() -> frozenset[int]:
            answer = self.full(self.owned)
            assert answer.error_code == NONE, answer
            return self.owned

        eventually(look, lambda owned: len(owned) == count, what=f"it is assigned {count} partitions")
        return self

    def until_asked_back(self) -> Any:
        """Plain heartbeats until the broker wants partitions back; the answer that says so."""
        before = self.owned

        def is_less(answer: Any) -> bool:
            return answer.assignment is not None and partitions_of(answer) < before

        return eventually(self.beat, is_less, what="partitions are asked back")

    def call(self, request: Any) -> Any:
        """Another request on its connection."""
        return self._connection.call(request)

    def _claims(self, owned: Mapping[str, Iterable[int]]) -> tuple[TopicPartitions, ...]:
        return tuple(
            TopicPartitions(topic_id=self._topics[topic], partitions=tuple(sorted(partitions)))
            for topic, partitions in owned.items()
            if partitions
        )

    def _send(self, epoch: int | None, *, instance_id: bool = True, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=self.instance_id if instance_id else None,
            **{"topic_partitions": None, **fields},
        )
        answer = self._connection.call(request)
        if answer.error_code == NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = partitions_of(answer)
                names = {number: name for name, number in self._topics.items()}
                self.shares = {
                    names[at.topic_id]: frozenset(at.partitions)
                    for at in answer.assignment.topic_partitions
                    if at.topic_id in names
                }
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()


def partitions_of(answer: Any) -> frozenset[int] | None:
    """The assignment in an answer; None if it carries none."""
    if answer.assignment is None:
        return None
    return frozenset(number for topic in answer.assignment.topic_partitions for number in topic.partitions)
