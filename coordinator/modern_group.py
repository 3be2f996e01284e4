"""What groups of the new protocols have in common: consumer groups (KIP-848) and share groups (KIP-932).

Members with subscriptions, a group epoch, and a target assignment with an epoch of its own; as Kafka's ``ModernGroup``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

import msgspec

from coordinator import java_order
from coordinator.errors import RequestRefused
from coordinator.partitions import Partitions
from protocol_codecs.bounds import MAX_INT
from protocol_codecs.error_code import ErrorCode


class ModernMember(Protocol):
    """A member that subscribes to topics by name."""

    @property
    def member_id(self) -> str: ...  # noqa: D102
    @property
    def subscribed_topic_names(self) -> tuple[str, ...]: ...  # noqa: D102


METADATA_REFRESH_INTERVAL_MS = MAX_INT
"""Kafka asks for a refresh when topics change; this is only the longest it would go without."""
M = TypeVar("M", bound=ModernMember)


class SubscriptionCount(msgspec.Struct, frozen=True):
    """How many members subscribe to a topic by its name, and how many of the group's expressions match it."""

    by_name: int = 0
    by_regex: int = 0


SubscriptionCounts = dict[str, SubscriptionCount]


class ModernGroup(ABC, Generic[M]):
    """One group. Both epochs start at 1, so that the first member with a subscription makes them 2.

    It changes only by replaying records (:mod:`coordinator.replay`); handlers read it and write records.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        """When the target assignment was computed; 0 if that is not known."""
        self.members: dict[str, M] = {}
        self.member_table_size = 0
        """The size of Kafka's table of members, which decides in which order it walks through them."""
        self.target_assignment: dict[str, Partitions] = {}
        self.subscribed_topics: SubscriptionCounts = {}
        self.is_homogeneous = True
        """Whether all members subscribe to the same topics. Kafka looks at it only when members change."""
        self.metadata_refresh_deadline_ms = 0
        self.metadata_refresh_epoch = 0

    # Properties

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member subscribes to this topic."""
        return topic in self.subscribed_topics

    def member(self, member_id: str) -> M:
        """Return the member. Raises RequestRefused with UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise RequestRefused(
                ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id} has no member {member_id!r}"
            )
        return member

    def members_in_order(self) -> list[M]:
        """Return the members in the order in which Kafka iterates over them."""
        return [
            self.members[member_id]
            for member_id in java_order.timeline_order(
                self.members, java_order.text_hash, self.member_table_size
            )
        ]

    # Metadata refresh

    def metadata_expired(self, now_ms: int) -> bool:
        """Whether the subscribed topics have to be checked again."""
        return now_ms >= self.metadata_refresh_deadline_ms or self.group_epoch < self.metadata_refresh_epoch

    def request_metadata_refresh(self) -> None:
        """Make the next heartbeat check the subscribed topics again."""
        self.metadata_refresh_deadline_ms = self.metadata_refresh_epoch = 0

    # Changes, by replay only

    def put_member(self, new: M) -> M | None:
        """Add a member, or replace the one with its id, which is returned."""
        self.member_table_size = java_order.timeline_capacity(self.member_table_size, len(self.members))
        old = self.members.get(new.member_id)
        self.members[new.member_id] = new
        self.subscribed_topics = counts_after(self.subscribed_topics, old, new)
        return old

    @abstractmethod
    def update_member(self, new: M) -> None:
        """Add a member, or replace the one with its id."""

    @abstractmethod
    def remove_member(self, member_id: str) -> None:
        """Remove a member."""

    def update_target(self, member_id: str, partitions: Partitions) -> None:
        """Set the member's target assignment."""
        self.target_assignment[member_id] = partitions

    def remove_target(self, member_id: str) -> None:
        """Remove the member's target assignment."""
        del self.target_assignment[member_id]


def counts_after(
    counts: SubscriptionCounts, old: ModernMember | None, new: ModernMember | None
) -> SubscriptionCounts:
    """Return the subscription counts after ``new`` replaced ``old``."""
    before = old.subscribed_topic_names if old else ()
    after = new.subscribed_topic_names if new else ()
    if before == after:
        return counts
    counts = dict(counts)
    for names, step in ((before, -1), (after, +1)):
        for name in names:
            _step(counts, name, step, 0)
    return counts


def with_regex_topics(counts: SubscriptionCounts, topics: Iterable[str], step: int) -> SubscriptionCounts:
    """Return the subscription counts after adding (+1) or removing (-1) an expression that matches these topics."""
    counts = dict(counts)
    for name in topics:
        _step(counts, name, 0, step)
    return counts


def are_homogeneous(regexes: dict[str, int], topics: SubscriptionCounts, members: int) -> bool:
    """Whether all members subscribe to the same topics in the same way, as Kafka derives it from its counts."""
    if not regexes:
        return all(count.by_name == members for count in topics.values())
    return set(regexes.values()) == {members} and all(
        count.by_regex == 1 and count.by_name == 0 for count in topics.values()
    )


def _step(counts: SubscriptionCounts, topic: str, by_name: int, by_regex: int) -> None:
    count = counts.get(topic, SubscriptionCount())
    count = SubscriptionCount(count.by_name + by_name, count.by_regex + by_regex)
    if count.by_name > 0 or count.by_regex > 0:
        counts[topic] = count
    else:
        counts.pop(topic, None)
