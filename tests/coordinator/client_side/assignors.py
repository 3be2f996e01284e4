"""What a member computes: right assignments, and wrong ones of every kind."""

import random
from collections.abc import Callable
from enum import StrEnum

from msgspec.structs import replace

from protocol_codecs.experimental import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentRequestMember,
    ConsumerGroupInstallAssignmentRequestTopicPartition,
    ConsumerGroupPrepareAssignmentResponse,
)

ASSIGNOR = "theirs"
VERSIONS = (0, 3)
"""The range of metadata versions that every member reads."""


class Kind(StrEnum):
    RIGHT = "right"
    SHUFFLED = "right, and everything moves"
    SLOW = "right, and slow"
    TWICE = "a partition twice"
    MISSING = "a partition to nobody"
    GONE = "to a member that is gone"
    DOUBLE = "a member twice"
    NO_SUCH_PARTITION = "a partition that is not there"
    NO_SUCH_TOPIC = "a topic that nobody subscribes to"
    NOT_SUBSCRIBED = "to a member that does not subscribe"
    VERSION = "metadata of a version that nobody reads"
    OLD = "what was computed for an older epoch"
    AHEAD = "for an epoch to come"
    UNPREPARED = "without asking"
    DIES = "dies in between"
    FAILED = "says that it failed"


WRONG = (
    Kind.TWICE,
    Kind.MISSING,
    Kind.GONE,
    Kind.DOUBLE,
    Kind.NO_SUCH_PARTITION,
    Kind.NO_SUCH_TOPIC,
    Kind.NOT_SUBSCRIBED,
    Kind.VERSION,
)

Parts = dict[str, set[tuple[bytes, int]]]


def balanced(group: ConsumerGroupPrepareAssignmentResponse, rng: random.Random, *, shuffle: bool) -> Parts:
    """Every partition to the least loaded subscriber; what members have stays there while that is balanced."""
    parts: Parts = {member.member_id: set() for member in group.members}
    order = list(group.members)
    if shuffle:
        rng.shuffle(order)
    for topic in group.topics:
        subscribers = [m for m in order if topic.topic_id in m.subscribed_topic_ids]
        most = -(-topic.num_partitions // len(subscribers))
        numbers = list(range(topic.num_partitions))
        kept: dict[str, int] = dict.fromkeys((m.member_id for m in subscribers), 0)
        for member in subscribers if not shuffle else ():
            for had in member.topic_partitions:
                for number in had.partitions if had.topic_id == topic.topic_id else ():
                    if number in numbers and kept[member.member_id] < most:
                        numbers.remove(number)
                        kept[member.member_id] += 1
                        parts[member.member_id].add((topic.topic_id, number))
        for number in numbers:
            taker = min(kept, key=lambda member_id: kept[member_id])
            kept[taker] += 1
            parts[taker].add((topic.topic_id, number))
    return parts


def install_request(
    group_id: str,
    member_id: str,
    member_epoch: int,
    group: ConsumerGroupPrepareAssignmentResponse,
    kind: Kind,
    rng: random.Random,
    gone: list[str],
) -> ConsumerGroupInstallAssignmentRequest:
    """The request that installs what an assignor of this kind makes of the group."""
    parts = balanced(group, rng, shuffle=kind is Kind.SHUFFLED)
    members = tuple(
        ConsumerGroupInstallAssignmentRequestMember(
            member_id=one,
            partitions=_topics(part),
            metadata_version=rng.randint(*VERSIONS),
            metadata_bytes=f"{group.group_epoch}/{one}/{rng.randrange(1000)}".encode(),
        )
        for one, part in parts.items()
        if part or rng.random() < 0.8
    )
    request = ConsumerGroupInstallAssignmentRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        group_epoch=group.group_epoch,
        members=members,
    )
    spoil = _SPOILS.get(kind)
    return request if spoil is None else spoil(request, group, rng, gone)


Spoil = Callable[
    [
        ConsumerGroupInstallAssignmentRequest,
        ConsumerGroupPrepareAssignmentResponse,
        random.Random,
        list[str],
    ],
    ConsumerGroupInstallAssignmentRequest,
]


def _topics(
    part: set[tuple[bytes, int]],
) -> tuple[ConsumerGroupInstallAssignmentRequestTopicPartition, ...]:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(part):
        by_topic.setdefault(topic_id, []).append(number)
    return tuple(
        ConsumerGroupInstallAssignmentRequestTopicPartition(topic_id=topic_id, partitions=tuple(numbers))
        for topic_id, numbers in by_topic.items()
    )


def _with(request, number, **changes):
    members = list(request.members)
    members[number] = replace(members[number], **changes)
    return replace(request, members=tuple(members))


def _owner(request, rng):
    """The place of a member that is assigned something, or None."""
    owners = [number for number, member in enumerate(request.members) if member.partitions]
    return rng.choice(owners) if owners else None


def _twice(request, group, rng, gone):
    owner = _owner(request, rng)
    if owner is None:
        return request
    topic = rng.choice(request.members[owner].partitions)
    other = rng.randrange(len(request.members))
    again = replace(topic, partitions=topic.partitions[:1])
    return _with(request, other, partitions=(*request.members[other].partitions, again))


def _missing(request, group, rng, gone):
    owner = _owner(request, rng)
    if owner is None:
        return request
    first, *others = request.members[owner].partitions
    return _with(request, owner, partitions=(replace(first, partitions=first.partitions[1:]), *others))


def _gone(request, group, rng, gone):
    told = {member.member_id for member in group.members}
    stranger = rng.choice([*(one for one in gone if one not in told), "nobody"])
    if not request.members:
        return request
    return _with(request, rng.randrange(len(request.members)), member_id=stranger)


def _double(request, group, rng, gone):
    if not request.members:
        return request
    again = replace(rng.choice(request.members), partitions=())
    return replace(request, members=(*request.members, again))


def _no_such_partition(request, group, rng, gone):
    owner = _owner(request, rng)
    if owner is None:
        return request
    first, *others = request.members[owner].partitions
    more = (*first.partitions, rng.choice([-1, 99]))
    return _with(request, owner, partitions=(replace(first, partitions=more), *others))


def _no_such_topic(request, group, rng, gone):
    if not request.members:
        return request
    number = rng.randrange(len(request.members))
    topic = ConsumerGroupInstallAssignmentRequestTopicPartition(topic_id=b"no such topic at", partitions=(0,))
    return _with(request, number, partitions=(*request.members[number].partitions, topic))


def _not_subscribed(request, group, rng, gone):
    """Gives one member's partitions to another that does not subscribe to their topic."""
    subscribed = {member.member_id: member.subscribed_topic_ids for member in group.members}
    for giver, member in enumerate(request.members):
        for topic in member.partitions:
            for taker, other in enumerate(request.members):
                if topic.topic_id not in subscribed[other.member_id]:
                    left = tuple(one for one in member.partitions if one is not topic)
                    moved = _with(request, giver, partitions=left)
                    return _with(moved, taker, partitions=(*other.partitions, topic))
    return request


def _version(request, group, rng, gone):
    if not request.members:
        return request
    number = rng.randrange(len(request.members))
    return _with(request, number, metadata_version=rng.choice([VERSIONS[0] - 1, VERSIONS[1] + 1, 70_000]))


def _ahead(request, group, rng, gone):
    return replace(request, group_epoch=request.group_epoch + 1)


def _failed(request, group, rng, gone):
    return replace(request, error=rng.randint(1, 3), members=())


_SPOILS: dict[Kind, Spoil] = {
    Kind.TWICE: _twice,
    Kind.MISSING: _missing,
    Kind.GONE: _gone,
    Kind.DOUBLE: _double,
    Kind.NO_SUCH_PARTITION: _no_such_partition,
    Kind.NO_SUCH_TOPIC: _no_such_topic,
    Kind.NOT_SUBSCRIBED: _not_subscribed,
    Kind.VERSION: _version,
    Kind.AHEAD: _ahead,
    Kind.FAILED: _failed,
}
