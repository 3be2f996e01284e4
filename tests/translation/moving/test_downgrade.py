"""The policy changes back to observe while a group lives."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_protocol import decode_subscription
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, TOPIC, TRANSLATE_ALL, Bench
from tests.translation.live_groups import OBSERVE_ALL, A, B, classic_group, leaves, told_to_move
from translation.members.conversion import is_helper
from translation.members.member_parts import PendingSwitch


def helper_joins(bench: Bench) -> None:
    """The last member on its way back brings the helper, and the broker lets it in."""
    call = bench.heartbeat_call()
    assert is_helper(call.message.member_id)
    bench.reply(bench.heartbeat_answer(1), call)


def test_back_to_observe_a_join_group_does_not_overtake_the_first_heartbeat_of_one_from_before() -> None:
    """That would release what the client is assigned as a classic member under the same id."""
    bench = Bench(new_group=False)
    older, newer = bench.connect(), bench.connect()
    bench.join(older, "")
    first = bench.join(older, "epochgate-uuid-1")
    (lookup,) = bench.calls
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_ALL))
    second = bench.join(newer, "epochgate-uuid-1")
    assert bench.calls == [lookup]
    bench.answer_lookups()
    bench.beat(6, orders=(0, 1))
    bench.beat(6, orders=(0, 1))
    assert bench.answers[first].generation_id == bench.answers[second].generation_id == 6
    assert bench.forwarded == []


def test_back_to_observe_a_client_whose_classic_membership_could_not_be_ended_leaves_that_first() -> None:
    """It was told to rejoin, because its group has to be empty, and joins as a new classic member."""
    bench = Bench(new_group=False)
    connection = bench.connect()
    told_to_move(bench, connection, classic_group(cut_short=True))
    bench.join(connection, "")
    joins = bench.join(connection, "epochgate-uuid-1")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group(cut_short=True))
    leaves(bench, A)
    bench.reply(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert bench.error(joins) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_ALL))
    bench.join(connection, "")
    leaves(bench, A)
    bench.reply(LeaveGroupResponse())
    assert [call.api_key for call in bench.calls] == [ApiKey.JOIN_GROUP]


def test_back_to_observe_a_member_rejoins_and_becomes_a_classic_one_under_its_own_id() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    heartbeat = bench.heartbeat(connection, "epochgate-a", 1)
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.calls == []
    join = bench.join(connection, "epochgate-a")
    helper_joins(bench)
    (call,) = bench.calls
    assert (call.api_key, call.message.member_id) == (ApiKey.JOIN_GROUP, "epochgate-a")
    answer = JoinGroupResponse(
        generation_id=1, protocol_name="range", member_id="epochgate-a", leader="epochgate-a"
    )
    bench.reply(answer)
    assert bench.answers[join] == answer
    # From here on it is the broker's.
    assert bench.heartbeat(connection, "epochgate-a", 1) in bench.forwarded


@pytest.mark.parametrize("as_read", [True, False])
def test_back_to_observe_a_client_that_has_hung_up_while_its_membership_ends_is_not_joined_any_more(
    *, as_read: bool
) -> None:
    """It has joined anew on another connection, and would be put out of the group by its own late call."""
    bench = Bench()
    old, new = bench.connect(), bench.connect()
    bench.stable_member(old, (0, 1), member_id="epochgate-a", instance_id="i-1")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.join(new, "", instance_id="i-1")
    if as_read:
        bench.client_disconnected(new)
    else:
        bench.hung_up.add(new.id)
    bench.beat(-1)
    assert bench.calls == []


def test_back_to_observe_a_member_that_joins_before_its_heartbeat_reports_its_partitions_to_the_broker() -> (
    None
):
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-a", protocol="cooperative-sticky")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.join(connection, "epochgate-a", claims=(0, 1), protocol="cooperative-sticky")
    helper_joins(bench)
    (call,) = bench.calls
    (protocol,) = call.message.protocols
    _, subscription = decode_subscription(protocol.metadata)
    assert [(one.topic, one.partitions) for one in subscription.owned_partitions] == [(TOPIC, (0, 1))]


def test_back_to_observe_a_member_keeps_its_own_membership_whatever_its_client_left_behind_before() -> None:
    """A client's older move is matched by its connection, for a JoinGroup that names no member of the new protocol."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), epoch=2)
    bench.translator._context.registry.group(GROUP).pending_switches["older"] = PendingSwitch(
        "older", None, connection.id, "app", "", bench.now
    )
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.join(connection, "epochgate-a")
    helper_joins(bench)
    (call,) = bench.calls
    assert (call.api_key, call.message.member_id) == (ApiKey.JOIN_GROUP, "epochgate-a")


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
    old, new = bench.connect(), bench.connect()
    bench.stable_member(old, (0, 1), member_id="epochgate-a", instance_id="i-1")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    join = bench.join(new, "", instance_id="i-1")
    bench.beat(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert bench.error(join) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.join(new, "", instance_id="i-1")
    assert bench.heartbeat_call().message.member_epoch == -1


def test_a_member_that_is_to_go_back_and_then_not_is_left_alone() -> None:
    """Also if its client has not got the answer, and does not rejoin: no timeout of the way back ends it."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-a", rebalance_timeout_ms=20_000)
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    assert bench.error(bench.heartbeat(connection, "epochgate-a", 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.translator.set_policy(bench.now, TRANSLATE_ALL)
    for _ in range(10):
        heartbeat = bench.heartbeat(connection, "epochgate-a", 1)
        bench.beat(1)
        assert bench.error(heartbeat) == ErrorCode.NONE
        bench.advance(3.0)


def test_a_member_that_was_to_go_back_is_left_alone_also_if_somebody_else_was_told_in_its_name() -> None:
    bench = Bench()
    connection, other = bench.connect(), bench.connect("/10.0.0.2")
    bench.stable_member(connection, (0, 1), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    assert bench.error(bench.heartbeat(other, "epochgate-a", 1)) == ErrorCode.REBALANCE_IN_PROGRESS
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


def test_back_to_observe_a_client_with_an_id_of_the_broker_does_not_complete_the_move_of_another_one() -> (
    None
):
    """Both have the same client id and host. The one has still to rejoin, and to give up what it works on."""
    bench = Bench()
    first, second = bench.connect(), bench.connect()
    bench.stable_member(first, (0,), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    told = bench.heartbeat(first, "epochgate-a", 1)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
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
