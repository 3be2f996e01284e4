"""Races between the processes that serve one client. Simulation found each of them."""

from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from tests.translation.answers import (
    A,
    commit_answer,
    commit_error,
    cooperative_member,
    described,
    joined_anew,
    member,
)
from tests.translation.bench import NO_CONSUMER_GROUP, TOPIC, TRANSLATE_ALL, Bench, owned
from tests.translation.live_groups import OBSERVE_ALL, joins_cut_short, leaves
from translation.actions import EventKind, RequestId
from translation.members.conversion import is_helper
from translation.policy.policy import Policy
from translation.settings import TranslatorSettings

ONE_OF_MANY = TranslatorSettings(sole_process=False)


def test_an_epoch_that_another_process_has_moved_costs_a_rejoin_and_no_partition() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    told = bench.heartbeat(connection, A, 1)
    bench.beat(0, ErrorCode.FENCED_MEMBER_EPOCH)
    bench.reply(described(member(A, epoch=7)))
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    assert EventKind.ADOPTED in bench.kinds()
    bench.join(connection, A, claims=(0, 1), protocol="cooperative-sticky")
    bench.reply(described(member(A, epoch=7)))
    bench.reply_names()
    upstream = bench.heartbeat_call().message
    assert (upstream.member_epoch, owned(upstream)) == (7, {TOPIC: (0, 1)})


def test_a_late_join_group_of_a_client_that_has_joined_elsewhere_changes_nothing() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    late = bench.join(connection, A, protocol="cooperative-sticky")
    bench.reply(described(member(A, epoch=7)))
    assert bench.error(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.calls == []


def test_only_a_call_of_the_client_says_after_a_lost_response_what_it_owns() -> None:
    """It may have been given more through another process. Seed 32881 of a fleet's simulation."""
    bench = Bench(settings=ONE_OF_MANY)
    first = cooperative_member(bench)
    second = bench.connect()
    bench.heartbeat(second, A, 1)
    bench.upstream_lost(second)
    bench.advance(6.0)
    assert bench.calls == []
    bench.heartbeat(first, A, 1)
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1)}


@pytest.mark.parametrize("is_read", [True, False])
def test_a_join_group_that_its_client_gave_up_before_it_joined_elsewhere_releases_nothing(
    is_read: bool,
) -> None:
    """This process stood still: the call and the end of its connection come together, and it knows no such member."""
    bench = Bench(settings=ONE_OF_MANY, new_group=False)
    connection = bench.connect()
    bench.join(connection, A, claims=(0,), protocol="cooperative-sticky")
    if is_read:
        bench.client_disconnected(connection)
    else:
        bench.hung_up.add(connection.id)
    bench.reply(described(member(A, epoch=7)))
    assert bench.calls == []


def test_a_late_commit_does_not_tell_where_its_client_is() -> None:
    """The connection on which it came closes at last, which does not mean that the client has been elsewhere."""
    bench = Bench(settings=ONE_OF_MANY)
    stalled, connection = joined_anew(bench, epoch=2)
    bench.commit(stalled, A, 1)
    bench.client_disconnected(stalled)
    told = bench.heartbeat(connection, A, 2)
    bench.beat(2, orders=(0, 1))
    assert bench.error(told) == ErrorCode.NONE


def test_a_join_group_at_an_epoch_that_another_process_has_moved_keeps_its_claim() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    join = bench.join(connection, A, claims=(0, 1), protocol="cooperative-sticky")
    bench.reply(described(member(A, epoch=1)))
    bench.beat(0, ErrorCode.FENCED_MEMBER_EPOCH)
    bench.reply(described(member(A, epoch=7)))
    bench.reply_names()
    upstream = bench.heartbeat_call().message
    assert (upstream.member_epoch, owned(upstream)) == (7, {TOPIC: (0, 1)})
    bench.beat(7, orders=(0, 1))
    assert bench.answers[join].generation_id == 7


def test_a_member_whose_epoch_was_moved_but_whom_the_broker_has_forgotten_joins_anew() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    told = bench.heartbeat(connection, A, 1)
    bench.beat(0, ErrorCode.FENCED_MEMBER_EPOCH)
    bench.reply(described(member("somebody-else")))
    assert bench.error(told) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_that_comes_back_with_a_newer_generation_is_adopted() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    told = bench.heartbeat(connection, A, 4)
    bench.reply(described(member(A, epoch=4)))
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_with_a_newer_generation_goes_out_with_the_described_epoch() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    bench.commit(connection, A, 4)
    bench.reply(described(member(A, epoch=5)))
    (call,) = bench.calls
    assert (call.api_key, call.message.generation_id_or_member_epoch) == (ApiKey.OFFSET_COMMIT, 5)


def test_a_call_counts_as_life_when_it_comes_and_not_when_it_is_its_turn() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=10_000)
    bench.commit(connection, A, 1)
    bench.advance(8.0)
    bench.heartbeat(bench.connect(), A, 1)  # waits behind the commit, which is not answered yet
    bench.advance(5.0)
    assert EventKind.SESSION_EXPIRED not in bench.kinds()


def test_a_join_group_whose_membership_was_lost_while_it_waited_does_not_join_behind_the_clients_back() -> (
    None
):
    bench = Bench(settings=ONE_OF_MANY)
    join = bench.join(bench.connect(), A)
    bench.beat(1)
    bench.advance(0.25)
    bench.beat(0, ErrorCode.FENCED_MEMBER_EPOCH)
    assert bench.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_client_that_comes_back_to_where_its_join_group_was_never_answered_is_adopted() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = bench.connect()
    bench.join(connection, A)
    bench.beat(1)
    told = bench.heartbeat(bench.connect(), A, 4)
    bench.reply(described(member(A, epoch=4)))
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_of_a_replaced_process_is_fenced_although_another_process_saw_the_newer_one() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-old", instance_id="i-1")
    commit = bench.commit(connection, "epochgate-old", 1, instance_id="i-1")
    bench.reply(commit_answer(ErrorCode.UNKNOWN_MEMBER_ID))
    bench.reply(described(member("epochgate-new", epoch=5, instance_id="i-1")))
    (topic,) = bench.answers[commit].topics
    assert topic.partitions[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_heartbeat_asks_for_what_another_process_may_have_been_answered() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    told = bench.heartbeat(connection, A, 1)
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1)}
    bench.beat(1, orders=(0, 1, 2))
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_late_heartbeat_of_a_client_that_has_gone_elsewhere_releases_nothing() -> None:
    """There it may have been handed more, at the same epoch; a full heartbeat of this process would not name it."""
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    bench.hung_up.add(connection.id)  # the call and the end behind it came together
    late = bench.heartbeat(connection, A, 1)
    assert bench.calls == []
    assert EventKind.CALL_REFUSED in bench.kinds()
    # So that what was sent behind it has its turn.
    assert bench.error(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    leave = bench.leave(connection, A)
    bench.answer_lookups()
    assert [call.api_key for call in bench.calls] == [ApiKey.LEAVE_GROUP]
    bench.client_disconnected(connection)
    assert leave not in bench.answers


def test_a_heartbeat_that_waited_for_its_turn_while_its_client_went_elsewhere_releases_nothing() -> None:
    """That its client was still there when the call came does not count; what counts is now."""
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    bench.commit(bench.connect(), A, 1)
    late = bench.heartbeat(connection, A, 1)
    bench.hung_up.add(connection.id)
    bench.reply(commit_answer(ErrorCode.NONE))
    assert bench.calls == []
    assert bench.error(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_commit_of_a_member_from_elsewhere_counts_although_its_client_closed_behind_it() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = bench.connect()
    bench.heartbeat(connection, A, 5)
    bench.reply(described(member(A, epoch=5)))
    bench.beat(5)
    bench.hung_up.add(connection.id)
    bench.commit(connection, A, 5)
    assert [call.api_key for call in bench.calls] == [ApiKey.OFFSET_COMMIT]


def test_the_only_process_heartbeats_for_a_client_that_has_hung_up() -> None:
    """Nobody else can have handed it anything, and its session runs on until it ends."""
    bench = Bench()
    connection = cooperative_member(bench)
    bench.hung_up.add(connection.id)
    bench.heartbeat(connection, A, 1)
    assert owned(bench.heartbeat_call().message) is None


def test_a_commit_of_a_client_that_has_gone_elsewhere_is_not_tried_at_the_epoch_of_the_other_process() -> (
    None
):
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    bench.commit(connection, A, 1)
    bench.client_disconnected(connection)
    bench.reply(commit_answer(ErrorCode.STALE_MEMBER_EPOCH))
    bench.beat(0, ErrorCode.FENCED_MEMBER_EPOCH)
    assert bench.calls == []


def test_a_commit_that_waited_while_its_client_went_elsewhere_is_not_sent_with_the_described_epoch() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    bench.heartbeat(connection, A, 1)
    bench.commit(connection, A, 1)
    bench.client_disconnected(connection)
    bench.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)
    bench.reply(described(member(A, epoch=5)))
    assert bench.calls == []


def test_a_claim_of_what_another_process_handed_out_is_taken_as_it_stands() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    bench.join(connection, A, claims=(0, 1, 2), protocol="cooperative-sticky")
    bench.reply(described(member(A, epoch=1)))
    bench.reply_names()
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1, 2)}


@pytest.mark.parametrize(("settings", "beats"), [(TranslatorSettings(), 1), (ONE_OF_MANY, 0)])
def test_a_client_that_may_be_elsewhere_is_not_heartbeated_for(
    settings: TranslatorSettings, beats: int
) -> None:
    bench = Bench(settings=settings)
    connection = cooperative_member(bench)
    bench.client_disconnected(connection)
    bench.advance(6.0)
    assert len(bench.calls) == beats


def test_an_instance_id_that_another_process_may_have_seen_later_is_asked_of_the_broker() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), member_id="epochgate-old", instance_id="i-1")
    bench.client_disconnected(connection)
    here = bench.heartbeat(bench.connect(), "epochgate-new", 5, instance_id="i-1")
    bench.reply(described(member("epochgate-new", epoch=5, instance_id="i-1")))
    bench.beat(5)
    assert bench.error(here) == ErrorCode.REBALANCE_IN_PROGRESS
    gone = bench.heartbeat(bench.connect(), "epochgate-old", 1, instance_id="i-1")
    bench.reply(described(member("epochgate-new", epoch=5, instance_id="i-1")), bench.calls[-1])
    assert bench.error(gone) == ErrorCode.FENCED_INSTANCE_ID


def heartbeat_after_an_absence(bench: Bench) -> RequestId:
    """Of a member whose client hung up after it had become stable, and then came back."""
    connection = bench.connect()
    bench.stable_member(connection, (0,))
    bench.client_disconnected(connection)
    return bench.heartbeat(bench.connect(), A, 1)


def test_a_client_that_was_away_may_have_been_handed_something_else_at_the_same_epoch() -> None:
    """The broker may assign more to a member without moving its epoch; another process may have handed that out."""
    bench = Bench(settings=ONE_OF_MANY)
    heartbeat = heartbeat_after_an_absence(bench)
    bench.reply(described(member(A, epoch=1)))
    assert all(call.message.topic_partitions is None for call in bench.calls)  # nothing is acknowledged
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_end_of_an_older_connection_on_which_a_call_was_late_does_not_mean_that_its_client_was_away() -> (
    None
):
    bench = Bench(settings=ONE_OF_MANY)
    stalled, connection = joined_anew(bench, epoch=1)  # not moved: the late call has the generation of now
    bench.commit(stalled, A, 1)
    bench.reply(commit_answer())
    bench.client_disconnected(stalled)
    told = bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0, 1))
    assert bench.error(told) == ErrorCode.NONE


def test_a_client_that_hung_up_before_its_join_group_was_answered_may_have_been_elsewhere() -> None:
    """The generation that it comes with is the one of an answer that nobody heard, because the epoch has not moved."""
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    bench.join(connection, A, claims=(0, 1), protocol="cooperative-sticky")
    bench.reply(described(member(A, epoch=1)))
    bench.client_disconnected(connection)
    bench.beat(1, orders=(0, 1))
    heartbeat = bench.heartbeat(bench.connect(), A, 1)
    (question,) = bench.calls  # no full heartbeat, which would release what another process has handed out
    assert question.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE
    bench.reply(described(member(A, epoch=1)))
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_generation_that_the_broker_has_not_come_to_is_refused_and_changes_nothing() -> None:
    """It is one of a membership before, as in the classic group of which this one was made."""
    bench = Bench(settings=ONE_OF_MANY)
    connection = cooperative_member(bench)
    late = bench.commit(connection, A, 4)
    bench.reply(described(member(A, epoch=3)))
    assert commit_error(bench, late) == ErrorCode.ILLEGAL_GENERATION
    told = bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0, 1))
    assert bench.error(told) == ErrorCode.NONE


def test_a_client_that_was_away_tries_again_while_the_broker_can_not_say_whether_it_is_a_member() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    heartbeat = heartbeat_after_an_absence(bench)
    bench.reply(described(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert bench.error(heartbeat) == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("settings", "call", "another_id"),
    [
        (ONE_OF_MANY, {"version": 9}, True),
        (ONE_OF_MANY, {"version": 3}, False),  # does not understand MEMBER_ID_REQUIRED
        (ONE_OF_MANY, {"version": 9, "instance_id": "i-1"}, False),  # nor does a static one expect it
        (TranslatorSettings(), {"version": 9}, False),
    ],
)
def test_a_classic_member_that_another_process_may_be_ending_joins_under_another_id(
    settings: TranslatorSettings, call: dict[str, Any], *, another_id: bool
) -> None:
    """A LeaveGroup that stands on its way from there would end what begins here under the same id.

    Its JoinGroup is not relayed, because brokers can't read it in a consumer group.
    """
    bench = Bench(settings=settings)
    bench._new_group = False
    joined = joins_cut_short(bench, bench.connect(), A, **call)
    bench.reply(described(member(A, classic=True, instance_id=call.get("instance_id"))))
    leave = leaves(bench, A)
    bench.reply(LeaveGroupResponse(members=(MemberResponse(member_id=A),)), leave)
    if not another_id:
        bench.reply(described(member("another")))  # the group is still one of the new protocol
        assert bench.heartbeat_call().message.member_id == A
        return
    answer = bench.answers[joined]
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id not in ("", A)
    assert bench.calls == []


@pytest.mark.parametrize("policy", [TRANSLATE_ALL, OBSERVE_ALL])
@pytest.mark.parametrize("api_key", [ApiKey.HEARTBEAT, ApiKey.SYNC_GROUP, ApiKey.OFFSET_COMMIT])
@pytest.mark.parametrize("answer", [described(member(A, classic=True, instance_id="i-1")), NO_CONSUMER_GROUP])
def test_a_client_that_another_process_has_moved_back_is_served_by_the_broker(
    policy: Policy, api_key: ApiKey, answer: ConsumerGroupDescribeResponse
) -> None:
    """To tell it that it is no member would cost it a rejoin, and what it works on, for nothing."""
    bench = Bench(settings=ONE_OF_MANY)
    connection = bench.connect()
    bench.stable_member(connection, (0,), instance_id="i-1")
    bench._do(bench.translator.set_policy(bench.now, policy))
    bench.client_disconnected(connection)
    calls = {
        ApiKey.HEARTBEAT: lambda: bench.heartbeat(bench.connect(), A, 1, instance_id="i-1"),
        ApiKey.SYNC_GROUP: lambda: bench.sync(bench.connect(), A, 1),
        ApiKey.OFFSET_COMMIT: lambda: bench.commit(bench.connect(), A, 1, instance_id="i-1"),
    }
    request = calls[api_key]()
    bench.reply(answer)
    assert bench.forwarded == [request]
    assert request not in bench.answers
    if policy is OBSERVE_ALL:  # what it was here does not count any more: the broker answers its calls
        again = bench.heartbeat(bench.connect(), A, 2, instance_id="i-1")
        bench.reply(HeartbeatResponse())
        assert bench.error(again) == ErrorCode.NONE


def test_a_client_that_was_away_goes_back_if_no_other_process_has_moved_it() -> None:
    bench = Bench(settings=ONE_OF_MANY)
    connection = bench.connect()
    bench.stable_member(connection, (0,))
    bench._do(bench.translator.set_policy(bench.now, OBSERVE_ALL))
    bench.client_disconnected(connection)
    here = bench.connect()
    told = bench.heartbeat(here, A, 1)
    bench.reply(described(member(A, epoch=1)))
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    goes_back = bench.join(here, A, claims=(0,))
    helper = bench.heartbeat_call()
    assert is_helper(helper.message.member_id)  # it is the last member of the new protocol
    bench.reply(bench.heartbeat_answer(1), helper)
    (call,) = bench.calls
    assert (call.api_key, call.message.member_id) == (ApiKey.JOIN_GROUP, A)
    bench.reply(JoinGroupResponse(member_id=A, generation_id=1, leader=A))
    assert bench.error(goes_back) == ErrorCode.NONE
