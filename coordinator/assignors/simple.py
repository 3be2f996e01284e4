"""The simple assignor of share groups (KIP-932), as it is since Kafka 4.2; several members may have one partition.

Where all members subscribe to the same topics, all their partitions are shared as one; otherwise each topic is shared
among its own subscribers. A topic that nobody subscribes to any more stays in the second case in the target of those
who had it, as in Kafka; their assignments leave it out.
"""

from coordinator import java_order
from coordinator.assignors.sharing import Sharing
from coordinator.assignors.spec import GroupAssignment, GroupSpec
from coordinator.partitions import Partitions
from protocol_codecs.uuids import Uuid

_Assigned = dict[Uuid, dict[int, None]]
"""The partitions of a member. As in Kafka, a topic whose last partition is taken stays, without partitions."""


def assign_shared(group: GroupSpec) -> GroupAssignment:
    """Share the assignable partitions of all subscribed topics. Raises AssignmentImpossible."""
    if not group.members:
        return {}
    return _homogeneous(group) if group.is_homogeneous else _heterogeneous(group)


def _homogeneous(group: GroupSpec) -> GroupAssignment:
    members = list(group.members.values())
    topic_ids = members[0].topic_ids
    if not topic_ids:
        return {}
    targets = [(topic_id, number) for topic_id in topic_ids for number in _assignable(group, topic_id)]
    sharing = Sharing(targets, range(len(members)), java_order.partition_hash)
    result = [_assigned(member.assigned) for member in members]
    for index, assigned in enumerate(result):
        for topic_id in java_order.hash_order(list(assigned), java_order.uuid_hash):
            if topic_id not in topic_ids:
                del assigned[topic_id]
                continue
            for number in java_order.number_order(list(assigned[topic_id])):
                sharing.keep(index, (topic_id, number))
    sharing.balance()
    for index, (topic_id, number) in sharing.removed:
        del result[index][topic_id][number]
    for index, (topic_id, number) in sharing.added:
        result[index].setdefault(topic_id, {})[number] = None
    return _by_member(group, result)


def _heterogeneous(group: GroupSpec) -> GroupAssignment:
    members = list(group.members.values())
    subscribers: dict[Uuid, list[int]] = {}
    for index, member in enumerate(members):
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(index)
    if not subscribers:
        return {}
    result = [_assigned(member.assigned) for member in members]
    for topic_id, subscribed in subscribers.items():
        sharing = Sharing(_assignable(group, topic_id), subscribed, java_order.number_hash)
        for index, assigned in enumerate(result):
            for number in java_order.number_order(list(assigned.get(topic_id, ()))):
                sharing.keep(index, number)
        sharing.balance()
        for index, number in sharing.removed:
            del result[index][topic_id][number]
        for index, number in sharing.added:
            result[index].setdefault(topic_id, {})[number] = None
    return _by_member(group, result)


def _assignable(group: GroupSpec, topic_id: Uuid) -> list[int]:
    return [n for n in range(group.partition_counts[topic_id]) if group.is_assignable(topic_id, n)]


def _assigned(partitions: Partitions) -> _Assigned:
    return {topic_id: dict.fromkeys(numbers) for topic_id, numbers in partitions.items()}


def _by_member(group: GroupSpec, result: list[_Assigned]) -> GroupAssignment:
    return {
        member_id: {topic_id: tuple(numbers) for topic_id, numbers in assigned.items()}
        for member_id, assigned in zip(group.members, result, strict=True)
    }
