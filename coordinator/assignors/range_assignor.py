"""The range assignor: every subscriber of a topic gets one contiguous range of its partitions.

Members are sorted, static ones first by instance id, the others by member id; the ranges follow that order. With equal
subscriptions and equal partition counts, a member gets the same partition numbers of every topic. Members keep
partitions only as far as the order stays the same.
"""

from dataclasses import dataclass

from coordinator.assignors.spec import GroupAssignment, GroupSpec
from protocol_codecs.uuids import Uuid


@dataclass
class _Topic:
    """The next partition of one topic, and how many members get one more than the others."""

    partitions: int
    quota: int
    extra: int
    """How many more members get one partition above the quota."""
    next_partition: int = 0

    def take(self) -> tuple[int, ...]:
        size = self.quota
        if self.extra > 0:
            size += 1
            self.extra -= 1
        start = self.next_partition
        self.next_partition = min(start + size, self.partitions)
        return tuple(range(start, self.next_partition))


def assign_ranges(group: GroupSpec) -> GroupAssignment:
    """Assign every partition of every subscribed topic.

    Where all are said to subscribe to the same topics, those of the first member count for all, as in Kafka. It can be
    said wrongly: a newcomer without topics does not make Kafka count the subscriptions again.
    """
    member_ids = sorted(group.members, key=lambda member_id: _sort_key(group, member_id))
    topics_of = {
        member_id: group.members[member_ids[0] if group.is_homogeneous else member_id].topic_ids
        for member_id in member_ids
    }
    subscribers: dict[Uuid, int] = {}
    for member_id in member_ids:
        for topic_id in topics_of[member_id]:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    topics = {
        topic_id: _Topic(group.partition_counts[topic_id], *divmod(group.partition_counts[topic_id], count))
        for topic_id, count in subscribers.items()
    }
    assignment: GroupAssignment = {}
    for member_id in member_ids:
        ranges = {topic_id: topics[topic_id].take() for topic_id in topics_of[member_id]}
        assignment[member_id] = {topic_id: numbers for topic_id, numbers in ranges.items() if numbers}
    return assignment


def _sort_key(group: GroupSpec, member_id: str) -> tuple[bool, str]:
    instance_id = group.members[member_id].instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)
