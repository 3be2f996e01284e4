"""A member of a share group."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from protocol_codecs import all_messages as m
from tests.coordinator.script.backend import Partitions, error_name
from tests.coordinator.script.conversation import Conversation

INITIALIZATION_MS = 400
"""How long Kafka takes at most to have new partitions initialized after the answer; here it is at once."""


@dataclass
class ShareMember:
    """A member of a share group that remembers its epoch and what it was assigned."""

    script: Conversation
    name: str
    member_id: str
    topics: Sequence[str] = ("foo",)
    rack_id: str | None = None
    epoch: int = 0
    assigned: Partitions = field(default_factory=dict)

    def heartbeat(self, step: str, epoch: int, **fields: Any) -> Any:
        """Send a heartbeat with exactly these fields."""
        response = self.script.call(
            m.ShareGroupHeartbeatRequest(
                group_id=self.script.group_id, member_id=self.member_id, member_epoch=epoch, **fields
            ),
            client_id=self.name,
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
        """Join, or join again, and leave the group the time to have its partitions initialized."""
        answer = self.heartbeat("joins", 0, **self._full() | changes)
        self.script.pass_time(INITIALIZATION_MS)
        return answer

    def beat(self, **changes: Any) -> Any:
        """A plain heartbeat: nothing has changed."""
        return self.heartbeat("beats", self.epoch, **changes)

    def beat_late(self) -> Any:
        """A heartbeat that finds new partitions, and the time to have them initialized."""
        answer = self.beat()
        self.script.pass_time(INITIALIZATION_MS)
        return answer

    def full(self, epoch: int | None = None) -> Any:
        """Tell everything, as after an error."""
        return self.heartbeat("tells all", self.epoch if epoch is None else epoch, **self._full())

    def subscribe(self, *topics: str) -> Any:
        """Change the subscription, and leave the time to have new partitions initialized."""
        self.topics = topics
        answer = self.heartbeat("subscribes", self.epoch, subscribed_topic_names=self._names())
        self.script.pass_time(INITIALIZATION_MS)
        return answer

    def leave(self, epoch: int = -1) -> Any:
        return self.heartbeat("leaves", epoch)

    def _full(self) -> dict[str, Any]:
        return {"rack_id": self.rack_id, "subscribed_topic_names": self._names()}

    def _names(self) -> tuple[str, ...]:
        return tuple(self.script.full(topic) for topic in self.topics)
