"""The policy changes while a group lives: its members are moved one after another."""

from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse
from translation.actions import RequestId
from translation.member import Move
from translation.policy import Mode, Policy, Rule
from translation.settings import TranslatorSettings

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


def loading() -> ConsumerGroupDescribeResponse:
    group = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )
    return ConsumerGroupDescribeResponse(groups=(group,))


def classic_group(
    *,
    state: str = "Stable",
    protocol_type: str = "consumer",
    assignor: str = "range",
    user_data: bytes = b"",
    claims: tuple[int, ...] = (),
) -> DescribeGroupsResponse:
    topics = (ConsumerProtocolTopicPartition(topic=TOPIC, partitions=(0, 1)),)
    assignment = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data or None)
    owned = (ConsumerProtocolTopicPartition(topic=TOPIC, partitions=claims),)
    subscription = ConsumerProtocolSubscription(topics=(TOPIC,), owned_partitions=owned)
    member = DescribedGroupMember(
        member_id=A,
        member_metadata=encode_subscription(subscription, 1),
        member_assignment=encode_assignment(assignment, 0),
    )
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
    bench.reply(HeartbeatResponse())
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.calls == []  # nothing is left while it may still hold partitions
    assert bench.error(bench.join(connection, "")) == ErrorCode.MEMBER_ID_REQUIRED
    join = bench.join(connection, "uuid-1")
    assert bench.heartbeat_call().message.member_epoch == 0  # leaving first would begin a rebalance
    bench.beat(5)
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    assert [member.member_id for member in leave.message.members] == [A]
    bench.reply(LeaveGroupResponse())
    bench.advance(0.25)
    bench.beat(6, orders=(0, 1))
    assert bench.answers[join].generation_id == 6


def test_to_translate_a_client_that_keeps_its_member_id_ends_its_classic_membership_first() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    bench._new_group = False
    bench.join(connection, A)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    bench.reply(LeaveGroupResponse())
    assert bench.heartbeat_call().message.member_epoch == 0


def test_to_translate_a_static_client_takes_the_place_of_its_classic_self() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.heartbeat(connection, A, 4, instance_id="instance")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    join = bench.join(connection, "", instance_id="instance")
    assert bench.heartbeat_call().message.instance_id == "instance"
    bench.beat(5, orders=(0, 1))
    assert bench.answers[join].generation_id == 5
    assert bench.calls == []
    bench.sync(connection, "uuid-1", 5)
    bench.heartbeat(connection, "uuid-1", 5, instance_id="instance")
    assert bench.heartbeat_call().message.member_epoch == 5


def test_back_to_observe_a_join_group_does_not_overtake_the_first_heartbeat_of_one_from_before() -> None:
    """That would release what the client is assigned as a classic member under the same id."""
    bench = Bench()
    older, newer = bench.connect(), bench.connect()
    bench.heartbeat(older, A, 4)
    bench.reply(mixed_group(A, B))
    bench.reply(HeartbeatResponse())
    bench._new_group = False
    bench.join(older, "")
    first = bench.join(older, "uuid-1")
    bench.reply(mixed_group(A, B))
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_ALL))
    second = bench.join(newer, "uuid-1")
    assert bench.calls == [leave]
    bench.reply(LeaveGroupResponse())
    bench.reply(mixed_group(B))
    bench.beat(6, orders=(0, 1))
    bench.beat(6, orders=(0, 1))
    assert bench.answers[first].generation_id == bench.answers[second].generation_id == 6
    assert bench.forwarded == []


@pytest.mark.parametrize("code", [ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.GROUP_ID_NOT_FOUND])
def test_to_translate_a_group_that_has_no_room_for_both_memberships_is_left_first(code: ErrorCode) -> None:
    bench = Bench()
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    bench.join(connection, "")
    join = bench.join(connection, "uuid-1")
    bench.beat(0, code)
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    bench.reply(LeaveGroupResponse())
    bench.beat(5, orders=(0, 1))
    assert bench.answers[join].generation_id == 5
    assert bench.calls == []


def test_to_translate_the_heartbeat_that_is_told_counts_as_life_at_the_broker() -> None:
    bench = Bench()
    heartbeat = bench.heartbeat(bench.connect(), A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    (call,) = bench.calls
    assert call.api_key == ApiKey.HEARTBEAT
    assert (call.message.member_id, call.message.generation_id) == (A, 4)
    assert heartbeat not in bench.answers


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID])
def test_to_translate_a_heartbeat_that_the_broker_refuses_is_the_brokers_to_answer(code: ErrorCode) -> None:
    bench = Bench()
    heartbeat = bench.heartbeat(bench.connect(), A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse(error_code=code))
    assert bench.forwarded == [heartbeat]


def test_to_translate_a_member_of_a_mixed_group_is_told_although_that_rebalances() -> None:
    """Each member that moves makes the others, which are still classic, rejoin; they need not do it twice."""
    bench = Bench()
    heartbeat = bench.heartbeat(bench.connect(), A, 4)
    bench.reply(mixed_group(A))
    bench.reply(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert bench.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID


def test_to_translate_a_classic_membership_that_could_not_be_ended_is_ended_at_the_next_try() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    bench.join(connection, "")
    join = bench.join(connection, "uuid-1")
    bench.beat(5, orders=(0, 1))
    bench.reply(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert bench.error(join) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    join = bench.join(connection, "uuid-1")
    bench.beat(5, orders=(0, 1))
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    assert [member.member_id for member in leave.message.members] == [A]
    bench.reply(LeaveGroupResponse())
    bench.reply_names()
    assert bench.answers[join].generation_id == 5


def test_to_translate_what_a_client_leaves_behind_ends_when_its_second_try_finds_the_group_converted() -> (
    None
):
    """Its first heartbeat was not answered in time, and the group has become a consumer group since."""
    bench = Bench()
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    bench.join(connection, "")
    join = bench.join(connection, "uuid-1")
    bench.beat(0, ErrorCode.NOT_COORDINATOR)
    assert bench.error(join) == ErrorCode.NOT_COORDINATOR
    bench._new_group = False
    bench.join(connection, "uuid-1")
    bench.reply(mixed_group(A, B))
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    assert [member.member_id for member in leave.message.members] == [A]


def test_back_to_observe_a_client_whose_classic_membership_could_not_be_ended_leaves_both() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    bench.join(connection, "")
    bench.join(connection, "uuid-1")
    bench.beat(5, orders=(0, 1))
    bench.reply(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_ALL))
    bench.settle(5)
    told = bench.heartbeat(connection, "uuid-1", 5)
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    bench.join(connection, "")
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    assert [member.member_id for member in leave.message.members] == [A]
    bench.reply(LeaveGroupResponse())
    assert bench.heartbeat_call().message.member_epoch == -1


def test_to_translate_a_client_that_is_called_back_leaves_no_classic_membership_behind() -> None:
    """A rebalance would wait for it until its timeout."""
    bench = Bench()
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    join = bench.join(connection, "")
    (leave,) = bench.calls
    assert [member.member_id for member in leave.message.members] == [A]
    bench.reply(LeaveGroupResponse())
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP
    bench.reply(JoinGroupResponse(generation_id=6, member_id=B))
    assert bench.answers[join].member_id == B


def test_the_end_of_a_membership_that_was_left_behind_twice_does_not_forget_who_has_joined_since() -> None:
    """It lost patience and joined again, so that two calls end the same membership; the group is empty in between."""
    bench = Bench()
    first, second, another = bench.connect(), bench.connect(), bench.connect("/10.0.0.2")
    bench.heartbeat(first, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.join(first, "")
    bench.join(second, "")
    leave, again = bench.calls
    assert (leave.api_key, again.api_key) == (ApiKey.LEAVE_GROUP, ApiKey.LEAVE_GROUP)
    bench.reply(LeaveGroupResponse(), leave)
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    bench.join(another, B)
    bench.reply(LeaveGroupResponse(), again)
    bench.beat(5, orders=(0, 1))
    sync = bench.sync(another, B, 5)
    assert bench.error(sync) == ErrorCode.NONE


@pytest.mark.parametrize("goes_on", [{"member_id": A}, {"member_id": "", "claims": (0,)}])
def test_to_translate_a_client_that_is_called_back_before_it_has_given_up_anything_goes_on(
    goes_on: dict[str, Any],
) -> None:
    bench = Bench()
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.join(connection, **goes_on)
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP


def test_the_others_are_relayed_until_it_is_their_turn() -> None:
    bench = Bench(policy=Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, switch_pause_ms=5000),)))
    first, second = bench.connect("10.0.0.1"), bench.connect("10.0.0.2")
    bench.heartbeat(first, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    waiting = bench.heartbeat(second, B, 4)
    bench.reply(NO_CONSUMER_GROUP)
    still = bench.heartbeat(second, B, 4)
    assert bench.forwarded == [waiting, still]
    bench.advance(5.1)
    told = bench.heartbeat(second, B, 4)
    bench.reply(mixed_group(B))
    bench.reply(HeartbeatResponse())
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID


def test_of_members_whose_heartbeats_come_together_one_is_told() -> None:
    """Members that joined at one rebalance beat at the same moments."""
    bench = Bench(policy=Policy(rules=(Rule(group=GROUP, mode=Mode.TRANSLATE, switch_pause_ms=5000),)))
    first, second = bench.connect("10.0.0.1"), bench.connect("10.0.0.2")
    told, waiting = bench.heartbeat(first, A, 4), bench.heartbeat(second, B, 4)
    for answer in (NO_CONSUMER_GROUP, classic_group(), HeartbeatResponse()):
        for call in list(bench.calls):
            bench.reply(answer, call)
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.forwarded == [waiting]
    bench.advance(5.1)
    told_next = bench.heartbeat(second, B, 4)
    bench.reply(mixed_group(B))
    bench.reply(HeartbeatResponse())
    assert bench.error(told_next) == ErrorCode.UNKNOWN_MEMBER_ID


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
    bench.reply(HeartbeatResponse())
    told_too = bench.heartbeat(second, B, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(HeartbeatResponse())
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
    bench.reply(HeartbeatResponse())
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_in_the_middle_of_a_cooperative_rebalance_is_converted_when_all_have_given_up_or_had_time_to() -> (
    None
):
    """The broker would take what the leader assigned for what the members hold."""
    bench = Bench()
    connection = bench.connect()

    def tell(claims: tuple[int, ...]) -> RequestId:
        heartbeat = bench.heartbeat(connection, A, 4)
        bench.reply(NO_CONSUMER_GROUP)
        bench.reply(classic_group(claims=claims))
        return heartbeat

    assert bench.forwarded == [tell((1, 2))]
    bench.advance(299.0)
    assert tell((1, 2)) in bench.forwarded
    bench.advance(2.0)
    told = tell((1, 2))
    bench.reply(HeartbeatResponse())
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_time_to_give_up_partitions_runs_on_when_the_members_ids_are_forgotten_meanwhile() -> None:
    bench = Bench()
    connection = bench.connect()
    for wait in (0.0, 299.0, 2.0):
        bench.advance(wait)
        bench.commit(connection, A, 4)  # looked up, relayed, and not remembered
        bench.reply(NO_CONSUMER_GROUP)
        heartbeat = bench.heartbeat(connection, A, 4)
        bench.reply(NO_CONSUMER_GROUP)
        bench.reply(classic_group(claims=(1, 2)))
    bench.reply(HeartbeatResponse())
    assert bench.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID


def test_another_policy_gives_members_time_anew_to_give_up_partitions() -> None:
    bench = Bench()
    connection = bench.connect()
    for _ in range(2):
        heartbeat = bench.heartbeat(connection, A, 4)
        bench.reply(NO_CONSUMER_GROUP)
        bench.reply(classic_group(claims=(1, 2)))
        assert heartbeat in bench.forwarded
        bench.advance(400.0)
        bench.translator.set_policy(bench.now, TRANSLATE_ALL)


def test_a_classic_member_that_joins_before_it_hears_that_it_is_to_move_stays_classic_with_its_partitions() -> (
    None
):
    bench = Bench(new_group=False)
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    bench.join(connection, A, claims=(0, 1), protocol="cooperative-sticky")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP


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


def test_to_translate_a_rebalance_does_not_wait_for_a_client_that_waits_for_the_rebalance() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.heartbeat(connection, A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    bench.reply(HeartbeatResponse())
    bench._new_group = False
    bench.join(connection, "")
    bench.join(connection, "uuid-1")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    assert [member.member_id for member in leave.message.members] == [A]
    bench.reply(LeaveGroupResponse())
    bench.advance(0.25)
    bench.reply(classic_group())
    assert bench.heartbeat_call().message.member_epoch == 0


def test_a_classic_member_with_partitions_stays_classic_whatever_its_client_left_behind_before() -> None:
    """It was told to move once, joined the classic group anew instead, and works on what it was assigned there."""
    bench = Bench(new_group=False)
    connection = bench.connect()
    left_behind = Move(B, None, connection.id, "app", "/10.0.0.1", bench.now)
    bench.translator._context.group(GROUP).moves[B] = left_behind
    bench.join(connection, A, claims=(0,), protocol="cooperative-sticky")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP


def test_a_classic_member_with_partitions_stays_classic_when_its_group_is_converted_while_the_broker_is_asked() -> (
    None
):
    """The broker has the group as no consumer group at first, and a moment later as no classic one."""
    bench = Bench(new_group=False)
    connection = bench.connect()
    bench.join(connection, A, claims=(0,), protocol="cooperative-sticky")
    bench.reply(NO_CONSUMER_GROUP)
    converted = DescribedGroup(group_id=GROUP, group_state="Dead")
    bench.reply(DescribeGroupsResponse(groups=(converted,)))
    bench.reply(mixed_group(A))
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP


def test_a_consumer_group_that_becomes_a_classic_one_when_its_first_mover_leaves_is_asked_for_again() -> None:
    """All its members were classic. The broker takes their targets for what they hold until they have joined again."""
    bench = Bench()
    connection = bench.connect()
    told = bench.heartbeat(connection, A, 4)
    bench.reply(mixed_group(A, B))
    bench.reply(HeartbeatResponse())
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    bench._new_group = False
    bench.join(connection, "")
    bench.join(connection, "uuid-1")
    bench.reply(mixed_group(A, B))
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    bench.reply(LeaveGroupResponse())
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.calls == []
    bench.advance(0.25)
    bench.reply(classic_group())
    assert bench.heartbeat_call().message.member_epoch == 0


def test_a_consumer_group_that_becomes_a_classic_one_when_a_member_joins_anew_by_itself_is_asked_for_again() -> (
    None
):
    """The same as above, of a client that was not told: it is eager, and comes with nothing in hand."""
    bench = Bench(new_group=False)
    bench.join(bench.connect(), A)
    bench.reply(mixed_group(A, B))
    (leave,) = bench.calls
    assert leave.api_key == ApiKey.LEAVE_GROUP
    assert [member.member_id for member in leave.message.members] == [A]
    bench.reply(LeaveGroupResponse())
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.calls == []
    bench.advance(0.25)
    bench.reply(classic_group())
    assert bench.heartbeat_call().message.member_epoch == 0


def test_a_join_group_that_was_overtaken_by_one_that_stays_classic_is_answered_too() -> None:
    bench = Bench(new_group=False)
    older, newer = bench.connect(), bench.connect()
    first = bench.join(older, A, claims=(0,), protocol="cooperative-sticky")
    bench.reply(loading())
    second = bench.join(newer, A, claims=(0,), protocol="cooperative-sticky")
    bench.reply(mixed_group(A))
    assert bench.error(first) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.reply(JoinGroupResponse(generation_id=6, member_id=A))
    assert bench.answers[second].generation_id == 6


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
    bench.reply(classic_group())
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


@pytest.mark.parametrize("as_read", [True, False])
def test_back_to_observe_a_client_that_has_hung_up_while_its_membership_ends_is_not_joined_any_more(
    *, as_read: bool
) -> None:
    """It has joined anew on another connection; a static one would be put out of the group by its own late call."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="member-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.heartbeat(connection, "member-a", 1)
    bench.join(connection, "")
    if as_read:
        bench.client_gone(connection)
    else:
        bench.hung_up.add(connection.id)
    bench.beat(-1)
    assert bench.calls == []


def test_back_to_observe_a_member_that_joins_before_it_hears_of_it_keeps_its_partitions() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="member-a", protocol="cooperative-sticky")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.heartbeat(connection, "member-a", 1)
    bench.join(connection, "member-a", claims=(0, 1), protocol="cooperative-sticky")
    upstream = bench.heartbeat_call().message
    assert (upstream.member_epoch, owned(upstream)) == (1, {TOPIC: (0, 1)})
    bench.beat(1, orders=(0, 1))
    assert bench.error(bench.heartbeat(connection, "member-a", 1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_back_to_observe_a_member_that_has_not_been_told_stays_whatever_its_client_left_behind_before() -> (
    None
):
    """The broker would convert it in place, and the client would be answered by both sides."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), epoch=2)
    bench.translator._context.group(GROUP).moves["older"] = Move(
        "older", None, connection.id, "app", "", bench.now
    )
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.join(connection, "member-a")
    assert bench.heartbeat_call().message.member_epoch == 2


def test_back_to_observe_the_heartbeat_that_is_told_counts_as_life() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="member-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    session_ends = bench.translator._context.member(GROUP, "member-a").session_deadline
    bench.advance(session_ends - bench.now - 0.5)
    bench.heartbeat(connection, "member-a", 1)
    while any(call.message.member_epoch == 1 for call in bench.calls):
        bench.beat(1)
    bench.advance(1.0)
    assert all(call.message.member_epoch == 1 for call in bench.calls)  # no -1 while it may hold something


def test_back_to_observe_a_membership_that_could_not_be_ended_is_ended_at_the_next_try() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="member-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.heartbeat(connection, "member-a", 1)
    join = bench.join(connection, "")
    bench.beat(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert bench.error(join) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.join(connection, "")
    assert bench.heartbeat_call().message.member_epoch == -1


def test_a_member_that_is_to_go_back_and_then_not_is_left_alone() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="member-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    assert bench.error(bench.heartbeat(connection, "member-a", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    heartbeat = bench.heartbeat(connection, "member-a", 1)
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE


def test_a_client_that_was_to_go_back_and_then_not_joins_when_the_group_that_it_left_is_stable() -> None:
    """It was the last of the new protocol, so the broker makes the group a classic one again, with the members' targets
    for what they hold. That is mended when they have joined again, and not before."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="member-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    assert bench.error(bench.heartbeat(connection, "member-a", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    bench._new_group = False
    bench.join(connection, "")
    join = bench.join(connection, "uuid-1")
    leave = bench.heartbeat_call().message
    assert (leave.member_id, leave.member_epoch) == ("member-a", -1)
    bench.beat(-1)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.calls == []
    bench.advance(0.25)
    bench.reply(classic_group())
    joined = bench.heartbeat_call().message
    assert (joined.member_id, joined.member_epoch) == ("uuid-1", 0)
    bench.beat(5, orders=(0,))
    assert bench.error(join) == ErrorCode.NONE


def test_that_the_group_was_a_consumer_group_once_does_not_count() -> None:
    """Its last member of the new protocol may have left since, by another process."""
    bench = Bench(settings=TranslatorSettings(sole_process=False))
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="member-a")
    bench.client_gone(connection)
    bench._new_group = False
    joining = bench.connect("10.0.0.2")
    bench.join(joining, "")
    bench.join(joining, "uuid-1")
    (call,) = bench.calls
    assert call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE


def test_back_to_observe_a_new_process_with_a_known_instance_id_comes_after_the_old_one_has_left() -> None:
    """The broker would put it in the old one's place without a rebalance."""
    bench = Bench()
    old, new = bench.connect("10.0.0.1"), bench.connect("10.0.0.2")
    bench.stable_member(old, (0, 1), member_id="old", instance_id="i-1")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.join(new, "", instance_id="i-1")
    leave = bench.heartbeat_call().message
    assert (leave.member_id, leave.member_epoch) == ("old", -1)
    bench.beat(-1)
    (call,) = [call for call in bench.calls if call.api_key == ApiKey.JOIN_GROUP]
    assert call.message.group_instance_id == "i-1"


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


def test_back_to_observe_a_client_with_an_id_of_the_broker_does_not_complete_the_move_of_another_one() -> (
    None
):
    """Both have the same client id and host. The one has been told, and has still to give up what it works on."""
    bench = Bench()
    first, second = bench.connect(), bench.connect()
    bench.stable_member(first, (0,), member_id="member-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    told = bench.heartbeat(first, "member-a", 1)
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    bench._new_group = False
    bench.join(second, B)
    assert [call.api_key for call in bench.calls] == [ApiKey.JOIN_GROUP]


def test_a_new_policy_that_changes_nothing_for_a_group_moves_nobody() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    heartbeat = bench.heartbeat(connection, "member-a", 1)
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE
