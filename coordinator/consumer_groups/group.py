"""A consumer group: its members, its three epochs, and counts derived from them.

It changes only by replaying records (:mod:`coordinator.replay`); handlers read it and write records.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum

import msgspec

from coordinator import java_order
from coordinator.consumer_groups.member import ConsumerGroupMember, MemberState
from coordinator.errors import BrokenInvariant, RequestRefused
from coordinator.partitions import EpochedPartitions, Partitions
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.uuids import Uuid

CONSUMER_PROTOCOL_TYPE = "consumer"
_MINUS_INFINITY = -(1 << 63)
_ASSIGNOR_TABLE_SIZE = 4
"""The size of Kafka's table of assignors, of which it has two."""


class ConsumerGroupState(StrEnum):
    """The states of a consumer group, with the names that ConsumerGroupDescribe and ListGroups show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedRegex(msgspec.Struct, frozen=True):
    """The topics that matched a regular expression, with the metadata version and the time."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


class SubscriptionCount(msgspec.Struct, frozen=True):
    """How many members subscribe to a topic by its name, and how many of the group's expressions match it."""

    by_name: int = 0
    by_regex: int = 0


SubscriptionCounts = dict[str, SubscriptionCount]


class ConsumerGroup:
    """One consumer group. Both epochs start at 1, so that the first member with a subscription makes them 2."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        """When the target assignment was computed; 0 if that is not known."""
        self.members: dict[str, ConsumerGroupMember] = {}
        self.member_table_size = 0
        """The size of Kafka's table of members, which decides in which order it walks through them."""
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.target_assignment: dict[str, Partitions] = {}
        self.assigned_to: dict[Uuid, dict[int, str]] = {}
        """The target assignment the other way round: member ids by partition."""
        self.owners: dict[Uuid, dict[int, int]] = {}
        """The member epoch of every partition's owner."""
        self.subscribed_topics: SubscriptionCounts = {}
        self.subscribed_regexes: dict[str, int] = {}
        self.resolved_regexes: dict[str, ResolvedRegex] = {}
        self.is_homogeneous = True
        """Whether all members subscribe to the same topics. Kafka looks at it only when members change."""
        self.has_partition_metadata_record = False
        """Whether the log has a record of type 4, which Kafka 4.0 wrote and later versions delete."""
        self.metadata_refresh_deadline_ms = 0
        self.metadata_refresh_epoch = 0

    # Properties

    @property
    def state(self) -> ConsumerGroupState:
        """Return Empty, Assigning while the target lags the group epoch, Reconciling until all reach it, or Stable."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member subscribes to this topic."""
        return topic in self.subscribed_topics

    def member(self, member_id: str) -> ConsumerGroupMember:
        """Return the member. Raises RequestRefused with UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise RequestRefused(
                ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.group_id} has no member {member_id!r}"
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the member with this instance id, if there is one."""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def members_in_order(self) -> list[ConsumerGroupMember]:
        """Return the members in the order in which Kafka iterates over them."""
        return [
            self.members[member_id]
            for member_id in java_order.timeline_order(
                self.members, java_order.text_hash, self.member_table_size
            )
        ]

    def target_of(self, member: ConsumerGroupMember) -> Partitions:
        """Return the member's target assignment. A static member inherits that of its instance id."""
        if member.instance_id is None:
            return self.target_assignment.get(member.member_id, {})
        previous = self.static_members.get(member.instance_id)
        return {} if previous is None else self.target_assignment.get(previous, {})

    # Classic members

    @property
    def classic_members(self) -> int:
        """Return how many members speak the classic protocol."""
        return sum(member.uses_classic_protocol for member in self.members.values())

    def supports_protocols(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a classic member with these assignors may join: all classic members must offer one of them."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        if not self.members:
            return bool(names)
        offers = [
            {protocol.name for protocol in member.classic_protocols}
            for member in self.members.values()
            if member.uses_classic_protocol
        ]
        return any(all(name in offered for offered in offers) for name in names)

    def all_others_classic(self, excluded: Collection[ConsumerGroupMember]) -> bool:
        """Whether all members but these speak the classic protocol."""
        classic = self.classic_members - sum(member.uses_classic_protocol for member in excluded)
        return classic == len(self.members) - len(excluded)

    def waits_for_partitions(self, member: ConsumerGroupMember) -> bool:
        """Whether another member still has a partition of this member's target."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            number not in member.assigned.get(topic_id, {}) and number in self.owners.get(topic_id, {})
            for topic_id, numbers in self.target_assignment[member.member_id].items()
            for number in numbers
        )

    # Assignors

    def preferred_assignor(self, old: ConsumerGroupMember, new: ConsumerGroupMember) -> str | None:
        """Return the assignor with most votes after ``new`` replaced ``old``; None if there are no votes.

        A tie is won by the assignor that comes first in a copy of Kafka's table of votes, in which a new one takes the
        head of its slot.
        """
        counts = self._assignor_counts()
        capacity = java_order.map_copy_capacity(len(counts))
        _count(counts, old.server_assignor, -1)
        if new.server_assignor is not None and new.server_assignor not in counts:
            counts = {new.server_assignor: 1, **counts}
        else:
            _count(counts, new.server_assignor, +1)
        names = java_order.hash_order(counts, java_order.text_hash, capacity)
        return java_order.first_of_most((name, counts[name]) for name in names)

    def described_assignor(self) -> str | None:
        """Return the assignor that has most votes now."""
        return java_order.first_of_most(self._assignor_counts().items())

    def _assignor_counts(self) -> dict[str, int]:
        """Return the number of votes by assignor, in the order of Kafka's table."""
        counts: dict[str, int] = {}
        for member in self.members.values():
            _count(counts, member.server_assignor, +1)
        names = java_order.timeline_order(counts, java_order.text_hash, _ASSIGNOR_TABLE_SIZE)
        return {name: counts[name] for name in names}

    # Metadata refresh

    def metadata_expired(self, now_ms: int) -> bool:
        """Whether the subscribed topics have to be checked again."""
        return now_ms >= self.metadata_refresh_deadline_ms or self.group_epoch < self.metadata_refresh_epoch

    def request_metadata_refresh(self) -> None:
        """Make the next heartbeat check the subscribed topics again."""
        self.metadata_refresh_deadline_ms = self.metadata_refresh_epoch = 0

    # Regular expressions

    @property
    def last_regex_refresh_ms(self) -> int:
        """Return when the regular expressions were last resolved."""
        return next((r.timestamp_ms for r in self.resolved_regexes.values()), _MINUS_INFINITY)

    @property
    def last_regex_version(self) -> int:
        """Return the metadata version in which the regular expressions were last resolved."""
        return next((regex.version for regex in self.resolved_regexes.values()), 0)

    # Changes, by replay only

    def update_member(self, new: ConsumerGroupMember) -> None:
        """Add a member, or replace the one with its id."""
        self.member_table_size = java_order.timeline_capacity(self.member_table_size, len(self.members))
        old = self.members.get(new.member_id)
        self.members[new.member_id] = new
        self.subscribed_topics = counts_after(self.subscribed_topics, old, new)
        self._count_regexes(old, new)
        if old is not None:
            self._release(old.assigned, old.member_epoch)
            self._release(old.pending_revocation, old.member_epoch)
        self._occupy(new.assigned, new.member_epoch)
        self._occupy(new.pending_revocation, new.member_epoch)
        if old is not None and old.instance_id is not None:
            self.static_members.pop(old.instance_id, None)
        if new.instance_id is not None:
            self.static_members[new.instance_id] = new.member_id
        self._look_at_subscriptions()

    def remove_member(self, member_id: str) -> None:
        """Remove a member that owns no partitions any more."""
        old = self.members.pop(member_id)
        self.subscribed_topics = counts_after(self.subscribed_topics, old, None)
        self._count_regexes(old, None)
        self._release(old.assigned, old.member_epoch)
        self._release(old.pending_revocation, old.member_epoch)
        if old.instance_id is not None:
            self.static_members.pop(old.instance_id, None)
        self._look_at_subscriptions()

    def update_target(self, member_id: str, partitions: Partitions) -> None:
        """Set the member's target assignment."""
        old = self.target_assignment.get(member_id, {})
        for topic_id in dict.fromkeys((*old, *partitions)):
            assigned_to = self.assigned_to.setdefault(topic_id, {})
            before, after = frozenset(old.get(topic_id, ())), partitions.get(topic_id, ())
            for number in before.difference(after):
                if assigned_to.get(number) == member_id:  # else it was given to another member before
                    del assigned_to[number]
            for number in after:
                if number not in before:
                    assigned_to[number] = member_id
            if not assigned_to:
                del self.assigned_to[topic_id]
        self.target_assignment[member_id] = partitions

    def remove_target(self, member_id: str) -> None:
        """Remove the member's target assignment."""
        self.update_target(member_id, {})
        del self.target_assignment[member_id]

    def update_resolved_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        """Set the topics of a regular expression."""
        self.remove_resolved_regex(regex)
        self.resolved_regexes[regex] = resolved
        self.subscribed_topics = with_regex_topics(self.subscribed_topics, resolved.topics, +1)

    def remove_resolved_regex(self, regex: str) -> None:
        """Remove the topics of a regular expression."""
        old = self.resolved_regexes.pop(regex, None)
        if old is not None:
            self.subscribed_topics = with_regex_topics(self.subscribed_topics, old.topics, -1)

    def _count_regexes(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        _count(self.subscribed_regexes, old.regex if old else None, -1)
        _count(self.subscribed_regexes, new.regex if new else None, +1)

    def _look_at_subscriptions(self) -> None:
        self.is_homogeneous = are_homogeneous(
            self.subscribed_regexes, self.subscribed_topics, len(self.members)
        )

    def _release(self, partitions: EpochedPartitions, epoch: int) -> None:
        for topic_id, numbers in partitions.items():
            owners = self.owners.get(topic_id)
            if owners is None:
                continue
            for number in numbers:
                if owners.get(number) == epoch:  # else it belongs to another member already
                    del owners[number]
            if not owners:
                del self.owners[topic_id]

    def _occupy(self, partitions: EpochedPartitions, epoch: int) -> None:
        for topic_id, numbers in partitions.items():
            owners = self.owners.setdefault(topic_id, {})
            for number in numbers:
                if owners.get(number, _MINUS_INFINITY) >= epoch:
                    raise BrokenInvariant(
                        f"group {self.group_id}: partition {number} of topic {topic_id.hex()} is taken at epoch "
                        f"{epoch} while its owner is at epoch {owners[number]}"
                    )
                owners[number] = epoch


def counts_after(
    counts: SubscriptionCounts, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None
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


def _step(counts: SubscriptionCounts, topic: str, by_name: int, by_regex: int) -> None:
    count = counts.get(topic, SubscriptionCount())
    count = SubscriptionCount(count.by_name + by_name, count.by_regex + by_regex)
    if count.by_name > 0 or count.by_regex > 0:
        counts[topic] = count
    else:
        counts.pop(topic, None)


def _count(counts: dict[str, int], key: str | None, step: int) -> None:
    if key is None:
        return
    count = counts.get(key, 0) + step
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key, None)


def are_homogeneous(regexes: dict[str, int], topics: SubscriptionCounts, members: int) -> bool:
    """Whether all members subscribe to the same topics in the same way, as Kafka derives it from its counts."""
    if not regexes:
        return all(count.by_name == members for count in topics.values())
    return set(regexes.values()) == {members} and all(
        count.by_regex == 1 and count.by_name == 0 for count in topics.values()
    )
