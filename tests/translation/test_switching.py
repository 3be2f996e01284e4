"""The policy changes while a group lives: its members are moved one after another."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolTopicPartition,
    encode_assignment,
)
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse
from translation.policy import Mode, Policy, Rule

from .bench import GROUP, NO_CONSUMER_GROUP, TOPIC, TRANSLATE_ALL, Bench, owned

A, B = "app-7b4e1f0c-0000-4000-8000-000000000001", "app-7b4e1f0c-0000-4000-8000-000000000002"
OBSERVE_ALL = Policy(default=Mode.OBSERVE)


def mixed_group(*classic: str) -> ConsumerGroupDescribeResponse:
    members = tuple(
        ConsumerGroupDescribeResponseMember(member_id=member_id, member_epoch=5, member_type=0)
        for member_id in classic
    )
    return ConsumerGroupDescribeResponse(
        groups=(ConsumerGroupDescribeResponseDescribedGroup(group_id=GROUP, members=members),)
    )


def classic_group(
    *, state: str = "Stable", protocol_type: str = "consumer", assignor: str = "range", user_data: bytes = b""
) -> DescribeGroupsResponse:
    topics = (ConsumerProtocolTopicPartition(topic=TOPIC, partitions=(0, 1)),)
    assignment = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data or None)
    member = DescribedGroupMember(member_id=A, member_assignment=encode_assignment(assignment, 0))
    group = DescribedGroup(
        group_id=GROUP,
        group_state=state,
        protocol_type=protocol_type,
        protocol_data=assignor,
        members=(member,),
    )
    return DescribeGroupsResponse(groups=(group,))


def test_to_translate_a_member_is_told_to_join_anew_and_leaves_its_classic_membership_when_it_does() -> None:
    bench = Bench()
    connection = bench.connect()
    told = bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.calls == []  # nothing is left while it may still hold partitions
    assert bench.error(bench.join(connection, "")) == ErrorCode.MEMBER_ID_REQUIRED
    join = bench.join(connection, "uuid-1")
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    assert [member.member_id for member in leave.message.members] == [A]
    bench.reply(LeaveGroupResponse())
    assert bench.heartbeat_call().message.member_epoch == 0
    bench.beat(5, orders=(0, 1))
    assert bench.answers[join].generation_id == 5


def test_the_others_are_relayed_until_it_is_their_turn() -> None:
    bench = Bench(policy=Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, switch_pause_ms=5000),)))
    first, second = bench.connect("10.0.0.1"), bench.connect("10.0.0.2")
    bench.heartbeat(first, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    waiting = bench.heartbeat(second, B, 4)
    bench.reply(NO_CONSUMER_GROUP)
    still = bench.heartbeat(second, B, 4)
    assert bench.forwarded == [waiting, still]
    bench.advance(5.1)
    told = bench.heartbeat(second, B, 4)
    bench.reply(mixed_group(B))
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (classic_group(protocol_type="connect"), "protocol type is 'connect', not 'consumer'"),
        (classic_group(assignor="stream"), "assignor 'stream' is unknown"),
    ],
)
def test_no_member_of_a_group_that_can_not_be_converted_is_disturbed(
    group: DescribeGroupsResponse, reason: str
) -> None:
    bench = Bench()
    connection = bench.connect()
    first = bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(group)
    second = bench.heartbeat(connection, A, 4)
    assert bench.forwarded == [first, second]
    assert bench.events[-1].reason == f"not converted: {reason}"


def test_a_group_whose_assignor_keeps_user_data_is_moved_all_at_once() -> None:
    """The broker does not convert such a group (sarama's and librdkafka's sticky), but takes it when it is empty."""
    bench = Bench()
    first, second = bench.connect("10.0.0.1"), bench.connect("10.0.0.2")
    told = bench.heartbeat(first, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(user_data=b"sticky"))
    told_too = bench.heartbeat(second, B, 4)
    bench.reply(NO_CONSUMER_GROUP)
    assert {bench.error(told), bench.error(told_too)} == {ErrorCode.UNKNOWN_MEMBER_ID}
    bench.join(first, "")
    join = bench.join(first, "uuid-1")
    bench.reply(LeaveGroupResponse())
    bench.beat(0, ErrorCode.GROUP_ID_NOT_FOUND)  # the other has not left yet
    assert bench.forwarded == []
    bench.advance(0.2)
    bench.beat(1, orders=(0, 1))
    assert bench.answers[join].generation_id == 1


def test_a_group_that_rebalances_is_converted_later() -> None:
    bench = Bench()
    connection = bench.connect()
    first = bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.forwarded == [first]
    bench.advance(1.2)
    told = bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_joins_with_partitions_in_hand_stays_classic_for_now() -> None:
    """The broker would free at once what an epoch 0 heartbeat does not name, which is everything."""
    bench = Bench(new_group=False)
    connection = bench.connect()
    join = bench.join(connection, A, claims=(0, 1), protocol="cooperative-sticky")
    bench.reply(mixed_group(A))
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP
    # In a group that is being converted the broker fails pending joins; old Java clients end on it.
    bench.reply(JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert join not in bench.answers
    bench.advance(0.2)
    bench.reply(JoinGroupResponse(generation_id=6, member_id=A))
    assert bench.answers[join].generation_id == 6


def test_a_new_member_waits_until_the_classic_group_has_finished_its_rebalance() -> None:
    """The conversion would fail the JoinGroups that wait there, which ends aiokafka's and old Java clients."""
    bench = Bench(new_group=False)
    connection = bench.connect()
    bench.join(connection, "")
    join = bench.join(connection, "uuid-1")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.calls == []
    bench.advance(0.25)
    bench.reply(classic_group())
    assert bench.heartbeat_call().message.member_epoch == 0
    bench.beat(5, orders=(0,))
    assert bench.error(join) == ErrorCode.NONE


def test_a_classic_member_that_rejoins_in_a_classic_group_stays_classic_for_now() -> None:
    bench = Bench(new_group=False)
    connection = bench.connect()
    bench.join(connection, A)
    bench.reply(NO_CONSUMER_GROUP)
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP


def test_back_to_observe_a_member_is_told_to_join_anew_and_leaves_the_new_protocol_when_it_does() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="member-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    told = bench.heartbeat(connection, "member-a", 1)
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.calls == []
    join = bench.join(connection, "")
    leave = bench.heartbeat_call().message
    assert (leave.member_id, leave.member_epoch) == ("member-a", -1)
    bench.beat(-1)
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP
    bench.reply(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=A))
    assert bench.answers[join].member_id == A
    # From here on it is the broker's.
    again = bench.join(connection, A)
    assert bench.forwarded == [again]


def test_back_to_observe_those_whose_turn_has_not_come_go_on_translated() -> None:
    policy = Policy(
        default=Mode.OBSERVE, rules=(Rule(group=GROUP, mode=Mode.OBSERVE, switch_pause_ms=60_000),)
    )
    bench = Bench()
    first, second = bench.connect("10.0.0.1"), bench.connect("10.0.0.2")
    bench.stable_member(first, (0,), member_id="member-a", protocol="cooperative-sticky")
    bench.stable_member(second, (1,), member_id="member-b", protocol="cooperative-sticky")
    bench.translator.set_policy(bench.now, policy)
    bench.heartbeat(first, "member-a", 1)
    heartbeat = bench.heartbeat(second, "member-b", 1)
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE
    bench.join(second, "member-b", claims=(1,), protocol="cooperative-sticky")
    assert owned(bench.heartbeat_call().message) == {TOPIC: (1,)}


def test_a_new_policy_that_changes_nothing_for_a_group_moves_nobody() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    heartbeat = bench.heartbeat(connection, "member-a", 1)
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE
