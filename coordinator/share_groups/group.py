"""A share group: beside what all groups of the new protocols have, which partitions have state."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from coordinator import java_order
from coordinator.modern_group import ModernGroup, are_homogeneous, counts_after
from coordinator.partitions import Partitions
from coordinator.share_groups.member import ShareGroupMember
from protocol_codecs.uuids import Uuid

SHARE_PROTOCOL_TYPE = "share"


class ShareGroupState(StrEnum):
    """The states of a share group, with the names that ShareGroupDescribe and ListGroups show."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class TopicState(msgspec.Struct, frozen=True):
    """Partitions of one topic with state, or about to get it."""

    name: str
    partitions: frozenset[int]


TopicStates = Mapping[Uuid, TopicState]


class PartitionStates(msgspec.Struct, frozen=True):
    """The partitions of a group by what is known of their state (record type 15)."""

    initializing: TopicStates
    initialized: TopicStates
    deleting: frozenset[Uuid]
    recorded_ms: int
    """When this was recorded, or read from the log: an initialization that takes too long is tried again."""


class ShareGroup(ModernGroup[ShareGroupMember]):
    """One share group."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.partition_states: PartitionStates | None = None
        """None until the first initialization."""

    @property
    def state(self) -> ShareGroupState:
        """Return Empty or Stable."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def initialized(self) -> TopicStates:
        """Return the partitions that may be assigned."""
        return {} if self.partition_states is None else self.partition_states.initialized

    def has_unassigned_state(self) -> bool:
        """Whether partitions with initialized state are not all assigned, so that a new assignment is due."""
        assigned: dict[Uuid, set[int]] = {}
        for target in self.target_assignment.values():
            for topic_id, numbers in target.items():
                assigned.setdefault(topic_id, set()).update(numbers)
        return bool(self.members) and any(
            assigned.get(topic_id, set()) != set(topic.partitions)
            for topic_id, topic in self.initialized.items()
            if topic.name in self.subscribed_topics
        )

    def members_in_order_with(self, updated: ShareGroupMember) -> list[ShareGroupMember]:
        """Return the members with one updated, in Kafka's order: a new one is in its table before its records are."""
        members = {**self.members, updated.member_id: updated}
        capacity = self.member_table_size
        if updated.member_id not in self.members:
            capacity = java_order.timeline_capacity(capacity, len(self.members))
        order = java_order.timeline_order(members, java_order.text_hash, capacity)
        return [members[member_id] for member_id in order]

    # Changes, by replay only

    def update_member(self, new: ShareGroupMember) -> None:
        """Add a member, or replace the one with its id."""
        self.put_member(new)
        self._look_at_subscriptions()

    def remove_member(self, member_id: str) -> None:
        """Remove a member."""
        old = self.members.pop(member_id)
        self.subscribed_topics = counts_after(self.subscribed_topics, old, None)
        self._look_at_subscriptions()

    def update_target(self, member_id: str, partitions: Partitions) -> None:
        """Set the member's target assignment."""
        super().update_target(member_id, in_order(partitions))

    def _look_at_subscriptions(self) -> None:
        self.is_homogeneous = are_homogeneous({}, self.subscribed_topics, len(self.members))


def in_order(partitions: Partitions) -> Partitions:
    """Return the partitions with sorted numbers, so that equal ones compare equal."""
    return {topic_id: tuple(sorted(numbers)) for topic_id, numbers in partitions.items()}
