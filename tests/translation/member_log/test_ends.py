"""How memberships end at replicas with a member log: an id is dead in the log before epoch -1 goes out for it."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import ConsumerGroupDescribeResponseMember
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from tests.translation.admission.test_serving import served_member, taken_over
from tests.translation.answers import A, commit_answer, commit_error, described, member
from tests.translation.bench import GROUP, TOPIC, TRANSLATE_ALL, Bench
from tests.translation.classic_group import GENERATION, consumer_group
from tests.translation.live_groups import OBSERVE_ALL
from tests.translation.member_log.bench import Replica, SharedLog
from translation.actions import Connection, EventKind, RequestId
from translation.member_log.ownership import Ownership
from translation.member_log.records import NO_GENERATION, Kind, member_key
from translation.member_log.snapshots import NO_SNAPSHOT
from translation.members.conversion import is_helper

KEY = member_key(GROUP, A)
SESSION_S = 10.0


@pytest.fixture
def log() -> SharedLog:
    return SharedLog()


def left(replica: Replica, code: ErrorCode = ErrorCode.NONE) -> None:
    """The broker answers the heartbeat that leaves."""
    call = replica.heartbeats()[0]
    assert call.message.member_epoch in (-1, -2)
    replica.reply(
        ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=call.message.member_epoch), call
    )


def is_last(replica: Replica) -> None:
    """The broker describes the group of the member that is to end: no classic member is left behind."""
    (call,) = [call for call in replica.calls if call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE]
    replica.reply(described(member(A)), call)


def fall_silent(replica: Replica, seconds: float = SESSION_S) -> None:
    """The client does not call; the broker answers what keeps its member alive meanwhile."""
    for _ in range(int(seconds / 0.1)):
        replica.advance(0.1)
        for call in replica.heartbeats():
            if call.message.member_epoch >= 0:
                replica.reply(Bench.heartbeat_answer(call.message.member_epoch), call)


# -- clients that fall silent ------------------------------------------------------------------------------------------


def test_a_silent_client_is_removed_when_its_id_is_dead_in_the_log(log: SharedLog) -> None:
    one = log.replica()
    served_member(one)
    fall_silent(one, SESSION_S - 2.5)
    log.is_held = True
    fall_silent(one, 1.5)
    assert one.leave_epochs() == []
    log.is_held = False
    log.settle()
    is_last(one)
    assert one.leave_epochs() == [-1]
    assert log.kinds(A)[-1] is Kind.EXPIRING
    left(one)
    assert log.kinds(A)[-1] is Kind.ENDED
    assert EventKind.SESSION_EXPIRED in one.kinds()


def test_a_client_that_has_come_to_another_replica_meanwhile_is_not_removed(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    fall_silent(one, SESSION_S - 2.5)
    log.is_held = True
    other.heartbeat(other.connect(), A, 1)
    fall_silent(one, 1.0)
    log.is_held = False
    log.settle()
    assert one.leave_epochs() == []
    assert other.log.ownership(KEY) is Ownership.SERVING
    assert EventKind.SESSION_EXPIRED not in one.kinds()


def test_an_end_that_the_broker_has_not_confirmed_is_not_written(log: SharedLog) -> None:
    one = log.replica()
    served_member(one)
    fall_silent(one)
    is_last(one)
    left(one, ErrorCode.NOT_COORDINATOR)
    assert log.kinds(A)[-1] is Kind.EXPIRING


def test_an_end_whose_answer_is_lost_is_not_written(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    fall_silent(one)
    one.upstream_lost(connection)
    assert log.kinds(A)[-1] is Kind.EXPIRING
    assert EventKind.SESSION_EXPIRED in one.kinds()


def test_nothing_is_written_for_a_silent_client_whose_coordinator_is_out_of_reach(log: SharedLog) -> None:
    """Nobody could send epoch -1, and the client may live: it can't call anybody."""
    one = log.replica()
    connection = served_member(one)
    one.upstream_lost(connection)
    fall_silent(one, 6 * SESSION_S)
    assert log.kinds(A)[-1] is Kind.SERVED
    assert EventKind.SESSION_EXPIRED not in one.kinds()


def test_while_not_every_replica_writes_the_log_the_broker_ends_silent_clients(log: SharedLog) -> None:
    one = log.replica(expires=False)
    served_member(one)
    fall_silent(one)
    assert one.leave_epochs() == []
    assert Kind.EXPIRING not in log.kinds(A)
    assert EventKind.SESSION_EXPIRED in one.kinds()


def test_a_silent_client_is_not_kept_alive_while_the_log_is_away(log: SharedLog) -> None:
    """It is stopped, and its connection open: its partitions would have no owner until the log is back."""
    one = log.replica()
    served_member(one)
    log.go_away()
    fall_silent(one, SESSION_S)
    assert one.calls == []
    before = len(one.events)
    log.advance(20.0)
    assert one.calls == []
    assert len(one.events) == before


def test_a_client_that_is_heard_before_the_log_is_back_is_not_removed(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    log.go_away()
    fall_silent(one, SESSION_S)
    refused = one.heartbeat(connection, A, 1)
    assert one.error(refused) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.come_back()
    assert one.leave_epochs() == []
    assert Kind.EXPIRING not in log.kinds(A)


@pytest.mark.parametrize("on_a_new_connection", [False, True])
def test_a_client_that_commits_before_the_log_is_back_is_removed_only_if_it_falls_silent_again(
    log: SharedLog, on_a_new_connection: bool
) -> None:
    """A commit does not say where its client is, but that it is there."""
    one = log.replica()
    connection = served_member(one)
    log.go_away()
    fall_silent(one, SESSION_S - 0.2)
    if on_a_new_connection:
        one.client_disconnected(connection)
    fall_silent(one, 0.3)
    commit = one.commit(one.connect() if on_a_new_connection else connection, A, 1)
    if on_a_new_connection:
        one.reply(described(member(A, epoch=1)))
    one.reply(commit_answer())
    assert commit_error(one, commit) == ErrorCode.NONE
    log.come_back()
    assert one.leave_epochs() == []
    assert Kind.EXPIRING not in log.kinds(A)
    fall_silent(one, SESSION_S + 0.1)
    is_last(one)
    assert one.leave_epochs() == [-1]


def test_a_client_that_falls_silent_again_after_the_log_was_away_is_removed(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    log.go_away()
    fall_silent(one, SESSION_S)
    one.heartbeat(connection, A, 1)
    log.come_back()
    fall_silent(one)
    is_last(one)
    assert one.leave_epochs() == [-1]


def test_a_heartbeat_that_the_broker_answers_when_the_id_is_dead_is_told_so(log: SharedLog) -> None:
    """The broker was silent for as long as the client's session, and so the client was, too."""
    one = log.replica()
    connection = served_member(one)
    heartbeat = one.heartbeat(connection, A, 1)
    (call,) = one.calls
    log.advance(SESSION_S)
    assert log.kinds(A)[-1] is Kind.EXPIRING
    one.reply(Bench.heartbeat_answer(1), call)
    assert one.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID
    is_last(one)
    assert one.leave_epochs() == [-1]


def test_when_a_silent_client_is_removed_the_members_at_other_replicas_are_heartbeated(
    log: SharedLog,
) -> None:
    """So their clients learn of what they get at their own next Heartbeat, as with one process."""
    one, other = log.replica(), log.replica(new_group=True)
    served_member(one)
    survivor = other.connect()
    other.stable_member(survivor, (2, 3), member_id="epochgate-b")
    for _ in range(int(SESSION_S / 0.1)):
        fall_silent(one, 0.1)
        while other.heartbeats():
            other.beat(1, orders=(2, 3))
        if Kind.EXPIRING in log.kinds(A):
            break
        other.heartbeat(survivor, "epochgate-b", 1)
        while other.heartbeats():
            other.beat(1, orders=(2, 3))
    assert other.heartbeats() == []
    is_last(one)
    left(one)
    log.advance(0.0)
    assert [call.message.member_id for call in other.heartbeats()] == ["epochgate-b"]


def test_a_helper_takes_the_place_of_a_silent_client_while_a_classic_member_at_another_replica_lags_behind(
    log: SharedLog,
) -> None:
    """As its member is the last of the new protocol, the other client would be answered ILLEGAL_GENERATION."""
    one = log.replica()
    served_member(one)
    fall_silent(one)
    (call,) = one.calls
    lags_behind = consumer_group({A: (1, GENERATION, ()), "java": (0, GENERATION - 1, ())})
    one.reply(lags_behind, call)
    (helper,) = one.heartbeats()
    assert (is_helper(helper.message.member_id), helper.message.member_epoch) == (True, 0)
    one.reply(Bench.heartbeat_answer(GENERATION), helper)
    assert one.leave_epochs() == [-1]


# -- dead ids ----------------------------------------------------------------------------------------------------------


def expired_without_end(log: SharedLog) -> tuple[Replica, Replica]:
    """The id of A is dead, and the replica that had it so died before epoch -1 was answered; it, and another."""
    one, other = log.replica(), log.replica()
    connection = served_member(one)
    fall_silent(one)
    one.upstream_lost(connection)
    return one, other


def test_a_heartbeat_under_a_dead_id_is_told_so_after_the_end_was_made_sure(log: SharedLog) -> None:
    _, other = expired_without_end(log)
    heartbeat = other.heartbeat(other.connect(), A, 1)
    assert heartbeat not in other.answers
    assert other.leave_epochs() == [-1]
    left(other, ErrorCode.UNKNOWN_MEMBER_ID)
    assert other.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID
    assert log.kinds(A)[-1] is Kind.ENDED


@pytest.mark.parametrize("version", [3, 9])
def test_a_join_group_under_a_dead_id_is_told_so_in_every_version(log: SharedLog, version: int) -> None:
    _, other = expired_without_end(log)
    join = other.join(other.connect(), A, version=version)
    left(other)
    assert other.error(join) == ErrorCode.UNKNOWN_MEMBER_ID
    again = other.join(other.connect(), A, version=version)
    assert other.error(again) == ErrorCode.UNKNOWN_MEMBER_ID
    assert other.calls == []


def test_a_call_that_comes_while_the_end_is_written_is_told_so(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    fall_silent(one, SESSION_S - 2.5)
    log.is_held = True
    fall_silent(one, 1.0)
    heartbeat = one.heartbeat(connection, A, 1)
    assert heartbeat not in one.answers
    log.is_held = False
    log.settle()
    while one.heartbeats():
        left(one)
    assert one.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_under_a_dead_id_is_refused(log: SharedLog) -> None:
    _, other = expired_without_end(log)
    commit = other.commit(other.connect(), A, 1)
    (topic,) = other.answers[commit].topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_under_a_dead_id_whose_instance_id_a_newer_process_has_is_fenced(log: SharedLog) -> None:
    """The older process would come back without a member id and replace the newer one."""
    _, other = expired_without_end(log)
    commit = other.commit(other.connect(), A, 1, instance_id="i-1")
    other.reply(described(member("epochgate-b", instance_id="i-1")))
    assert commit_error(other, commit) == ErrorCode.FENCED_INSTANCE_ID


# -- LeaveGroup and instance ids ---------------------------------------------------------------------------------------


def leave_answer() -> LeaveGroupResponse:
    return LeaveGroupResponse(members=(MemberResponse(member_id=A),))


def test_an_id_that_a_leave_group_has_ended_is_dead(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    one.leave(connection, A)
    one.reply(described(member(A), member("somebody-else")))
    one.reply(leave_answer())
    assert log.kinds(A)[-1] is Kind.ENDED


def test_a_dead_id_is_kept_without_what_another_replica_would_need_to_go_on(log: SharedLog) -> None:
    one = log.replica(resumes=True)
    connection = served_member(one)
    assert log.records[-1][2].snapshot
    one.leave(connection, A)
    one.reply(described(member(A), member("somebody-else")))
    one.reply(leave_answer())
    assert log.kinds(A)[-1] is Kind.ENDED
    assert log.records[-1][2].snapshot == NO_SNAPSHOT


def test_a_leave_group_that_another_replica_relays_ends_the_membership_where_it_is_served(
    log: SharedLog,
) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    connection = other.connect()
    leave = other.leave(connection, A)
    other.relayed_response(connection, leave, leave_answer())
    assert log.kinds(A)[-1] is Kind.ENDED
    log.advance(30.0)
    assert one.calls == []


def test_the_id_that_a_newer_process_replaces_is_dead_and_the_older_process_is_fenced(log: SharedLog) -> None:
    one, other = log.replica(new_group=True), log.replica()
    old = one.connect()
    one.stable_member(old, (0, 1), instance_id="i-1")
    other._new_group = True
    join = other.join(other.connect(), "", instance_id="i-1")
    other._new_group = False
    other.beat(0, ErrorCode.UNRELEASED_INSTANCE_ID)
    other.reply(described(member(A, epoch=1, instance_id="i-1")))
    left(other)
    assert log.kinds(A) == [Kind.SERVED]
    other.beat(2, orders=(0, 1))
    assert other.error(join) == ErrorCode.NONE
    assert log.kinds(A)[-1] is Kind.ENDED
    late = one.heartbeat(old, A, 1, "i-1")
    one.reply(described(member(other.answers[join].member_id, instance_id="i-1")))
    assert one.error(late) == ErrorCode.FENCED_INSTANCE_ID


def test_a_client_that_has_forgotten_its_id_is_fenced_by_its_own_membership_as_by_kafka(
    log: SharedLog,
) -> None:
    """librdkafka does so after its session timeout. A Heartbeat does not say that no newer process has come."""
    one, other = log.replica(new_group=True), log.replica()
    one.stable_member(one.connect(), (0, 1), instance_id="i-1")
    for replica in (one, other):
        nameless = replica.heartbeat(replica.connect(), "", 1, "i-1")
        replica.reply(described(member(A, epoch=1, instance_id="i-1")))
        assert replica.error(nameless) == ErrorCode.FENCED_INSTANCE_ID
    assert log.kinds("") == []
    assert log.kinds(A) == [Kind.SERVED]


def test_a_client_that_has_forgotten_its_id_joins_anew_when_its_membership_is_gone(log: SharedLog) -> None:
    one = log.replica()
    nameless = one.heartbeat(one.connect(), "", 1, "i-1")
    one.reply(described(member("somebody-else")))
    assert one.error(nameless) == ErrorCode.UNKNOWN_MEMBER_ID
    assert log.kinds("") == []


def test_a_client_that_joins_anew_leaves_its_adopted_membership_to_the_log(log: SharedLog) -> None:
    one, other = log.replica(), log.replica(new_group=True)
    served_member(one)
    other._new_group = False
    connection, _ = taken_over(other)
    other._new_group = True
    member_id = other.answers[other.join(connection, "")].member_id
    log.is_held = True
    other.join(connection, member_id)
    log.advance(0.1)
    assert other.leave_epochs() == []
    log.is_held = False
    log.settle()
    is_last(other)
    assert other.leave_epochs() == [-1]


# -- moves between the protocols ---------------------------------------------------------------------------------------


def rejoins_to_go_back(one: Replica, connection: Connection) -> RequestId:
    """The JoinGroup of the member A after its Heartbeat; the last member's helper joins before it goes."""
    assert one.error(one.heartbeat(connection, A, 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    join = one.join(connection, A)
    one.reply(described(member(A, epoch=1)))  # no helper of another replica is there
    (helper,) = one.heartbeats()
    assert is_helper(helper.message.member_id)
    one.reply(one.heartbeat_answer(1), helper)
    return join


def test_a_client_that_goes_back_is_relayed_when_the_log_has_its_id_as_a_classic_one(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    one._do(one.translator.set_policy(one.now, OBSERVE_ALL))
    log.is_held = True
    join = rejoins_to_go_back(one, connection)
    assert one.calls == []
    log.is_held = False
    log.settle()
    assert log.kinds(A)[-1] is Kind.RELAYED
    (call,) = one.calls
    assert (call.api_key, call.message.member_id) == (ApiKey.JOIN_GROUP, A)
    one.reply(JoinGroupResponse(member_id=A, generation_id=1, leader=A), call)
    assert one.error(join) == ErrorCode.NONE
    assert one.leave_epochs() == []


def test_a_client_that_is_not_taken_back_in_place_leaves_when_its_id_is_dead(log: SharedLog) -> None:
    """The group has no place for the helper."""
    one = log.replica()
    connection = served_member(one)
    one._do(one.translator.set_policy(one.now, OBSERVE_ALL))
    one.join(connection, A)
    one.reply(described(member(A, epoch=1)))  # no helper of another replica is there
    (helper,) = one.heartbeats()
    log.is_held = True
    one.reply(one.heartbeat_answer(0, ErrorCode.GROUP_MAX_SIZE_REACHED), helper)
    one.reply(described(member(A), member("somebody-else")))
    assert one.leave_epochs() == []
    log.is_held = False
    log.settle()
    left(one)
    assert log.kinds(A)[-1] is Kind.ENDED


def test_a_client_does_not_move_back_while_the_log_is_away(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    one._do(one.translator.set_policy(one.now, OBSERVE_ALL))
    log.is_held = True
    join = rejoins_to_go_back(one, connection)
    log.advance(2.1)
    assert one.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ApiKey.JOIN_GROUP not in [call.api_key for call in one.calls]
    assert one.leave_epochs() == []


def test_a_join_group_is_relayed_when_the_log_has_its_id_as_a_classic_one(log: SharedLog) -> None:
    one, other = log.replica(), log.replica(policy=OBSERVE_ALL)
    served_member(one)
    log.is_held = True
    connection = other.connect()
    join = other.join(connection, A)
    assert other.forwarded == []
    log.is_held = False
    log.settle()
    assert other.forwarded == [join]
    assert log.kinds(A)[-1] is Kind.RELAYED
    assert one.log.ownership(KEY) is Ownership.RELAYED
    again = other.join(connection, A)
    assert other.forwarded == [join, again]


def test_a_join_group_under_a_dead_id_is_not_relayed(log: SharedLog) -> None:
    expired_without_end(log)
    other = log.replica(policy=OBSERVE_ALL)
    join = other.join(other.connect(), A)
    assert other.error(join) == ErrorCode.UNKNOWN_MEMBER_ID
    assert other.forwarded == []


def test_a_join_group_under_an_id_that_the_log_does_not_know_is_relayed_at_once(log: SharedLog) -> None:
    one = log.replica(policy=OBSERVE_ALL)
    join = one.join(one.connect(), "app-7b4e1f0c-0000-4000-8000-000000000001")
    assert one.forwarded == [join]
    assert len([record for _, _, record in log.records if record is not None]) == 0


def unread_member(log: SharedLog) -> Replica:
    """A replica that has not read yet that another one serves the member A, and does not translate."""
    one, other = log.replica(new_group=True), log.replica(policy=OBSERVE_ALL)
    log.is_held = True
    one.join(one.connect(), A)
    return other


def test_a_join_group_under_an_id_of_a_replica_whose_record_is_not_read_is_relayed_after_the_log_says_so(
    log: SharedLog,
) -> None:
    """The broker makes the member a classic one: who serves it has to know."""
    other = unread_member(log)
    join = other.join(other.connect(), A)
    assert other.forwarded == []
    other.reply(described(member(A, epoch=1)))
    assert other.forwarded == []
    log.is_held = False
    log.settle()
    assert other.forwarded == [join]
    assert log.kinds(A)[-1] is Kind.RELAYED
    assert log.replicas[0].log.ownership(KEY) is Ownership.RELAYED


@pytest.mark.parametrize("found", [member("somebody-else"), member(A, classic=True)])
def test_a_join_group_under_a_made_up_id_of_a_replica_is_relayed_and_not_written(
    log: SharedLog, found: ConsumerGroupDescribeResponseMember
) -> None:
    """Else whoever may read the group could fill the log."""
    one = log.replica(policy=OBSERVE_ALL)
    join = one.join(one.connect(), A)
    one.reply(described(found))
    assert one.forwarded == [join]
    assert log.kinds(A) == []


def test_a_join_group_under_an_id_of_a_replica_is_not_relayed_while_the_coordinator_loads(
    log: SharedLog,
) -> None:
    one = log.replica(policy=OBSERVE_ALL)
    join = one.join(one.connect(), A)
    one.reply(described(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    assert one.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.forwarded == []


def test_a_join_group_whose_client_hangs_up_while_the_broker_is_asked_for_its_id_is_written_nowhere(
    log: SharedLog,
) -> None:
    one = log.replica(policy=OBSERVE_ALL)
    connection = one.connect()
    one.join(connection, A)
    one.client_disconnected(connection)
    one.reply(described(member(A, epoch=1)))
    assert one.forwarded == []
    assert log.kinds(A) == []


def test_a_heartbeat_of_a_classic_member_is_relayed(log: SharedLog) -> None:
    """A JoinGroup under its id was relayed by a replica that had read another policy."""
    one, other = log.replica(), log.replica(policy=OBSERVE_ALL)
    served_member(one)
    other.join(other.connect(), A)
    connection = one.connect()
    calls = [one.heartbeat(connection, A, 1), one.sync(connection, A, 1)]
    one.reply(described(member("somebody-else")))
    assert sorted(one.forwarded) == calls
    assert log.kinds(A)[-1] is Kind.RELAYED


def test_a_classic_member_with_an_id_of_a_replica_moves_when_the_policy_says_so_again(
    log: SharedLog,
) -> None:
    one, other = log.replica(), log.replica(policy=OBSERVE_ALL)
    served_member(one)
    other.join(other.connect(), A)
    other._do(other.translator.set_policy(log.now, TRANSLATE_ALL))
    heartbeat = other.heartbeat(other.connect(), A, 1)
    other.reply(described(member(A, classic=True)))
    other.reply(HeartbeatResponse())
    assert (
        other.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    )  # its SyncGroup has not passed through here


# -- commits -----------------------------------------------------------------------------------------------------------


def test_a_commit_at_another_replica_goes_out_at_the_described_epoch_and_takes_nothing_over(
    log: SharedLog,
) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    connection = other.connect()
    other.commit(connection, A, 1)
    other.reply(described(member(A, epoch=3)))
    (call,) = other.calls
    assert (call.api_key, call.message.generation_id_or_member_epoch) == (ApiKey.OFFSET_COMMIT, 3)
    assert call.message.topics[0].name == TOPIC
    assert log.kinds(A) == [Kind.SERVED]
    assert one.log.ownership(KEY) is Ownership.SERVING
    other.calls.clear()
    log.advance(8.0)
    assert other.calls == []
    assert EventKind.ADOPTED not in other.kinds()


def test_a_commit_at_another_replica_with_a_generation_to_come_is_refused(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    commit = other.commit(other.connect(), A, 4)
    other.reply(described(member(A, epoch=3)))
    (topic,) = other.answers[commit].topics
    assert topic.partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION


def joined_anew_elsewhere(one: Replica, other: Replica) -> None:
    """The member A comes to another replica, and gets generation 3 there."""
    connection, _ = taken_over(other)
    other.join(connection, A)
    other.reply(described(member(A, epoch=1)))
    other.beat(3, orders=(0,))
    other.sync(connection, A, 3)


def test_a_commit_with_a_generation_of_before_the_member_joined_elsewhere_is_refused(log: SharedLog) -> None:
    """It was held up on its way. Another member may have by now what it names."""
    one, other = log.replica(), log.replica()
    served_member(one)
    joined_anew_elsewhere(one, other)
    assert log.generations(A) == [NO_GENERATION, 1, 3]
    connection = one.connect()
    commits = [one.commit(connection, A, generation) for generation in (1, 3)]
    one.reply(described(member(A, epoch=4)))
    one.reply(described(member(A, epoch=4)))
    assert commit_error(one, commits[0]) == ErrorCode.ILLEGAL_GENERATION
    (call,) = one.calls
    assert (call.api_key, call.message.generation_id_or_member_epoch) == (ApiKey.OFFSET_COMMIT, 4)


def test_a_commit_of_a_client_that_has_not_synced_yet_is_not_refused(log: SharedLog) -> None:
    """It may not have heard of its new generation."""
    one, other = log.replica(), log.replica()
    served_member(one)
    connection, _ = taken_over(other)
    other.join(connection, A)
    other.reply(described(member(A, epoch=1)))
    other.beat(3, orders=(0,))
    one.commit(one.connect(), A, 1)
    one.reply(described(member(A, epoch=3)))
    assert [call.api_key for call in one.calls] == [ApiKey.OFFSET_COMMIT]


def test_a_generation_in_the_log_that_is_above_the_brokers_epoch_refuses_nothing(log: SharedLog) -> None:
    """The group was deleted and made anew since, and its epochs began anew."""
    one, other = log.replica(), log.replica()
    served_member(one)
    joined_anew_elsewhere(one, other)
    one.commit(one.connect(), A, 1)
    one.reply(described(member(A, epoch=2)))
    assert [call.api_key for call in one.calls] == [ApiKey.OFFSET_COMMIT]


def test_who_takes_a_member_over_keeps_its_generation_in_the_log(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    joined_anew_elsewhere(one, other)
    one.heartbeat(one.connect(), A, 3)
    assert one.log.ownership(KEY) is Ownership.SERVING
    assert log.generations(A) == [NO_GENERATION, 1, 3]


def test_a_generation_that_comes_while_a_record_is_on_its_way_is_written_after_it(log: SharedLog) -> None:
    one = log.replica()
    connection = one.connect()
    one._new_group = True
    log.is_held = True
    one.stable_member(connection, (0, 1))
    log.is_held = False
    log.settle()
    assert log.generations(A) == [NO_GENERATION, 1]


def test_a_commit_where_the_member_is_served_goes_out_at_once(log: SharedLog) -> None:
    one = log.replica()
    served_member(one)
    one.commit(one.connect(), A, 1)
    assert [call.api_key for call in one.calls] == [ApiKey.OFFSET_COMMIT]
