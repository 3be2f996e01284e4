"""Finds the partitions that a settled group leaves to nobody, in how the broker describes it.

A look says nothing (None) where a partition without an owner may be on its way to one, or where not everything is seen:
a rebalance is under way, a static member is away, a topic's size is not known, an assignor is not one of Kafka's own
and may leave partitions out on purpose. So "nothing is known" is never taken for "nobody has it".

``sizes`` has the numbers of partitions by topic: 0 of a topic that does not exist. A topic that the account can't see
is not in it.
"""

from collections.abc import Iterable, Mapping
from zlib import crc32

import msgspec

from protocol_codecs import MalformedMessage
from protocol_codecs.messages.consumer_group_describe import ConsumerGroupDescribeResponseDescribedGroup
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolTopicPartition,
    decode_assignment,
    decode_subscription,
)
from protocol_codecs.messages.describe_groups import DescribedGroup

TOPICS_LIMIT = 500
"""A group that subscribes to more topics is not looked at: each look would ask for the sizes of all of them."""

_STABLE = "Stable"
_CONSUMER = "consumer"
_CLASSIC_MEMBER = 0
_NEW_MEMBER = 1
_ASSIGNORS = frozenset({"uniform", "range"})
"""Those of Kafka: each assigns every partition of every topic that a member subscribes to."""

Sizes = Mapping[str, int]
TopicPartition = tuple[str, int]


class Look(msgspec.Struct, frozen=True):
    """What a description of a settled group says. ``mark`` is another one after each change of its assignments.

    ``has_classic`` says that a consumer group has members of the classic protocol. ``clients_may`` says that those of a
    classic group may be about to change it themselves: what nobody has are the last partitions of their topics, as if
    these had grown, or a cooperative member has partitions to give up, for which it has its poll interval.
    """

    mark: int
    unowned: frozenset[TopicPartition]
    has_classic: bool = False
    clients_may: bool = False


def topics_of(group: ConsumerGroupDescribeResponseDescribedGroup) -> frozenset[str]:
    """The topics that the members of a consumer group subscribe to by name, and those that they are assigned."""
    return frozenset(
        name
        for member in group.members
        for name in (
            *member.subscribed_topic_names,
            *(topic.topic_name for topic in member.target_assignment.topic_partitions),
        )
    )


def look_at_consumer_group(group: ConsumerGroupDescribeResponseDescribedGroup, sizes: Sizes) -> Look | None:
    """What nobody has of a consumer group that was described without an error; None if that can't be said."""
    if not _is_settled(group):
        return None
    assigned: dict[str, set[int]] = {name: set() for name in topics_of(group)}
    for member in group.members:
        for topic in member.target_assignment.topic_partitions:
            assigned[topic.topic_name].update(topic.partitions)
    return _look(
        group.group_epoch,
        assigned,
        sizes,
        has_classic=any(member.member_type == _CLASSIC_MEMBER for member in group.members),
    )


def _is_settled(group: ConsumerGroupDescribeResponseDescribedGroup) -> bool:
    return (
        group.group_state == _STABLE
        and group.assignment_epoch == group.group_epoch
        and group.assignor_name in _ASSIGNORS
        and all(
            member.member_epoch == group.group_epoch
            and member.member_type in (_CLASSIC_MEMBER, _NEW_MEMBER)
            and member.assignment == member.target_assignment
            for member in group.members
        )
    )


def topics_of_classic_group(group: DescribedGroup) -> frozenset[str]:
    """The topics that the members of a classic group subscribe to; none if a subscription is not readable."""
    try:
        return frozenset(
            name for member in group.members for name in decode_subscription(member.member_metadata)[1].topics
        )
    except MalformedMessage:
        return frozenset()


def look_at_classic_group(group: DescribedGroup, sizes: Sizes) -> Look | None:
    """The same of a classic group of consumers."""
    if group.group_state != _STABLE or group.protocol_type != _CONSUMER:
        return None
    assigned: dict[str, set[int]] = {name: set() for name in topics_of_classic_group(group)}
    gives_up, mark = False, 0
    try:
        for member in sorted(group.members, key=lambda one: one.member_id):
            claims = _named(decode_subscription(member.member_metadata)[1].owned_partitions)
            has = _named(decode_assignment(member.member_assignment)[1].assigned_partitions)
            gives_up |= not claims <= has
            for name, number in has:
                if name in assigned:
                    assigned[name].add(number)
            for data in (member.member_id.encode(), member.member_metadata, member.member_assignment):
                mark = crc32(data, mark)
    except MalformedMessage:
        return None
    return _look(mark, assigned, sizes, gives_up=gives_up) if assigned else None


def _named(topics: Iterable[ConsumerProtocolTopicPartition]) -> set[TopicPartition]:
    return {(topic.topic, number) for topic in topics for number in topic.partitions}


def _look(
    mark: int,
    assigned: Mapping[str, set[int]],
    sizes: Sizes,
    *,
    has_classic: bool = False,
    gives_up: bool = False,
) -> Look | None:
    if not assigned.keys() <= sizes.keys():
        return None
    if all(len(numbers) == sizes[name] for name, numbers in assigned.items()):
        return Look(mark, frozenset(), has_classic)  # the usual case, without sets of partitions
    missing = {name: set(range(sizes[name])) - numbers for name, numbers in assigned.items()}
    return Look(
        mark,
        frozenset((name, number) for name, numbers in missing.items() for number in numbers),
        has_classic,
        clients_may=gives_up
        or all(
            not numbers or min(numbers) > max(assigned[name], default=-1) for name, numbers in missing.items()
        ),
    )


def digest_of(unowned: Iterable[TopicPartition]) -> int:
    """A number for a set of partitions, the same in every process."""
    return crc32(repr(sorted(unowned)).encode())
