"""The policy changes to translate while a group lives: its members are converted, or join anew.

A client joins anew if its group has to be empty to be converted, or if it needs another member id.
"""

from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse
from protocol_codecs.messages.sync_group import SyncGroupResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, TOPIC, TRANSLATE_ALL, Bench, owned
from tests.translation.live_groups import (
    OBSERVE_ALL,
    A,
    B,
    classic_group,
    given_another_id,
    helper_converts,
    known_classic_member,
    leaves,
    loading,
    mixed_group,
    told_to_move,
)
from translation.actions import Connection, EventKind, RequestId
from translation.members.conversion import is_helper
from translation.members.member_parts import PendingSwitch

HAS_TO_BE_EMPTY = classic_group(user_data=b"sticky", assignor="cooperative-sticky")


def accepted_heartbeat(bench: Bench, connection: Connection, member_id: str = A) -> RequestId:
    """A Heartbeat that the broker has accepted, of a member whose group can be converted."""
    heartbeat = bench.heartbeat(connection, member_id, 4)
    for answer in (NO_CONSUMER_GROUP, classic_group(), HeartbeatResponse()):
        bench.reply(answer, bench.calls[-1])
    return heartbeat


def test_a_known_member_is_converted_under_its_own_id_with_all_that_it_has() -> None:
    bench = Bench()
    connection = bench.connect()
    known_classic_member(bench, connection)
    heartbeat = accepted_heartbeat(bench, connection)
    converts = helper_converts(bench)
    assert (converts.message.member_id, converts.message.member_epoch) == (A, 4)
    assert owned(converts.message) == {TOPIC: (0, 1)}
    assert heartbeat not in bench.answers
    bench.reply(bench.heartbeat_answer(4, orders=(0, 1)), converts)
    assert bench.error(heartbeat) == ErrorCode.NONE
    assert bench.calls == []
    assert EventKind.ADOPTED in bench.kinds()
    bench.heartbeat(connection, A, 4)
    following = bench.heartbeat_call().message
    assert (following.member_id, following.member_epoch) == (A, 4)


def test_a_member_that_is_not_known_here_has_to_rejoin_once_and_not_again() -> None:
    bench = Bench()
    connection = bench.connect()
    assert bench.error(accepted_heartbeat(bench, connection)) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.calls == []
    assert bench.error(accepted_heartbeat(bench, connection)) == ErrorCode.NONE
    assert bench.heartbeat(connection, A, 4) in bench.forwarded


def test_of_members_whose_heartbeats_come_together_one_brings_the_helper() -> None:
    """Members that joined at one rebalance beat at the same moments."""
    bench = Bench()
    first, second = bench.connect(), bench.connect("/10.0.0.2")
    known_classic_member(bench, first)
    accepted_heartbeat(bench, first)
    bench.reply_names()
    assert is_helper(bench.heartbeat_call().message.member_id)
    other = accepted_heartbeat(bench, second, B)
    assert bench.error(other) == ErrorCode.REBALANCE_IN_PROGRESS  # it is not known here
    assert [is_helper(call.message.member_id) for call in bench.calls] == [True]


def test_to_translate_a_client_under_another_id_joins_when_its_classic_membership_has_ended_without_a_rebalance() -> (
    None
):
    bench = Bench()
    connection = bench.connect()
    given_another_id(bench, connection)
    bench._new_group = True
    assert bench.calls == []  # nothing is left while it may still hold partitions
    join = bench.join(connection, "epochgate-uuid-1")
    leaves(bench, A)
    bench._new_group = False
    bench.reply(LeaveGroupResponse())
    bench.advance(0.25)
    bench.reply(classic_group(state="PreparingRebalance"))
    assert bench.calls == []  # it must not be converted in the rebalance that this has begun
    bench._new_group = True
    bench.advance(0.25)
    bench.answer_lookups()
    bench.beat(6, orders=(0, 1))
    assert bench.answers[join].generation_id == 6


def joins_anew_under_its_old_id(bench: Bench) -> Connection:
    """The client keeps its member id; the end of its classic membership is under way."""
    connection = bench.connect()
    told_to_move(bench, connection, HAS_TO_BE_EMPTY)
    bench._new_group = False
    bench.join(connection, A)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(HAS_TO_BE_EMPTY)
    leaves(bench, A)
    return connection


def test_to_translate_a_client_that_keeps_its_member_id_ends_its_classic_membership_first() -> None:
    bench = Bench()
    joins_anew_under_its_old_id(bench)
    bench.reply(LeaveGroupResponse())
    bench.advance(0.25)
    bench.answer_lookups()  # the group is empty
    first = bench.heartbeat_call().message
    assert (first.member_id, first.member_epoch) == (A, 0)


def test_to_translate_a_client_that_has_gone_while_its_classic_membership_ended_does_not_join() -> None:
    """It may have joined at another process under the same id: a first heartbeat would release what it works on."""
    bench = Bench()
    connection = joins_anew_under_its_old_id(bench)
    bench.client_disconnected(connection)
    bench.reply(LeaveGroupResponse())
    bench.advance(0.25)
    bench.answer_lookups()
    assert bench.calls == []


def test_to_translate_a_client_whose_older_join_group_may_still_arrive_is_given_another_id() -> None:
    """With the old id that call would make the new member a classic one."""
    bench = Bench(policy=OBSERVE_ALL)
    older, newer = bench.connect(), bench.connect()
    bench._new_group = False
    assert bench.join(older, A) in bench.forwarded
    bench._do(bench.translator.set_policy(bench.now, TRANSLATE_ALL))
    answer = bench.answers[bench.join(newer, A)]
    assert (answer.error_code, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "epochgate-uuid-1")
    bench.join(newer, "epochgate-uuid-1")
    bench.reply(mixed_group(A))
    leaves(bench, A)


@pytest.mark.parametrize(
    "why", ["it has heard the answer", "it claims partitions", "an old version", "static"]
)
def test_to_translate_a_client_keeps_the_id_of_an_older_join_group(why: str) -> None:
    bench = Bench(policy=OBSERVE_ALL)
    older, newer = bench.connect(), bench.connect()
    bench._new_group = False
    bench.join(older, A)
    if why == "it has heard the answer":
        bench.relayed_response(older, bench.sync(older, A, 1), SyncGroupResponse())
    bench._do(bench.translator.set_policy(bench.now, TRANSLATE_ALL))
    bench.join(
        newer,
        A,
        claims=(0,) if why == "it claims partitions" else (),
        version=3 if why == "an old version" else 9,
        instance_id="one" if why == "static" else None,
    )
    assert [call.api_key for call in bench.calls] == [ApiKey.CONSUMER_GROUP_DESCRIBE]


def test_to_translate_a_static_client_of_a_group_that_has_to_be_empty_leaves_under_its_instance_id() -> None:
    bench = Bench()
    connection = bench.connect()
    told = told_to_move(bench, connection, HAS_TO_BE_EMPTY, instance_id="instance")
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID
    join = bench.join(connection, "", instance_id="instance")
    left = leaves(bench, A)
    assert [member.group_instance_id for member in left.message.members] == ["instance"]
    bench.reply(LeaveGroupResponse())
    assert bench.heartbeat_call().message.instance_id == "instance"
    bench.beat(5, orders=(0, 1))
    bench.settle(5)
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
@pytest.mark.parametrize("is_mixed", [False, True])
def test_to_translate_a_heartbeat_that_the_broker_refuses_has_the_brokers_answer(
    code: ErrorCode, *, is_mixed: bool
) -> None:
    bench = Bench()
    heartbeat = bench.heartbeat(bench.connect(), A, 4)
    for answer in (mixed_group(A),) if is_mixed else (NO_CONSUMER_GROUP, classic_group()):
        bench.reply(answer)
    bench.reply(HeartbeatResponse(error_code=code))
    assert bench.error(heartbeat) == code
    assert bench.calls == []  # nobody is converted in a rebalance


def test_to_translate_a_heartbeat_that_the_broker_refuses_has_its_answer_in_a_group_that_has_to_be_empty() -> (
    None
):
    bench = Bench()
    heartbeat = bench.heartbeat(bench.connect(), A, 4)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(HAS_TO_BE_EMPTY)
    bench.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert bench.forwarded == [heartbeat]


def test_to_translate_a_classic_membership_that_could_not_be_ended_is_ended_at_the_next_try() -> None:
    bench = Bench()
    connection = bench.connect()
    given_another_id(bench, connection)
    bench._new_group = True
    join = bench.join(connection, "epochgate-uuid-1")
    bench.reply(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert bench.error(join) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    join = bench.join(connection, "epochgate-uuid-1")
    leaves(bench, A)
    bench.reply(LeaveGroupResponse())
    bench.advance(0.25)
    bench.answer_lookups()
    bench.beat(5, orders=(0, 1))
    assert bench.answers[join].generation_id == 5


def test_to_translate_a_client_that_is_called_back_leaves_no_classic_membership_behind() -> None:
    """A rebalance would wait for it until its timeout."""
    bench = Bench()
    connection = bench.connect()
    told_to_move(bench, connection, HAS_TO_BE_EMPTY)
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
    told_to_move(bench, first, HAS_TO_BE_EMPTY)
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
    told_to_move(bench, connection, HAS_TO_BE_EMPTY)
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.join(connection, **goes_on)
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP


def test_a_classic_member_that_joins_before_it_hears_that_it_is_to_move_stays_classic_with_its_partitions() -> (
    None
):
    bench = Bench(new_group=False)
    connection = bench.connect()
    told_to_move(bench, connection)
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


def test_a_classic_member_with_partitions_stays_classic_whatever_its_client_left_behind_before() -> None:
    """It was told to move once, joined the classic group anew instead, and works on what it was assigned there."""
    bench = Bench(new_group=False)
    connection = bench.connect()
    old_classic_membership = PendingSwitch(B, None, connection.id, "app", "/10.0.0.1", bench.now)
    bench.translator._context.registry.group(GROUP).pending_switches[B] = old_classic_membership
    bench.join(connection, A, claims=(0,), protocol="cooperative-sticky")
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP


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


def test_a_classic_member_that_rejoins_in_a_classic_group_stays_classic_for_now() -> None:
    bench = Bench(new_group=False)
    connection = bench.connect()
    bench.join(connection, A)
    bench.reply(NO_CONSUMER_GROUP)
    bench.reply(classic_group())
    (call,) = bench.calls
    assert call.api_key == ApiKey.JOIN_GROUP


def test_since_when_a_group_gives_partitions_up_is_remembered_while_nobody_of_it_is_here() -> None:
    bench = Bench()
    context = bench.translator._context
    group = context.registry.group(GROUP)
    assert group.migration.awaits_revocation(bench.now, 300)
    context.registry.drop_group_if_empty(group)
    assert not context.registry.group(GROUP).migration.awaits_revocation(bench.now + 300, 300)
