"""Decides which assignor the members of a converted group vote for, so that the first vote moves no partition.

A client's ``range`` stands for the broker's, which gives the same partitions to the same members, if the client's is
Kafka's. Other libraries have a range of their own: of four partitions for three members sarama gives the middle one
two. There the vote would move partitions of a group that has just been converted without any. Such members vote for
``uniform``, which leaves a balanced assignment as it is.
"""

from collections.abc import Mapping

from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from translation.members.conversion import Conversion, is_helper
from translation.members.procedure import Procedure
from translation.policy.rule_cache import RuleCache
from translation.upstream.assignor_vote import NO_VOTE
from translation.upstream.metadata_lookup import lookup_sizes

_RANGE, _UNIFORM = "range", "uniform"


def choose_votes(
    rules: RuleCache, conversion: Conversion, described: ConsumerGroupDescribeResponseDescribedGroup
) -> Procedure[None]:
    """Have the converted members of a group vote for another assignor than ``range`` if that is not what they have.

    A policy that names an assignor is obeyed.
    """
    group = conversion.group
    if rules.rule_for(group.group_id).assignor is not None:
        return
    voters = [
        member
        for member in group.members.values()
        if member.broker.assignor == NO_VOTE and member.broker.effective_assignor == _RANGE
    ]
    if not voters:
        return
    members = [member for member in described.members if not is_helper(member.member_id)]
    topics = frozenset(topic for member in members for topic in member.subscribed_topic_names)
    sizes = yield from lookup_sizes(topics)
    if is_range(members, sizes):
        return
    for member in voters:
        member.client.mapped_assignor = member.broker.effective_assignor = _UNIFORM


def is_range(members: list[ConsumerGroupDescribeResponseMember], sizes: Mapping[str, int]) -> bool:
    """Whether the members have what the broker's ``range`` would assign; ``sizes`` are the topics' partition counts.

    Of each topic its subscribers get one contiguous range: static members first, by instance id, then the others by
    member id (Kafka's ``RangeAssignor``).
    """
    ordered = sorted(members, key=lambda one: (one.instance_id is None, one.instance_id or "", one.member_id))
    expected: dict[str, set[tuple[str, int]]] = {member.member_id: set() for member in members}
    for topic in {topic for member in members for topic in member.subscribed_topic_names}:
        subscribers = [member for member in ordered if topic in member.subscribed_topic_names]
        quota, extra = divmod(sizes.get(topic, 0), len(subscribers))
        start = 0
        for number, member in enumerate(subscribers):
            end = start + quota + (number < extra)
            expected[member.member_id] |= {(topic, index) for index in range(start, end)}
            start = end
    return all(
        expected[member.member_id]
        == {
            (topic.topic_name, index)
            for topic in member.assignment.topic_partitions
            for index in topic.partitions
        }
        for member in members
    )
