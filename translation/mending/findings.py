"""Finds the partitions that a settled group leaves without an owner, in how the broker describes it.

There are no findings (None) where a partition without an owner may be on its way to one, or where not everything is
seen: a rebalance is under way, a static member is away, a topic's size is not known, an assignor is not one of Kafka's
own and may leave partitions out on purpose. So what is not known is never counted as a partition without an owner.

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
"""A group that subscribes to more topics is not checked: each time the sizes of all of them would be requested."""

PARTITIONS_LIMIT = 100_000
"""Nor is one whose topics have more partitions together: a check compares all of them."""

_STABLE = "Stable"
_CONSUMER = "consumer"
_CLASSIC_MEMBER = 0
_NEW_MEMBER = 1
_ASSIGNORS = frozenset({"uniform", "range"})
"""Those of Kafka: each assigns every partition of every topic that a member subscribes to."""

Sizes = Mapping[str, int]
TopicPartition = tuple[str, int]


class Findings(msgspec.Struct, frozen=True):
    """What a description of a settled group says. ``mark`` is another one after each change of its assignments.

    ``has_classic`` says that a consumer group has members of the classic protocol. ``clients_may`` says that those of a
    classic group may be about to change it themselves: what nobody has are the last partitions of their topics, as if
    these had grown, or a cooperative member has partitions to give up, for which it has its poll interval.

    ``lacking`` are members of a classic group that the broker has assigned more than they were told.
    """

    mark: int
    unowned: frozenset[TopicPartition]
    has_classic: bool = False
    clients_may: bool = False
    lacking: frozenset[str] = frozenset()


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


def findings_of_consumer_group(
    group: ConsumerGroupDescribeResponseDescribedGroup, sizes: Sizes
) -> Findings | None:
    """What nobody has of a consumer group that was described without an error; None if that can't be said."""
    if not _is_settled(group):
        return None
    assigned: dict[str, set[int]] = {name: set() for name in topics_of(group)}
    for member in group.members:
        for topic in member.target_assignment.topic_partitions:
            assigned[topic.topic_name].update(topic.partitions)
    return _findings(
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


def findings_of_classic_group(
    group: DescribedGroup, sizes: Sizes, told: Mapping[str, frozenset[TopicPartition]]
) -> Findings | None:
    """The same of a classic group of consumers. ``told`` is what members were told of their assignments, by member id.

    A broker that makes a consumer group a classic one may not have told each member what it is assigned by then.
    """
    if group.group_state != _STABLE or group.protocol_type != _CONSUMER:
        return None
    assigned: dict[str, set[int]] = {name: set() for name in topics_of_classic_group(group)}
    untold: dict[str, set[TopicPartition]] = {}
    gives_up, mark = False, 0
    try:
        for member in sorted(group.members, key=lambda one: one.member_id):
            claims = _named(decode_subscription(member.member_metadata)[1].owned_partitions)
            has = _named(decode_assignment(member.member_assignment)[1].assigned_partitions)
            gives_up |= not claims <= has
            if not has <= told.get(member.member_id, has):
                untold[member.member_id] = has - told[member.member_id]
            for name, number in has:
                if name in assigned:
                    assigned[name].add(number)
            for data in (member.member_id.encode(), member.member_metadata, member.member_assignment):
                mark = crc32(data, mark)
    except MalformedMessage:
        return None
    findings = _findings(mark, assigned, sizes, gives_up=gives_up) if assigned else None
    if findings is None or not untold:
        return findings
    return msgspec.structs.replace(
        findings,
        unowned=findings.unowned.union(*untold.values()),
        clients_may=False,
        lacking=frozenset(untold),
    )


def assigned_by(data: bytes) -> frozenset[TopicPartition] | None:
    """What the answer to a SyncGroup assigns; None if it is not readable."""
    try:
        return frozenset(_named(decode_assignment(data)[1].assigned_partitions))
    except MalformedMessage:
        return None


def _named(topics: Iterable[ConsumerProtocolTopicPartition]) -> set[TopicPartition]:
    return {(topic.topic, number) for topic in topics for number in topic.partitions}


def _findings(
    mark: int,
    assigned: Mapping[str, set[int]],
    sizes: Sizes,
    *,
    has_classic: bool = False,
    gives_up: bool = False,
) -> Findings | None:
    if not assigned.keys() <= sizes.keys() or sum(sizes[name] for name in assigned) > PARTITIONS_LIMIT:
        return None
    if all(len(numbers) == sizes[name] for name, numbers in assigned.items()):
        return Findings(mark, frozenset(), has_classic)  # the usual case, without sets of partitions
    missing = {name: set(range(sizes[name])) - numbers for name, numbers in assigned.items()}
    return Findings(
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
