"""Uniform assignment when all members subscribe to the same topics.

Every member keeps its partitions up to its quota; the rest is given, in order, to members below their quotas.
"""

from coordinator import java_order
from coordinator.assignors.spec import AssignmentImpossible, GroupAssignment, GroupSpec
from coordinator.partitions import Partitions
from protocol_codecs.uuids import Uuid


def assign_homogeneous(group: GroupSpec) -> GroupAssignment:
    """Assign the partitions of the topics that all members subscribe to. Raises AssignmentImpossible."""
    first = next(iter(group.members.values()))
    topic_ids = java_order.hash_order(
        first.topic_ids, java_order.uuid_hash, java_order.copied_capacity(first.subscription_size)
    )
    if not topic_ids:
        return {}
    return _Assignment(group, topic_ids).build()


class _Assignment:
    def __init__(self, group: GroupSpec, topic_ids: list[Uuid]) -> None:
        self._group = group
        self._topic_ids = frozenset(topic_ids)
        self._unassigned = [
            (topic_id, number)
            for topic_id in topic_ids
            for number in range(group.partition_counts[topic_id])
            if number not in group.assigned_to.get(topic_id, {})
        ]
        total = sum(group.partition_counts[topic_id] for topic_id in topic_ids)
        self._quota, self._extra = divmod(total, len(group.members))
        self._unfilled: list[tuple[str, int]] = []
        self._result: GroupAssignment = {}

    def build(self) -> GroupAssignment:
        for index, member_id in enumerate(self._group.members):
            self._keep(member_id, members_left=len(self._group.members) - index)
        self._hand_out()
        return self._result

    def _keep(self, member_id: str, *, members_left: int) -> None:
        """Let the member keep what fits into its quota, and record how many more it can take."""
        has_extra = self._extra > 0
        room = self._quota + has_extra
        kept: dict[Uuid, tuple[int, ...]] = {}
        old = self._group.members[member_id].assigned
        for topic_id in java_order.hash_order(old, java_order.uuid_hash):
            if topic_id not in self._topic_ids:
                continue
            numbers = java_order.number_order(old[topic_id])
            stay, go = numbers[:room], numbers[room:]
            room -= len(stay)
            self._unassigned += [(topic_id, number) for number in go]
            if stay:
                kept[topic_id] = tuple(stay)
        if room > 0 and has_extra and members_left > self._extra:
            # Somebody else may take the extra partition, as long as enough members are left for all of them.
            room -= 1
            has_extra = False
        if room > 0:
            self._unfilled.append((member_id, room))
        if has_extra:
            self._extra -= 1
        self._result[member_id] = kept

    def _hand_out(self) -> None:
        """Give the unassigned partitions to the members below their quotas."""
        position = 0
        for member_id, room in self._unfilled:
            taken = self._unassigned[position : position + room]
            position += len(taken)
            self._result[member_id] = _with_added(self._result[member_id], taken)
        if position < len(self._unassigned):
            raise AssignmentImpossible(f"{len(self._unassigned) - position} partitions found no member")


def _with_added(partitions: Partitions, added: list[tuple[Uuid, int]]) -> Partitions:
    """Return the partitions with these added. As in Java's table, a new topic goes to the head of its slot."""
    kept = {topic_id: list(numbers) for topic_id, numbers in partitions.items()}
    fresh: dict[Uuid, list[int]] = {}
    for topic_id, number in added:
        (kept if topic_id in kept else fresh).setdefault(topic_id, []).append(number)
    in_order = {topic_id: fresh[topic_id] for topic_id in reversed(fresh)} | kept
    return {topic_id: tuple(numbers) for topic_id, numbers in in_order.items()}
