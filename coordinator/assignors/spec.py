"""Input and output of an assignor."""

from collections.abc import Callable, Collection, Mapping

import msgspec

from coordinator.errors import CoordinatorError
from coordinator.partitions import Partitions
from protocol_codecs.uuids import Uuid


class AssignmentImpossible(CoordinatorError):
    """The assignor's input contradicts itself."""


class MemberSpec(msgspec.Struct, frozen=True):
    """One member: its existing topics in Java's order, and its current target assignment."""

    instance_id: str | None
    topic_ids: tuple[Uuid, ...]
    subscription_size: int
    """How many topics it names, existing or not."""
    assigned: Partitions


class GroupSpec(msgspec.Struct, frozen=True):
    """A group to assign: its members in the order of Kafka's hash map, and the partitions of its topics."""

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool
    """Whether all members subscribe to the same topics."""
    partition_counts: Mapping[Uuid, int]
    assigned_to: Mapping[Uuid, Mapping[int, str]]
    """Until now, the other way round."""
    assignable: Mapping[Uuid, Collection[int]] | None = None
    """The partitions that may be assigned; None if all may. Share groups assign only those with initialized state."""

    def is_assignable(self, topic_id: Uuid, partition: int) -> bool:
        """Whether the partition may be assigned."""
        return self.assignable is None or partition in self.assignable.get(topic_id, ())


GroupAssignment = dict[str, Partitions]
"""The target assignment of each member. A missing member owns nothing."""

Assignor = Callable[[GroupSpec], GroupAssignment]
