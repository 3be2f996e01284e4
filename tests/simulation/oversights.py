"""Partitions that Kafka itself leaves unassigned until their group changes again, with or without a proxy.

There are five cases; all were shown on a real Kafka (docs/evidence/facts.md):

- A topic grew, or a member left, after a classic group's last rebalance, and a static member is converted in its own
  place. The group epoch stays at the generation, so the classic group's assignment counts as computed for the current
  topics and members.
- A consumer group becomes a classic one, and the coordinator fails over before the rebalance that follows has ended.
  The log has a stable group, in which nobody has the partitions of the last members of the new protocol.
- A consumer group becomes a classic one because a static member's new process takes its place with the classic
  protocol. No rebalance follows, so a classic member that waits for a part of its target is never told.
- A static member of a classic group has given up partitions and starts again before it has joined without them. Its new
  process is answered without a rebalance, so nobody gets them.
- A topic grows while the leader of a classic group, a static member, is away. Its new process is answered without a
  rebalance, and starts from the topics as it finds them (KIP-814), so nobody notices that there are more.
"""

from collections.abc import Callable

from coordinator.classic_groups.group import ClassicGroup, ClassicGroupState
from coordinator.consumer_groups.group import ConsumerGroup
from tests.simulation.standing import Pid, flat

Group = ClassicGroup | ConsumerGroup | None


class Oversights:
    """The events of a history's only group that may leave partitions unassigned."""

    def __init__(self) -> None:
        self._generation = 0
        self._is_stable = False
        self._added: set[Pid] = set()
        """Partitions that are newer than this generation of the classic group."""
        self._assigned: frozenset[Pid] = frozenset()
        """The assignments of its members in it, including members that have left since."""
        self._withheld: frozenset[Pid] = frozenset()
        """Partitions that were assigned in the generation before it, and to nobody in it."""
        self._instances: dict[str, str] = {}
        """Its static members: instance and member ids."""
        self._converted_at = -1
        self._missed: frozenset[Pid] = frozenset()
        """Those of all these that nobody was assigned at the epoch of the conversion to a consumer group."""
        self._downgraded_at = -1
        """The generation at which it became a classic group."""
        self._cut_short_at = -1
        """The same, if a failover ended the rebalance that followed."""
        self._untold_at = -1
        """The same, if no rebalance followed."""
        self._untold: frozenset[Pid] = frozenset()
        """Partitions that its classic members had not been told of by then."""
        self._restarted_at = -1
        """The generation in which a static member started again."""
        self._led_anew_at = -1
        """The same, if it was the leader."""
        self._unnoticed: frozenset[Pid] = frozenset()
        """Partitions that had been added by then."""

    def added(self, partitions: set[Pid]) -> None:
        """Record that a topic was created, or grew."""
        self._added |= partitions

    def served(self, before: Group, after: Group, assigned: Callable[[], frozenset[Pid]]) -> frozenset[Pid]:
        """Record that the coordinator turned this group into that one; return what that left unassigned.

        ``assigned`` returns the members' current assignments, in a group of either type.
        """
        match before, after:
            case ClassicGroup(), ConsumerGroup():
                self._converted_at = after.group_epoch
                self._missed = frozenset(self._added | self._assigned) - assigned()
                return self._missed
            case ConsumerGroup(), ClassicGroup():
                self._downgraded_at = self._generation = after.generation
                self._assigned = assigned()
                self._added.clear()
                if _is_stable(after):
                    self._untold_at, self._untold = after.generation, _untold(before)
            case _, ClassicGroup() if after.generation != self._generation:
                self._generation = after.generation
                self._added.clear()
        was_stable, self._is_stable = self._is_stable, _is_stable(after)
        if self._is_stable and not was_stable:
            before_it, self._assigned = self._assigned, assigned()
            self._withheld = before_it - self._assigned
        if isinstance(after, ClassicGroup):
            self._look_for_restarts(after)
        return frozenset()

    def _look_for_restarts(self, group: ClassicGroup) -> None:
        known, self._instances = self._instances, dict(group.static_members)
        if self._is_stable and any(
            known.get(one, member) != member for one, member in self._instances.items()
        ):
            self._restarted_at = group.generation
            if group.leader_id not in known.values() and group.leader_id in self._instances.values():
                self._led_anew_at, self._unnoticed = group.generation, frozenset(self._added)

    def failed_over(self, group: Group) -> None:
        """Record a failover: the successor has only the log."""
        if isinstance(group, ClassicGroup) and not _is_stable(group):
            self._cut_short_at = self._downgraded_at

    def excuse(self, group: ClassicGroup | ConsumerGroup, pid: Pid) -> bool:
        """Whether one of the cases explains that the partition has no owner, and nothing has changed since."""
        if isinstance(group, ConsumerGroup):
            return group.group_epoch == self._converted_at and pid in self._missed
        if group.generation == self._untold_at and pid in self._untold:
            return True
        if group.generation == self._restarted_at and pid in self._withheld:
            return True
        if group.generation == self._led_anew_at and pid in self._unnoticed:
            return True
        return group.generation == self._cut_short_at


def _is_stable(group: Group) -> bool:
    return isinstance(group, ClassicGroup) and group.state is ClassicGroupState.STABLE


def _untold(group: ConsumerGroup) -> frozenset[Pid]:
    """Return the partitions of the members' targets that they do not own yet."""
    return frozenset[Pid]().union(
        *(
            flat(group.target_assignment.get(member_id, {})) - flat(member.assigned)
            for member_id, member in group.members.items()
        )
    )
