"""What a server-side assignor is given: the members of a group with their topics and targets, in Kafka's order."""

from collections.abc import Callable

from coordinator import java_order
from coordinator.assignors import GroupSpec, MemberSpec
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.image import MetadataImage
from coordinator.partitions import Partitions


def group_spec(
    group: ConsumerGroup,
    image: MetadataImage,
    updated: ConsumerGroupMember,
    names_of: Callable[[ConsumerGroupMember], tuple[str, ...]],
    *,
    is_homogeneous: bool,
) -> GroupSpec:
    """Return the assignor's input, with one member updated, or replacing the one of its instance id.

    ``names_of`` gives the topics that a member subscribes to.
    """
    specs = {
        m.member_id: _member_spec(image, m, names_of(m), group.target_assignment.get(m.member_id, {}))
        for m in group.members_in_order()
    }
    previous = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
    if previous is not None and previous != updated.member_id:
        specs.pop(previous, None)
    before = target_before(group, updated)
    specs[updated.member_id] = _member_spec(image, updated, names_of(updated), before or {})
    topic_ids = {topic_id for spec in specs.values() for topic_id in spec.topic_ids}
    topics = [topic for topic_id in topic_ids if (topic := image.by_id(topic_id)) is not None]
    return GroupSpec(
        members={m: specs[m] for m in java_order.hash_order(specs, java_order.text_hash)},
        is_homogeneous=is_homogeneous,
        partition_counts={topic.topic_id: topic.partitions for topic in topics},
        assigned_to=group.assigned_to,
    )


def target_before(group: ConsumerGroup, updated: ConsumerGroupMember) -> Partitions | None:
    """Return the target of the updated member, or of the one that it replaces; None if neither has one."""
    previous = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
    return group.target_assignment.get(previous or "", group.target_assignment.get(updated.member_id))


def _member_spec(
    image: MetadataImage, member: ConsumerGroupMember, names: tuple[str, ...], assigned: Partitions
) -> MemberSpec:
    topics = (image.by_name(name) for name in java_order.text_order(names))
    return MemberSpec(
        member.instance_id,
        tuple(topic.topic_id for topic in topics if topic is not None),
        len(names),
        assigned,
    )
