"""Uniform assignment when members subscribe to different topics: hand out, then even out.

First every topic's free partitions go to its least loaded subscribers. Then partitions move, topic after topic, from
the most to the least loaded subscriber, until a whole round moves nothing or the limit of rounds is reached. Where
subscriptions overlap without being the same, the result may be off balance by more than one.
"""

from collections import OrderedDict

from coordinator import java_order
from coordinator.assignors.balancer import MemberBalancer
from coordinator.assignors.spec import GroupAssignment, GroupSpec
from protocol_codecs.uuids import Uuid

_MAX_ROUNDS = 16
_NOBODY = -1


def assign_heterogeneous(group: GroupSpec) -> GroupAssignment:
    """Assign the partitions of all subscribed topics, each among its own subscribers."""
    return _Assignment(group).build()


class _Assignment:
    """The assignment in progress. Members are numbers here: their indexes in the group's order."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._member_ids = list(group.members)
        self._subscribers: dict[Uuid, list[int]] = {}
        for index, member in enumerate(group.members.values()):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(index)
        self._sizes = [0] * len(self._member_ids)
        self._topics_of: list[OrderedDict[Uuid, int]] = [OrderedDict() for _ in self._member_ids]
        """Of each member, how many partitions it has of which topic, in the order of Java's table."""
        self._owners = {
            topic_id: [_NOBODY] * group.partition_counts[topic_id] for topic_id in self._subscribers
        }
        self._sorted_topics = sorted(self._subscribers, key=self._topic_sort_key)

    def build(self) -> GroupAssignment:
        if not self._subscribers:
            return {}
        self._keep()
        balancer = MemberBalancer(self._sizes)
        self._hand_out(balancer)
        self._even_out(balancer)
        return self._result()

    def _topic_sort_key(self, topic_id: Uuid) -> tuple[float, int, tuple[int, int]]:
        """Sort topics with most partitions per subscriber first; among equals those with fewer subscribers."""
        subscribers = len(self._subscribers[topic_id])
        density = self._group.partition_counts[topic_id] / subscribers
        return -density, subscribers, java_order.uuid_sort_key(topic_id)

    def _keep(self) -> None:
        """Let every member keep the partitions of topics that it still subscribes to."""
        for index, member in enumerate(self._group.members.values()):
            for topic_id, numbers in member.assigned.items():
                if topic_id in member.topic_ids:
                    self._sizes[index] += len(numbers)
                    self._topics_of[index][topic_id] = len(numbers)
                    for number in numbers:
                        self._owners[topic_id][number] = index

    def _hand_out(self, balancer: MemberBalancer) -> None:
        for topic_id in self._sorted_topics:
            free = [number for number, owner in enumerate(self._owners[topic_id]) if owner == _NOBODY]
            if free:
                balancer.start(self._subscribers[topic_id])
            for number in free:
                self._give(topic_id, number, balancer.next_least_loaded())

    def _even_out(self, balancer: MemberBalancer) -> None:
        topic_ids = [topic_id for topic_id in self._sorted_topics if len(self._subscribers[topic_id]) > 1]
        last_changed: Uuid | None = None
        for _ in range(_MAX_ROUNDS):
            for topic_id in topic_ids:
                if topic_id == last_changed:
                    return  # a whole round without change
                moved = self._balance(topic_id, balancer)
                if moved or last_changed is None:
                    last_changed = topic_id

    def _balance(self, topic_id: Uuid, balancer: MemberBalancer) -> int:
        """Move partitions of one topic from its most to its least loaded subscribers; return how many moved."""
        if balancer.start(self._subscribers[topic_id]) <= 1:
            return 0
        owned: dict[int, list[int]] = {}
        for number, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(number)
        moved = 0
        while True:
            giver = balancer.next_most_loaded()
            while giver is not None and not owned.get(giver):
                balancer.exclude_most_loaded()
                giver = balancer.next_most_loaded()
            if giver is None:
                return moved
            number = owned[giver].pop()
            taker = balancer.next_least_loaded()
            if balancer.is_balanced:
                return moved
            self._give(topic_id, number, taker)
            moved += 1

    def _give(self, topic_id: Uuid, number: int, member: int) -> None:
        owner = self._owners[topic_id][number]
        if owner != _NOBODY:
            self._sizes[owner] -= 1
            self._topics_of[owner][topic_id] -= 1
            if not self._topics_of[owner][topic_id]:
                del self._topics_of[owner][topic_id]
        self._owners[topic_id][number] = member
        self._sizes[member] += 1
        if topic_id not in self._topics_of[member]:  # it goes to the head of its slot
            self._topics_of[member][topic_id] = 0
            self._topics_of[member].move_to_end(topic_id, last=False)
        self._topics_of[member][topic_id] += 1

    def _result(self) -> GroupAssignment:
        numbers: list[dict[Uuid, list[int]]] = [{t: [] for t in topics} for topics in self._topics_of]
        for topic_id, owners in self._owners.items():
            for number, owner in enumerate(owners):
                if owner != _NOBODY:
                    numbers[owner][topic_id].append(number)
        return {
            member_id: {topic_id: tuple(listed) for topic_id, listed in numbers[index].items()}
            for index, member_id in enumerate(self._member_ids)
        }
