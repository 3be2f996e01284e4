"""The policy changes back to observe while a group lives."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse
from tests.translation.bench import GROUP, TOPIC, TRANSLATE_ALL, Bench, owned
from tests.translation.live_groups import OBSERVE_ALL, A, B, leaves, mixed_group, told_to_move
from translation.engine.member_parts import PendingMove
from translation.policy.policy import Mode, Policy, Rule


def test_back_to_observe_a_join_group_does_not_overtake_the_first_heartbeat_of_one_from_before() -> None:
    """That would release what the client is assigned as a classic member under the same id."""
    bench = Bench()
    older, newer = bench.connect(), bench.connect()
    bench.heartbeat(older, A, 4)
    bench.reply(mixed_group(A, B))
    bench.reply(HeartbeatResponse())
    bench._new_group = False
    bench.join(older, "")
    first = bench.join(older, "epochgate-uuid-1")
    bench.reply(mixed_group(A, B))
    leave = leaves(bench, A)
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_ALL))
    second = bench.join(newer, "epochgate-uuid-1")
    assert bench.calls == [leave]
    bench.reply(LeaveGroupResponse())
    bench.reply(mixed_group(B))
    bench.beat(6, orders=(0, 1))
    bench.beat(6, orders=(0, 1))
    assert bench.answers[first].generation_id == bench.answers[second].generation_id == 6
    assert bench.forwarded == []


def test_back_to_observe_a_client_whose_classic_membership_could_not_be_ended_leaves_both() -> None:
    bench = Bench()
    connection = bench.connect()
    told_to_move(bench, connection)
    bench.join(connection, "")
    bench.join(connection, "epochgate-uuid-1")
    bench.beat(5, orders=(0, 1))
    bench.reply(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_ALL))
    bench.settle(5)
    told = bench.heartbeat(connection, "epochgate-uuid-1", 5)
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    bench.join(connection, "")
    leaves(bench, A)
    bench.reply(LeaveGroupResponse())
    bench.reply(mixed_group(A))
    assert bench.heartbeat_call().message.member_epoch == -1


def test_back_to_observe_a_member_is_told_to_join_anew_and_leaves_the_new_protocol_when_it_does() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    told = bench.heartbeat(connection, "epochgate-a", 1)
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.calls == []
    join = bench.join(connection, "")
    leave = bench.heartbeat_call().message
    assert (leave.member_id, leave.member_epoch) == ("epochgate-a", -1)
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
    bench.stable_member(connection, (0, 1), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.heartbeat(connection, "epochgate-a", 1)
    bench.join(connection, "")
    if as_read:
        bench.client_disconnected(connection)
    else:
        bench.hung_up.add(connection.id)
    bench.beat(-1)
    assert bench.calls == []


def test_back_to_observe_a_member_that_joins_before_it_hears_of_it_keeps_its_partitions() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-a", protocol="cooperative-sticky")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.heartbeat(connection, "epochgate-a", 1)
    bench.join(connection, "epochgate-a", claims=(0, 1), protocol="cooperative-sticky")
    upstream = bench.heartbeat_call().message
    assert (upstream.member_epoch, owned(upstream)) == (1, {TOPIC: (0, 1)})
    bench.beat(1, orders=(0, 1))
    assert bench.error(bench.heartbeat(connection, "epochgate-a", 1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_back_to_observe_a_member_that_has_not_been_told_stays_whatever_its_client_left_behind_before() -> (
    None
):
    """The broker would convert it in place, and the client would be answered by both sides."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), epoch=2)
    bench.translator._context.registry.group(GROUP).pending_moves["older"] = PendingMove(
        "older", None, connection.id, "app", "", bench.now
    )
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.join(connection, "epochgate-a")
    assert bench.heartbeat_call().message.member_epoch == 2


def test_back_to_observe_the_heartbeat_that_is_told_counts_as_life() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    session_ends = bench.translator._context.registry.member(GROUP, "epochgate-a").deadlines.session_deadline
    bench.advance(session_ends - bench.now - 0.5)
    bench.heartbeat(connection, "epochgate-a", 1)
    while any(call.message.member_epoch == 1 for call in bench.calls):
        bench.beat(1)
    bench.advance(1.0)
    assert all(call.message.member_epoch == 1 for call in bench.calls)  # no -1 while it may hold something


def test_back_to_observe_a_membership_that_could_not_be_ended_is_ended_at_the_next_try() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.heartbeat(connection, "epochgate-a", 1)
    join = bench.join(connection, "")
    bench.beat(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert bench.error(join) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.join(connection, "")
    assert bench.heartbeat_call().message.member_epoch == -1


def test_a_member_that_is_to_go_back_and_then_not_is_left_alone() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    assert bench.error(bench.heartbeat(connection, "epochgate-a", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    heartbeat = bench.heartbeat(connection, "epochgate-a", 1)
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE


def test_a_member_that_was_to_go_back_is_left_alone_also_if_somebody_else_was_told_in_its_name() -> None:
    bench = Bench()
    connection, other = bench.connect(), bench.connect("/10.0.0.2")
    bench.stable_member(connection, (0, 1), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    assert bench.error(bench.heartbeat(other, "epochgate-a", 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    heartbeat = bench.heartbeat(connection, "epochgate-a", 1)
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE


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


def test_back_to_observe_an_older_process_with_a_known_instance_id_ends_no_membership_of_the_newer_one() -> (
    None
):
    """It has had a member id before: the broker knows that another one has its place, and fences it."""
    bench = Bench()
    newer, older = bench.connect("10.0.0.2"), bench.connect("10.0.0.1")
    bench.stable_member(newer, (0, 1), member_id="newer", instance_id="i-1")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.calls.clear()
    bench._new_group = False  # the broker gave the older one its id
    bench.join(older, "client-5f2ff342-5020-4abb-a987-03e725b210f0", instance_id="i-1")
    assert not [call for call in bench.calls if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT]


def test_back_to_observe_those_whose_turn_has_not_come_go_on_translated() -> None:
    policy = Policy(
        default=Mode.OBSERVE, rules=(Rule(group=GROUP, mode=Mode.OBSERVE, switch_pause_ms=60_000),)
    )
    bench = Bench()
    first, second = bench.connect("10.0.0.1"), bench.connect("10.0.0.2")
    bench.stable_member(first, (0,), member_id="epochgate-a", protocol="cooperative-sticky")
    bench.stable_member(second, (1,), member_id="epochgate-b", protocol="cooperative-sticky")
    bench.translator.set_policy(bench.now, policy)
    bench.heartbeat(first, "epochgate-a", 1)
    heartbeat = bench.heartbeat(second, "epochgate-b", 1)
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE
    bench.join(second, "epochgate-b", claims=(1,), protocol="cooperative-sticky")
    assert owned(bench.heartbeat_call().message) == {TOPIC: (1,)}


def test_back_to_observe_a_client_with_an_id_of_the_broker_does_not_complete_the_move_of_another_one() -> (
    None
):
    """Both have the same client id and host. The one has been told, and has still to give up what it works on."""
    bench = Bench()
    first, second = bench.connect(), bench.connect()
    bench.stable_member(first, (0,), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    told = bench.heartbeat(first, "epochgate-a", 1)
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    bench._new_group = False
    bench.join(second, B)
    assert [call.api_key for call in bench.calls] == [ApiKey.JOIN_GROUP]


def test_a_new_policy_that_changes_nothing_for_a_group_moves_nobody() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    heartbeat = bench.heartbeat(connection, "epochgate-a", 1)
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE
