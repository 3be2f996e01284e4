"""The target assignments of a consumer group whose members come and go: the group's assigning alone.

No requests, epochs, timers or log: whoever asks says which heartbeats come, and at which of them the assignment
interval has passed. So it tells what a coordinator *would* assign, at a fraction of the cost. It does what
:mod:`coordinator.consumer_groups.heartbeat` does for targets, in the same order, because Kafka's assignors depend on
the order of its tables.
"""

from collections.abc import Mapping

from coordinator.assignors import ASSIGNORS
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.group_spec import group_spec
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.image import MetadataImage
from coordinator.modern_group import are_homogeneous, counts_after
from coordinator.partitions import Partitions, same_partitions


class Targets:
    """One group. ``assignor_moves_epoch`` is as in :class:`~coordinator.config.CoordinatorConfig`."""

    def __init__(self, image: MetadataImage, default_assignor: str, *, assignor_moves_epoch: bool) -> None:
        self._image = image
        self._default = default_assignor
        self._assignor_moves_epoch = assignor_moves_epoch
        self._group = ConsumerGroup("")
        self._is_due = False
        self._was_computed = False
        self._is_converting = False

    @property
    def assigned(self) -> Mapping[str, Partitions]:
        """The target assignment of each member."""
        return self._group.target_assignment

    @property
    def is_due(self) -> bool:
        """Whether members have changed since the targets were computed."""
        return self._is_due

    def take_over(self, member: ConsumerGroupMember, assigned: Partitions) -> None:
        """Add a member of the classic group that is to be converted, in the order of Kafka's table of its members.

        The next heartbeat converts it.
        """
        self._group.update_target(member.member_id, assigned)
        self._group.update_member(member)
        self._is_converting = True

    def heartbeat(self, member: ConsumerGroupMember, *, computes: bool) -> None:
        """A heartbeat of a member, new or known, with everything it declares.

        With another id and the instance id of a member it takes that one's place. The targets are computed if they are
        due and ``computes`` says that the assignment interval has passed, or were never computed. Raises
        AssignmentImpossible.
        """
        group = self._group
        replaced = group.static_member(member.instance_id)
        before = group.members.get(member.member_id) or ConsumerGroupMember(member_id=member.member_id)
        is_new = replaced is None and member.member_id not in group.members
        if replaced is not None and replaced.member_id != member.member_id:
            before = replaced.replace(member_id=member.member_id)
        else:
            replaced = None
        if member.subscribed_topic_names != before.subscribed_topic_names or self._votes_change(
            before, member
        ):
            self._is_due = True
        topics = counts_after(group.subscribed_topics, before, member)
        is_homogeneous = are_homogeneous({}, topics, len(group.members) + is_new)
        may_compute = computes or not self._was_computed
        new = self._computed(before, member, is_homogeneous=is_homogeneous) if may_compute else {}
        self._replay_conversion()
        group = self._group
        if replaced is not None:
            inherited = group.target_assignment.get(replaced.member_id, {})
            group.remove_target(replaced.member_id)
            group.remove_member(replaced.member_id)
            group.update_target(member.member_id, inherited)
        if member.member_id not in group.members:
            group.update_member(member)
        group.update_member(member)  # once more: Kafka's table may grow when a value is replaced, too
        for member_id, assigned in new.items():
            known = group.target_assignment.get(member_id)
            if known is None or not same_partitions(known, assigned):
                group.update_target(member_id, assigned)

    def leave(self, member_id: str) -> None:
        """A member leaves. The targets are due."""
        if member_id in self._group.target_assignment:
            self._group.remove_target(member_id)
        self._group.remove_member(member_id)
        self._is_due = True

    def compute(self) -> None:
        """Any member heartbeats, and has nothing to declare. Raises AssignmentImpossible."""
        if self._is_due:
            self.heartbeat(next(iter(self._group.members.values())), computes=True)

    def _replay_conversion(self) -> None:
        """Fill the tables anew from the records of the conversion, as a coordinator does after the first heartbeat."""
        if not self._is_converting:
            return
        self._is_converting = False
        converted, self._group = self._group, ConsumerGroup("")
        for member in converted.members_in_order():
            self._group.update_member(member)
        for member in converted.members_in_order():
            self._group.update_target(member.member_id, converted.target_assignment[member.member_id])
            self._group.update_member(member)

    def _computed(
        self, before: ConsumerGroupMember, member: ConsumerGroupMember, *, is_homogeneous: bool
    ) -> dict[str, Partitions]:
        if not self._is_due:
            return {}
        self._is_due, self._was_computed = False, True
        name = self._group.preferred_assignor(before, member) or self._default
        spec = group_spec(self._group, self._image, member, _names_of, is_homogeneous=is_homogeneous)
        assignment = ASSIGNORS[name](spec)
        return {member_id: assignment.get(member_id, {}) for member_id in spec.members}

    def _votes_change(self, before: ConsumerGroupMember, member: ConsumerGroupMember) -> bool:
        if not self._assignor_moves_epoch:
            return False
        now = self._group.described_assignor() or self._default
        return (self._group.preferred_assignor(before, member) or self._default) != now


def _names_of(member: ConsumerGroupMember) -> tuple[str, ...]:
    return member.subscribed_topic_names
