"""A consumer group: beside what all groups of the new protocols have, the owners of partitions, static members,
classic members, votes for assignors and regular expressions.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from coordinator import java_order
from coordinator.consumer_groups.client_side.declarations import NO_DETAILS, AssignmentDetails
from coordinator.consumer_groups.member import ConsumerGroupMember, MemberState
from coordinator.errors import BrokenInvariant
from coordinator.modern_group import ModernGroup, are_homogeneous, counts_after, with_regex_topics
from coordinator.partitions import EpochedPartitions, Partitions
from protocol_codecs.uuids import Uuid

if TYPE_CHECKING:
    from coordinator.consumer_groups.client_side.computation import Computation


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


class ConsumerGroup(ModernGroup[ConsumerGroupMember]):
    """One consumer group."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.assigned_to: dict[Uuid, dict[int, str]] = {}
        """The target assignment the other way round: member ids by partition."""
        self.owners: dict[Uuid, dict[int, int]] = {}
        """The member epoch of every partition's owner."""
        self.subscribed_regexes: dict[str, int] = {}
        self.resolved_regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata_record = False
        """Whether the log has a record of type 4, which Kafka 4.0 wrote and later versions delete."""
        self.target_details: dict[str, AssignmentDetails] = {}
        """What a client-side assignor said to members beside their partitions; none for members without."""
        self.computation: Computation | None = None
        """Which member computes the next target; not in the log (an experiment, as the next two are)."""
        self.last_computing_member: str | None = None
        self.expired_computing: list[str] = []
        """The members whose time to compute has passed since the last installed target, the latest one last."""

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

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the member with this instance id, if there is one."""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerGroupMember) -> Partitions:
        """Return the member's target assignment. A static member inherits that of its instance id."""
        if member.instance_id is None:
            return self.target_assignment.get(member.member_id, {})
        previous = self.static_members.get(member.instance_id)
        return {} if previous is None else self.target_assignment.get(previous, {})

    def details_of(self, member: ConsumerGroupMember) -> AssignmentDetails:
        """Return what the target says to the member beside its partitions. A static member inherits it, too."""
        member_id: str | None = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id)
        return NO_DETAILS if member_id is None else self.target_details.get(member_id, NO_DETAILS)

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
        old = self.put_member(new)
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
        if self.computation is not None and self.computation.member_id == member_id:
            self.computation = None  # if it comes back, it has forgotten what it was told
        if member_id in self.expired_computing:
            self.expired_computing.remove(member_id)
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
        super().update_target(member_id, partitions)

    def remove_target(self, member_id: str) -> None:
        """Remove the member's target assignment."""
        self.update_target(member_id, {})
        super().remove_target(member_id)
        self.target_details.pop(member_id, None)

    def update_target_details(self, member_id: str, details: AssignmentDetails) -> None:
        """Set what the target says to the member beside its partitions."""
        if details == NO_DETAILS:
            self.target_details.pop(member_id, None)
        else:
            self.target_details[member_id] = details

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


def _count(counts: dict[str, int], key: str | None, step: int) -> None:
    if key is None:
        return
    count = counts.get(key, 0) + step
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key, None)
