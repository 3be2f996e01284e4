"""Which assignor the converted members of a group vote for: none that moves a partition."""

from collections.abc import Mapping

import pytest

from protocol_codecs import Uuid
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from translation.conversion.votes import is_range

T, U = "orders", "refunds"
Owned = Mapping[str, tuple[int, ...]]


def member(
    member_id: str,
    owned: Owned,
    *,
    topics: tuple[str, ...] = (T,),
    instance_id: str | None = None,
) -> ConsumerGroupDescribeResponseMember:
    """A member with these partitions by topic."""
    return ConsumerGroupDescribeResponseMember(
        member_id=member_id,
        instance_id=instance_id,
        subscribed_topic_names=topics,
        assignment=ConsumerGroupDescribeResponseAssignment(
            topic_partitions=tuple(
                ConsumerGroupDescribeResponseTopicPartitions(
                    topic_id=Uuid(topic.encode().ljust(16, b".")), topic_name=topic, partitions=partitions
                )
                for topic, partitions in owned.items()
            )
        ),
    )


@pytest.mark.parametrize(
    ("owned", "size"),
    [
        (((0, 1), (2,), (3,)), 4),
        (((0, 1), (2, 3), (4,)), 5),
        (((0, 1), (2, 3), (4, 5)), 6),
        (((0,), (1,), ()), 2),
        (((), (), ()), 0),
    ],
)
def test_kafkas_range_gives_the_first_members_one_more(owned: tuple[tuple[int, ...], ...], size: int) -> None:
    members = [member(f"m{n}", {T: part} if part else {}) for n, part in enumerate(owned)]
    assert is_range(members, {T: size})
    assert is_range(members[::-1], {T: size})  # in whatever order they are described


@pytest.mark.parametrize(
    "owned",
    [((0,), (1, 2), (3,)), ((0,), (1,), (2, 3)), ((0, 2), (1,), (3,)), ((0, 1), (2,), ())],
    ids=["sarama's range", "the last has more", "not contiguous", "one without an owner"],
)
def test_another_assignment_of_four_partitions_is_not_kafkas_range(
    owned: tuple[tuple[int, ...], ...],
) -> None:
    members = [member(f"m{n}", {T: part}) for n, part in enumerate(owned)]
    assert not is_range(members, {T: 4})


def test_each_topic_is_divided_by_itself() -> None:
    """The first member has the odd partition of every topic."""
    both = (T, U)
    first, second = (
        member("a", {T: (0, 1), U: (0, 1)}, topics=both),
        member("b", {T: (2,), U: (2,)}, topics=both),
    )
    assert is_range([first, second], {T: 3, U: 3})
    balanced = [
        member("a", {T: (0, 1), U: (0,)}, topics=both),
        member("b", {T: (2,), U: (1, 2)}, topics=both),
    ]
    assert not is_range(balanced, {T: 3, U: 3})


def test_static_members_come_first_by_their_instance_ids() -> None:
    in_order = [
        member("z", {T: (0, 1)}, instance_id="one"),
        member("y", {T: (2,)}, instance_id="two"),
        member("a", {T: (3,)}),
    ]
    assert is_range(in_order, {T: 4})
    by_member_id = [
        member("z", {T: (3,)}, instance_id="one"),
        member("y", {T: (2,)}, instance_id="two"),
        member("a", {T: (0, 1)}),
    ]
    assert not is_range(by_member_id, {T: 4})


def test_a_topic_is_divided_among_its_subscribers_only() -> None:
    members = [
        member("a", {T: (0, 1)}, topics=(T,)),
        member("b", {T: (2,), U: (0, 1)}, topics=(T, U)),
        member("c", {U: (2, 3)}, topics=(U,)),
    ]
    assert is_range(members, {T: 3, U: 4})
    assert not is_range(members, {T: 3, U: 3})


def test_a_topic_that_the_broker_does_not_know_has_no_partitions() -> None:
    assert is_range([member("a", {})], {})
    assert not is_range([member("a", {T: (0,)})], {})
