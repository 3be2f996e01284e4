"""A member of the new protocol."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from protocol_codecs import all_messages as m
from tests.coordinator.script.backend import Partitions, error_name
from tests.coordinator.script.conversation import Conversation


@dataclass
class Member:
    """A member of the new protocol that remembers its epoch and what it was assigned."""

    script: Conversation
    name: str
    member_id: str
    topics: Sequence[str] | None = ("foo",)
    regex: str | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int = 30_000
    version: int = 1
    epoch: int = 0
    assigned: Partitions = field(default_factory=dict)

    def heartbeat(self, step: str, epoch: int, **fields: Any) -> Any:
        """Send a heartbeat with exactly these fields."""
        response = self.script.call(
            m.ConsumerGroupHeartbeatRequest(
                group_id=self.script.group_id,
                member_id=self.member_id,
                member_epoch=epoch,
                instance_id=self.instance_id,
                **fields,
            ),
            self.version,
            self.name,
        )
        assignment = response.assignment
        told = None if assignment is None else self.script.by_name(assignment.topic_partitions)
        answer = {
            "error": error_name(response.error_code),
            "epoch": response.member_epoch,
            "interval": response.heartbeat_interval_ms,
            "assignment": told,
        }
        self.script.note(f"{self.name} {step}", answer)
        if response.error_code == 0:
            self.epoch = response.member_epoch
            if told is not None:
                self.assigned = told
        return answer

    def join(self, **changes: Any) -> Any:
        """Join, or join again."""
        return self.heartbeat("joins", 0, **self._full(owned={}) | changes)

    def beat(self, **changes: Any) -> Any:
        """A plain heartbeat: nothing has changed."""
        return self.heartbeat("beats", self.epoch, **changes)

    def ack(self, owned: Partitions | None = None, **changes: Any) -> Any:
        """Say what is owned: by default all that was assigned, and no more."""
        owned = self.assigned if owned is None else owned
        return self.heartbeat("owns", self.epoch, topic_partitions=self._owned(owned), **changes)

    def full(self, owned: Partitions | None = None, epoch: int | None = None) -> Any:
        """Tell everything, as after an error."""
        owned = self.assigned if owned is None else owned
        return self.heartbeat("tells all", self.epoch if epoch is None else epoch, **self._full(owned))

    def subscribe(self, *topics: str) -> Any:
        """Change the subscription."""
        self.topics = topics
        return self.heartbeat("subscribes", self.epoch, subscribed_topic_names=self._names())

    def leave(self, epoch: int = -1) -> Any:
        return self.heartbeat("leaves", epoch)

    def commit(
        self, topics: dict[str, dict[int, int]], *, epoch: int | None = None, version: int = 9
    ) -> None:
        self.script.commit(
            self.name,
            topics,
            epoch=self.epoch if epoch is None else epoch,
            member_id=self.member_id,
            instance_id=self.instance_id,
            version=version,
        )

    def settle(self, rounds: int = 1) -> None:
        """Heartbeat and do what is asked, as a client would."""
        for _ in range(rounds):
            self.beat()
            self.ack()

    def _full(self, owned: Partitions) -> dict[str, Any]:
        return {
            "rack_id": self.rack_id,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": self._names(),
            "subscribed_topic_regex": self._regex(),
            "server_assignor": self.assignor,
            "topic_partitions": self._owned(owned),
        }

    def _names(self) -> tuple[str, ...] | None:
        return None if self.topics is None else tuple(self.script.full(topic) for topic in self.topics)

    def _regex(self) -> str | None:
        return None if self.regex is None else self.script.full(self.regex) if self.regex else ""

    def _owned(self, owned: Partitions) -> tuple[m.ConsumerGroupHeartbeatRequestTopicPartitions, ...]:
        return tuple(
            m.ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=self.script.backend.topic_id(self.script.full(name)), partitions=tuple(numbers)
            )
            for name, numbers in owned.items()
        )
