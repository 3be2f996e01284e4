"""Rarer histories of replicas with one member log: what comes at the wrong moment, or while the log is away or lost."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_protocol import ConsumerProtocolAssignment, encode_assignment
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from protocol_codecs.messages.sync_group import SyncGroupResponse
from tests.translation.admission.test_serving import served_member, taken_over
from tests.translation.answers import A, commit_answer, commit_error, described, member
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP
from tests.translation.live_groups import OBSERVE_ALL, classic_group, mixed_group
from tests.translation.live_groups import A as CLASSIC
from tests.translation.member_log.bench import Replica, SharedLog
from tests.translation.member_log.test_ends import SESSION_S, fall_silent, leave_answer
from translation.member_log.outputs import ServeDecision
from translation.member_log.ownership import Ownership
from translation.member_log.records import Kind, Writer, member_key

KEY = member_key(GROUP, A)
NATIVE_FORM = "vvT4/e3hRkqyt1NzTWv0cA"
B = "epochgate-b"


@pytest.fixture
def log() -> SharedLog:
    return SharedLog()


# -- commits -----------------------------------------------------------------------------------------------------------


def test_a_commit_at_an_epoch_that_has_moved_is_tried_at_the_described_one(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    commit = one.commit(connection, A, 1)
    one.reply(commit_answer(ErrorCode.STALE_MEMBER_EPOCH))
    one.reply(described(member(A, epoch=2)))
    (call,) = one.calls
    assert call.message.generation_id_or_member_epoch == 2
    one.reply(commit_answer())
    assert commit_error(one, commit) == ErrorCode.NONE


def test_a_commit_at_a_described_epoch_that_moves_meanwhile_is_described_once_more(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    commit = other.commit(other.connect(), A, 1)
    for epoch in (2, 3):
        other.reply(described(member(A, epoch=epoch)))
        (call,) = other.calls
        assert call.message.generation_id_or_member_epoch == epoch
        other.reply(commit_answer(ErrorCode.STALE_MEMBER_EPOCH))
    assert commit_error(other, commit) == ErrorCode.ILLEGAL_GENERATION


def test_a_commit_whose_client_hangs_up_while_the_broker_describes_it_is_not_sent(log: SharedLog) -> None:
    """What it commits may have been given up through another replica meanwhile."""
    one, other = log.replica(), log.replica()
    served_member(one)
    connection = other.connect()
    other.commit(connection, A, 1)
    other.client_disconnected(connection)
    other.reply(described(member(A, epoch=1)))
    assert other.calls == []


def test_a_commit_with_an_older_generation_is_refused_where_its_member_is_served_while_the_log_is_read_again(
    log: SharedLog,
) -> None:
    """No record says then which generation the client has, but what it did here before does."""
    one = log.replica()
    connection = served_member(one)
    one.join(connection, A)
    one.reply(described(member(A, epoch=1)))
    one.beat(3, orders=(0, 1))
    one.sync(connection, A, 3)
    one.log.lose(0, Writer(b"the next"), log.now)
    commits = [one.commit(connection, A, generation) for generation in (1, 3)]
    one.reply(described(member(A, epoch=3)))
    one.reply(described(member(A, epoch=3)))
    assert commit_error(one, commits[0]) == ErrorCode.ILLEGAL_GENERATION
    (call,) = one.calls
    assert call.message.generation_id_or_member_epoch == 3


def test_a_commit_of_a_member_that_the_broker_serves_is_relayed(log: SharedLog) -> None:
    one, other, third = log.replica(), log.replica(policy=OBSERVE_ALL), log.replica()
    served_member(one)
    other.join(other.connect(), A)
    commit = third.commit(third.connect(), A, 1)
    assert third.forwarded == [commit]
    assert third.calls == []


def test_a_commit_is_a_sign_of_life_for_a_member_whose_end_is_not_written_yet(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    log.go_away()
    fall_silent(one)
    one.commit(connection, A, 1)
    one.reply(commit_answer())
    log.come_back()
    assert Kind.EXPIRING not in log.kinds(A)


def test_a_commit_does_not_keep_its_connection_confirmed(log: SharedLog) -> None:
    """Its client may have been at another replica before, and come back to a connection that was left open."""
    one = log.replica()
    connection = served_member(one)
    log.is_held = True
    one.now = log.now = log.now + 2.5
    one.commit(connection, A, 1)
    one.reply(commit_answer())
    one.now = log.now = log.now + 2.6
    one.heartbeat(connection, A, 1)
    assert one.calls == []


# -- JoinGroup ---------------------------------------------------------------------------------------------------------


def test_a_join_group_whose_member_is_served_elsewhere_before_the_broker_lets_its_sender_in_changes_nothing(
    log: SharedLog,
) -> None:
    """Its client has gone there, and has more by now than it claims here. Seed 2503."""
    one, other = log.replica(), log.replica()
    served_member(one)
    other._lets_in = False
    late = other.join(other.connect(), A)
    log.replica().heartbeat(log.replicas[2].connect(), A, 1)
    (question,) = other.questions()
    other.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), question)
    assert other.error(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert other.calls == []
    assert log.kinds(A) == [Kind.SERVED, Kind.SERVED]


def test_a_description_from_before_another_replica_served_the_member_ends_nothing(log: SharedLog) -> None:
    """It was held up on a connection that its client does not read. Seed 68033."""
    one, other, third = log.replica(), log.replica(), log.replica()
    served_member(one)
    other.heartbeat(other.connect(), A, 1)
    taken_over(third)
    other.reply(described())
    assert Kind.ENDED not in log.kinds(A)


def test_calls_whose_turn_comes_when_another_replica_serves_the_member_ask_the_broker_nothing(
    log: SharedLog,
) -> None:
    """Many were sent on connections that nobody reads, and each would hold up the next one. Seed 58882."""
    one, other, third = log.replica(), log.replica(), log.replica()
    served_member(one)
    asks = other.heartbeat(other.connect(), A, 1)
    waits = [other.heartbeat(other.connect(), A, 1), other.sync(other.connect(), A, 1)]
    taken_over(third)
    other.reply(described(member(A, epoch=1)))
    assert other.calls == []
    assert [other.error(call) for call in (asks, *waits)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3


# -- moves back to the classic protocol --------------------------------------------------------------------------------


def test_no_client_rejoins_to_go_back_while_the_log_is_away(log: SharedLog) -> None:
    """Its id could not be written as that of a classic member, so that its JoinGroup would be refused."""
    one = log.replica()
    connection = served_member(one)
    log.go_away()
    one._do(one.translator.set_policy(log.now, OBSERVE_ALL))
    told = one.heartbeat(connection, A, 1)
    one.beat(1)
    assert one.error(told) == ErrorCode.NONE
    log.come_back()
    assert one.error(one.heartbeat(connection, A, 1)) == ErrorCode.REBALANCE_IN_PROGRESS


# -- LeaveGroup --------------------------------------------------------------------------------------------------------


def test_a_leave_group_behind_a_commit_at_another_replica_ends_the_id(log: SharedLog) -> None:
    """The other replica has the member in its queue, and does not serve it."""
    one, other = log.replica(), log.replica()
    served_member(one)
    other.commit(other.connect(), A, 1)
    other.leave(other.connect(), A)
    other.reply(described(member(A, epoch=1)))
    other.reply(commit_answer())
    other.reply(leave_answer())
    assert log.kinds(A)[-1] is Kind.ENDED


def test_a_leave_group_while_the_end_is_written_sends_no_second_end(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    fall_silent(one, SESSION_S - 2.5)
    log.is_held = True
    fall_silent(one, 1.0)
    leave = one.leave(connection, A)
    one.reply(described(member(A), member("somebody-else")))
    refused = MemberResponse(member_id=A, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    one.reply(LeaveGroupResponse(members=(refused,)))
    assert one.leave_epochs() == []
    assert one.answers[leave].members[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# -- connections -------------------------------------------------------------------------------------------------------


def test_a_relayed_call_may_show_that_a_broker_coordinates_no_more(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    leave = one.leave(connection, "somebody-else")
    one.relayed_response(connection, leave, LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
    assert one.log.verdict(KEY, connection.id, one.now) is not ServeDecision.SERVE


def test_a_connection_that_is_lost_confirms_nothing(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    one.upstream_lost(connection)
    assert one.log.verdict(KEY, connection.id, one.now) is not ServeDecision.SERVE


def test_a_heartbeat_is_predicted_as_of_its_own_time(log: SharedLog) -> None:
    """Nothing else has happened at this replica since the connection lapsed."""
    one = log.replica()
    connection = served_member(one)
    log.is_held = True
    one.now = log.now = log.now + 5.1
    one.heartbeat(connection, A, 1)
    assert one.calls == []


def test_who_was_refused_long_ago_is_not_told_to_join_anew_at_once(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    log.go_away()
    connection = other.connect()
    for _ in range(2):
        refused = other.heartbeat(connection, A, 1)
        assert other.error(refused) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        log.advance(100.0)


# -- claims that come too late -----------------------------------------------------------------------------------------


def test_a_member_whose_call_is_over_when_its_claim_counts_is_not_renewed_in_the_log(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    log.is_held = True
    connection = other.connect()
    other.heartbeat(connection, A, 1)
    other.client_disconnected(connection)
    log.advance(2.1)
    log.come_back()
    assert other.log.ownership(KEY) is Ownership.SERVING
    before = len(log.kinds(A))
    log.advance(7 * 3600.0)
    assert len(log.kinds(A)) == before


def test_a_membership_that_is_lost_after_the_member_was_taken_is_not_ended_by_who_had_it(
    log: SharedLog,
) -> None:
    one, other = log.replica(), log.replica()
    connection = served_member(one)
    join = one.join(connection, A, claims=(0,), protocol="cooperative-sticky")
    one.reply(described(member(A, epoch=1)))
    taken_over(other)
    one.beat(0, ErrorCode.UNKNOWN_MEMBER_ID)
    assert one.leave_epochs() == []
    assert one.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("instance_id", [None, "i-1"])
def test_a_member_that_comes_back_while_its_join_group_is_under_way_is_not_ended(
    log: SharedLog, instance_id: str | None
) -> None:
    """Another replica had it in between: what the broker answers is not of the membership that is served here now."""
    one, other = log.replica(), log.replica()
    connection = served_member(one)
    join = one.join(connection, A, claims=(0,), protocol="cooperative-sticky", instance_id=instance_id)
    one.reply(described(member(A, epoch=1, instance_id=instance_id)))
    taken_over(other)
    one.heartbeat(one.connect(), A, 1)
    assert one.log.ownership(KEY) is Ownership.SERVING
    one.beat(1, orders=(0, 1))
    assert one.leave_epochs() == []
    assert one.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_join_group_that_has_adopted_a_member_which_is_taken_then_is_to_be_tried_again(
    log: SharedLog,
) -> None:
    """The membership goes on elsewhere: its client is not to come back as another member."""
    one, other = log.replica(), log.replica()
    served_member(one)
    join = other.join(other.connect(), A, claims=(0, 1), protocol="cooperative-sticky")
    other.reply(described(member(A, epoch=1)))
    one.heartbeat(one.connect(), A, 1)
    other.reply_names()
    assert other.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert other.heartbeats() == []


def test_an_instance_id_is_not_released_for_a_member_that_another_replica_has_taken(log: SharedLog) -> None:
    one, other = log.replica(new_group=True), log.replica()
    join = one.join(one.connect(), A, instance_id="i-1")
    taken_over(other)
    one.beat(0, ErrorCode.UNRELEASED_INSTANCE_ID)
    one.reply(described(member(A, epoch=1, instance_id="i-1")))
    assert one.leave_epochs() == []
    assert one.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_group_votes_for_the_assignor_of_those_who_are_left(log: SharedLog) -> None:
    one, other = log.replica(new_group=True), log.replica()
    one.stable_member(one.connect(), (0,), protocol="range")
    one.stable_member(one.connect(), (1,), member_id=B, protocol="cooperative-sticky")
    one._new_group = False
    taken_over(other)
    log.advance(0.1)
    assert [call.message.server_assignor for call in one.heartbeats()] == ["uniform"]


# -- ids of classic coordinators ---------------------------------------------------------------------------------------


def converted(log: SharedLog, one: Replica, member_id: str) -> None:
    """A classic member is converted under the id that it has, at the first replica."""
    connection = one.connect()
    join = one.join(connection, member_id)
    group = mixed_group(member_id)
    while one.calls[0].api_key != ApiKey.JOIN_GROUP:
        one.reply(group)
    one.reply(JoinGroupResponse(member_id=member_id, generation_id=5, protocol_name="range"))
    assert one.error(join) == ErrorCode.NONE
    sync = one.sync(connection, member_id, 5)
    one.reply(group)
    nothing = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=()), 0)
    one.relayed_response(connection, sync, SyncGroupResponse(assignment=nothing))
    log.is_held = True
    heartbeat = one.heartbeat(connection, member_id, 5)
    one.reply(group)
    one.reply(HeartbeatResponse())
    one.reply_names()
    assert (one.calls, log.kinds(member_id)) == ([], [])
    log.is_held = False
    log.settle()
    assert log.kinds(member_id) == [Kind.SERVED]
    one.reply(group)
    (conversion,) = one.heartbeats()
    assert (conversion.message.member_id, conversion.message.member_epoch) == (member_id, 5)
    one.reply(one.heartbeat_answer(5), conversion)
    assert one.error(heartbeat) == ErrorCode.NONE


def test_a_membership_that_begins_under_an_id_of_a_classic_coordinator_is_written_then(
    log: SharedLog,
) -> None:
    converted(log, log.replica(), CLASSIC)


def test_a_member_that_was_converted_under_an_id_of_a_native_ones_form_is_known_by_the_log(
    log: SharedLog,
) -> None:
    """A broker gives a classic client such an id if it joins a consumer group, and describes both kinds alike."""
    one, other = log.replica(), log.replica()
    converted(log, one, NATIVE_FORM)
    other.translator._context.natives.add(GROUP, NATIVE_FORM)  # it was described before the record was read
    connection = other.connect()
    commit = other.commit(connection, NATIVE_FORM, 5)
    heartbeat = other.heartbeat(connection, NATIVE_FORM, 5)
    for _ in range(4):
        log.settle()
        for call in list(other.calls):
            answer = (
                commit_answer()
                if call.api_key == ApiKey.OFFSET_COMMIT
                else other.heartbeat_answer(5)
                if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT
                else described(member(NATIVE_FORM, epoch=5))
            )
            other.reply(answer, call)
    assert commit_error(other, commit) == ErrorCode.NONE
    assert other.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS  # adopted
    assert other.forwarded == []


# -- a log that is away, or lost ---------------------------------------------------------------------------------------


def test_a_join_group_under_an_id_of_a_replica_is_not_relayed_while_the_log_is_away(log: SharedLog) -> None:
    """The log may say by now that the id is dead, or served elsewhere."""
    one = log.replica(policy=OBSERVE_ALL)
    log.go_away()
    join = one.join(one.connect(), A)
    assert one.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.forwarded == []


def test_a_silent_client_is_not_kept_alive_when_its_group_changes_while_the_log_is_away(
    log: SharedLog,
) -> None:
    one = log.replica(new_group=True)
    one.stable_member(one.connect(), (0,))
    connection = one.connect()
    one.stable_member(connection, (1,), member_id=B, epoch=2, session_timeout_ms=45_000)
    one._new_group = False
    log.go_away()
    fall_silent(one)
    one.leave(connection, B)
    one.reply(LeaveGroupResponse(members=(MemberResponse(member_id=B),)))
    log.advance(2.0)
    assert [call.message.member_id for call in one.heartbeats()] == []


def test_an_owned_list_waits_until_a_log_that_was_lost_is_read_again(log: SharedLog) -> None:
    """Another replica may have taken the member, which the log says once it is read."""
    one = log.replica()
    connection = served_member(one)
    commit = one.commit(connection, A, 1)
    heartbeat = one.heartbeat(connection, A, 1)
    one.log.lose(0, Writer(b"another writer"), one.now)
    one.reply(commit_answer())
    assert commit_error(one, commit) == ErrorCode.NONE
    assert one.heartbeats() == []
    assert one.error(heartbeat) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_an_id_under_which_a_client_has_joined_is_not_taken_for_new_when_the_log_is_lost(
    log: SharedLog,
) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    taken_over(other)
    one.log.lose(0, Writer(b"another writer"), one.now)
    join = one.join(one.connect(), A)
    one.reply(described(member(A, epoch=1)))
    assert one.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.calls == []


def test_a_client_whose_first_join_group_was_lost_while_the_log_is_away_is_given_another_id(
    log: SharedLog,
) -> None:
    one = log.replica(new_group=True)
    log.go_away()
    connection = one.connect()
    one.join(connection, A)
    one.upstream_lost(connection)
    one._new_group = False
    join = one.join(one.connect(), A)
    while one.calls:
        one.reply(described(member("somebody-else")), one.calls[0])
    assert one.error(join) == ErrorCode.UNKNOWN_MEMBER_ID
    assert one.heartbeats() == []


def test_a_client_that_comes_while_the_coordinator_is_away_is_not_told_that_it_is_no_member(
    log: SharedLog,
) -> None:
    """It would give up what it works on; the broker has not said that it has no such member."""
    one, other = log.replica(), log.replica()
    served_member(one)
    join = other.join(other.connect(), A)
    other.reply(described(error=ErrorCode.NOT_COORDINATOR))
    assert other.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = other.join(other.connect(), A)
    other.reply(described())
    assert other.error(again) == ErrorCode.UNKNOWN_MEMBER_ID


# -- a classic member with an id that Epochgate gave out ---------------------------------------------------------------


def test_a_classic_member_that_was_translated_before_rejoins_as_one(log: SharedLog) -> None:
    """It kept its id on the way back, and its group rebalances. Refused, its classic membership would hold the group
    until it expires."""
    one = log.replica()
    one._new_group = False
    join = one.join(one.connect(), A, claims=(0, 1), protocol="cooperative-sticky")
    answers = {
        ApiKey.CONSUMER_GROUP_DESCRIBE: NO_CONSUMER_GROUP,
        ApiKey.DESCRIBE_GROUPS: classic_group(state="PreparingRebalance"),
    }
    while not one.answers and one.calls and one.calls[0].api_key in answers:
        one.reply(answers[one.calls[0].api_key])
    assert join not in one.answers
    assert join in one.forwarded or [call.api_key for call in one.calls] == [ApiKey.JOIN_GROUP]
