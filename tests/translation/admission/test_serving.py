"""Which replica serves a call: the member log is asked before the call of a new connection counts."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from protocol_codecs.messages.join_group import JoinGroupResponse
from tests.translation.answers import A, described, member
from tests.translation.bench import GROUP, TOPIC, owned
from tests.translation.live_groups import OBSERVE_ALL
from tests.translation.member_log.bench import Replica, SharedLog
from translation.actions import Connection, EventKind, Request, RequestId
from translation.admission.serving import MemberServing
from translation.conversion.classic_join import ClassicJoins
from translation.member_log.outputs import Decision
from translation.member_log.ownership import Ownership
from translation.member_log.records import Kind, MemberRecord, Writer, member_key
from translation.member_log.settings import FleetSettings
from translation.members.procedure import ProcedureQueue
from translation.settings import TranslatorSettings

KEY = member_key(GROUP, A)


@pytest.fixture
def log() -> SharedLog:
    return SharedLog()


def served_member(replica: Replica) -> Connection:
    """The member A with partitions 0 and 1, which has begun at this replica; its connection."""
    connection = replica.connect()
    replica._new_group = True
    replica.stable_member(connection, (0, 1), protocol="cooperative-sticky")
    replica._new_group = False
    return connection


def taken_over(replica: Replica, *, epoch: int = 1) -> tuple[Connection, RequestId]:
    """The member A comes to this replica with a Heartbeat, and is adopted; its connection, and the Heartbeat."""
    connection = replica.connect()
    heartbeat = replica.heartbeat(connection, A, epoch)
    replica.reply(described(member(A, epoch=epoch)))
    replica.beat(epoch)
    assert replica.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    return connection, heartbeat


# -- who serves a member -----------------------------------------------------------------------------------------------


def test_a_join_group_under_an_id_of_ones_own_does_not_wait_for_the_log(log: SharedLog) -> None:
    one = log.replica(new_group=True)
    log.is_held = True
    connection = one.connect()
    first = one.join(connection, "")
    member_id = one.answers[first].member_id
    assert one.error(first) == ErrorCode.MEMBER_ID_REQUIRED
    join = one.join(connection, member_id, session_timeout_ms=12_000)
    one.beat(1, orders=(0, 1))
    assert one.error(join) == ErrorCode.NONE
    log.is_held = False
    log.settle()
    assert log.kinds(member_id) == [Kind.SERVED]
    assert log.records[-1][2].session_timeout_ms == 12_000  # type: ignore[union-attr]


def test_calls_on_the_connection_of_the_join_group_ask_nobody(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    log.is_held = True
    heartbeat = one.heartbeat(connection, A, 1)
    one.beat(1, orders=(0, 1))
    assert one.error(heartbeat) == ErrorCode.NONE
    assert log.kinds(A) == [Kind.SERVED]


def test_a_heartbeat_on_a_new_connection_waits_until_its_claim_is_read_back(log: SharedLog) -> None:
    one = log.replica()
    served_member(one)
    log.is_held = True
    connection = one.connect()
    heartbeat = one.heartbeat(connection, A, 1)
    assert one.calls == []
    log.is_held = False
    log.settle()
    one.beat(1, orders=(0, 1))
    assert one.error(heartbeat) == ErrorCode.NONE
    assert log.kinds(A) == [Kind.SERVED, Kind.SERVED]


def test_a_client_that_comes_to_another_replica_is_served_there_and_dropped_without_a_word(
    log: SharedLog,
) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    taken_over(other)
    assert (one.log.ownership(KEY), other.log.ownership(KEY)) == (Ownership.ELSEWHERE, Ownership.SERVING)
    assert one.reasons(EventKind.STATE_CHANGED)[-1] == "taken over by another replica"
    assert EventKind.FENCED not in one.kinds()
    log.advance(60.0)
    assert one.calls == []


def test_a_join_group_at_another_replica_goes_on_when_its_claim_counts(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    log.is_held = True
    join = other.join(other.connect(), A, claims=(0, 1), protocol="cooperative-sticky")
    assert other.calls == []
    log.is_held = False
    log.settle()
    other.reply(described(member(A, epoch=1)))
    other.reply_names()
    assert owned(other.heartbeat_call().message) == {TOPIC: (0, 1)}
    other.beat(1, orders=(0, 1))
    assert other.error(join) == ErrorCode.NONE


def test_of_two_replicas_that_claim_at_once_one_serves(log: SharedLog) -> None:
    """The client is at the second, to which the first one's late call counts for nothing when it has been answered."""
    one, other, third = log.replica(), log.replica(), log.replica()
    served_member(one)
    log.is_held = True
    stale = other.connect()
    late = other.heartbeat(stale, A, 1)
    third.heartbeat(third.connect(), A, 1)
    other.client_disconnected(stale)
    log.is_held = False
    log.settle()
    assert late not in other.answers
    assert third.log.ownership(KEY) is Ownership.SERVING
    assert other.log.ownership(KEY) is Ownership.ELSEWHERE
    assert [call.api_key for call in third.calls] == [ApiKey.CONSUMER_GROUP_DESCRIBE]
    assert other.calls == []


# -- confirmed connections ---------------------------------------------------------------------------------------------


def test_a_connection_on_which_the_client_was_silent_for_half_of_its_session_is_confirmed_anew(
    log: SharedLog,
) -> None:
    one = log.replica()
    connection = served_member(one)
    log.is_held = True
    log.advance(5.1)
    one.calls.clear()
    heartbeat = one.heartbeat(connection, A, 1)
    assert heartbeat not in one.answers
    assert one.calls == []


def test_a_heartbeat_that_the_short_way_answers_keeps_its_connection_confirmed(log: SharedLog) -> None:
    one = log.replica()
    connection = served_member(one)
    for _ in range(4):
        log.advance(2.5)
        while one.heartbeats():
            one.beat(1, orders=(0, 1))
        heartbeat = one.heartbeat(connection, A, 1)
        one.beat(1, orders=(0, 1))
        assert one.error(heartbeat) == ErrorCode.NONE
    assert log.kinds(A) == [Kind.SERVED]


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_connection_whose_broker_coordinates_no_more_confirms_nothing(
    log: SharedLog, code: ErrorCode
) -> None:
    """The client goes to another broker, which may be another replica's, and comes back on this connection."""
    one = log.replica()
    connection = served_member(one)
    told = one.heartbeat(connection, A, 1)
    one.beat(0, code)
    assert one.error(told) == code
    log.is_held = True
    one.heartbeat(connection, A, 1)
    assert one.calls == []


def test_a_join_group_that_waited_for_partitions_keeps_its_connection_confirmed(log: SharedLog) -> None:
    one = log.replica(new_group=True)
    connection = one.connect()
    join = one.join(connection, A, session_timeout_ms=6_000)
    for _ in range(200):
        while one.heartbeats():
            one.beat(1)
        if any(call.api_key == ApiKey.METADATA for call in one.calls):
            one.reply_names()
        if join in one.answers:
            break
        log.advance(0.1)
    assert one.error(join) == ErrorCode.NONE
    log.is_held = True
    assert one.handed(one.sync(connection, A, 1)) == {}


# -- when the log can't say ------------------------------------------------------------------------------------------


def test_a_call_on_a_new_connection_waits_no_longer_than_a_record_may_take(log: SharedLog) -> None:
    one = log.replica()
    served_member(one)
    log.is_held = True
    heartbeat = one.heartbeat(one.connect(), A, 1)
    log.advance(1.9)
    assert heartbeat not in one.answers
    log.advance(0.2)
    assert one.error(heartbeat) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_while_the_log_is_away_who_is_confirmed_is_served_and_nobody_else(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    connection = served_member(one)
    log.is_held = True
    for _ in range(14):
        log.advance(2.5)
        while one.heartbeats():
            one.beat(1, orders=(0, 1))
        told = one.heartbeat(connection, A, 1)
        one.beat(1, orders=(0, 1))
        assert one.error(told) == ErrorCode.NONE
    for replica in (one, other):  # where it is served too: its client may have been elsewhere in between
        refused = replica.heartbeat(replica.connect(), A, 1)
        assert replica.error(refused) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert replica.calls == []


def while_the_log_is_away(
    other: Replica, log: SharedLog, description: ConsumerGroupDescribeResponse
) -> list[int | None]:
    """What a client's Heartbeats get, one a second, at a replica that does not serve it; what the broker describes."""
    log.go_away()
    connection = other.connect()
    codes = []
    for _ in range(50):
        call = other.heartbeat(connection, A, 1)
        if other.calls:
            other.reply(description)
        codes.append(other.error(call))
        log.advance(1.0)
    return codes


def test_a_client_that_nobody_can_serve_for_the_brokers_session_joins_anew(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    codes = while_the_log_is_away(other, log, described())
    gives_up_after = int(TranslatorSettings().broker_session_s)
    assert set(codes[:gives_up_after]) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert codes[gives_up_after] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_that_the_broker_still_has_as_a_member_goes_on_while_the_log_is_away(log: SharedLog) -> None:
    """Its coordinator was away as well, and gave each member a whole session when it came back."""
    one, other = log.replica(), log.replica()
    served_member(one)
    codes = while_the_log_is_away(other, log, described(member(A, epoch=1)))
    assert set(codes) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE]
)
def test_a_client_is_not_sent_away_by_a_coordinator_that_does_not_say(
    log: SharedLog, code: ErrorCode
) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    codes = while_the_log_is_away(other, log, described(error=code))
    assert set(codes) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_a_client_whose_claims_lose_each_time_joins_anew_after_the_brokers_session(log: SharedLog) -> None:
    """As where somebody forges a record that wins against every claim: what the log settles then is no verdict."""
    one = log.replica()
    served_member(one)
    forged = MemberRecord(Kind.SERVED, version=2**62)
    log.records.append((KEY, Writer(b"somebody"), forged))
    one.read()
    connection = one.connect()
    codes = []
    for _ in range(50):
        codes.append(one.error(one.heartbeat(connection, A, 1)))
        log.advance(1.0)
    gives_up_after = int(TranslatorSettings().broker_session_s)
    assert set(codes[:gives_up_after]) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert codes[gives_up_after] == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_joins_anew_while_the_log_is_away_and_is_written_when_it_is_back(log: SharedLog) -> None:
    one = log.replica(new_group=True)
    log.go_away()
    connection = one.connect()
    member_id = one.answers[one.join(connection, "")].member_id
    join = one.join(connection, member_id)
    one.beat(1, orders=(0, 1))
    assert one.error(join) == ErrorCode.NONE
    assert log.kinds(member_id) == []
    log.come_back()
    assert log.kinds(member_id) == [Kind.SERVED]


# -- ids that no record names ------------------------------------------------------------------------------------------


def test_a_made_up_id_is_looked_up_and_never_written(log: SharedLog) -> None:
    one = log.replica()
    heartbeat = one.heartbeat(one.connect(), "epochgate-made-up", 1)
    one.reply(described(member("somebody-else")))
    assert one.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID
    assert log.kinds("epochgate-made-up") == []


def test_a_member_that_only_the_broker_knows_is_claimed_after_it_has_described_it(log: SharedLog) -> None:
    """Its record is older than anybody remembers, or it is of a time before there was a log."""
    one = log.replica()
    one.heartbeat(one.connect(), A, 1)
    assert log.kinds(A) == []
    one.reply(described(member(A, epoch=1)))
    assert log.kinds(A) == [Kind.SERVED]


def test_a_principal_without_rights_writes_nothing(log: SharedLog) -> None:
    one = log.replica()
    served_member(one)
    one._lets_in = False
    one.heartbeat(one.connect(), A, 1)
    assert log.kinds(A) == [Kind.SERVED]


def test_no_membership_begins_under_an_id_that_another_process_has_given_out(log: SharedLog) -> None:
    """Its epoch 0 may be on its way still, and would be an owned list of nothing."""
    one, other = log.replica(new_group=True), log.replica()
    connection = one.connect()
    member_id = one.answers[one.join(connection, "")].member_id
    one.join(connection, member_id)  # its epoch 0 is under way
    join = other.join(other.connect(), member_id)
    other.reply(described(member("somebody-else")))
    assert other.error(join) == ErrorCode.UNKNOWN_MEMBER_ID
    assert other.heartbeats() == []


def test_a_join_group_whose_id_is_used_elsewhere_while_the_broker_is_asked_is_to_be_tried_again(
    log: SharedLog,
) -> None:
    """The broker had no such member when it was asked. The client takes over here what has begun there since."""
    one, other = log.replica(new_group=True), log.replica()
    connection = one.connect()
    member_id = one.answers[one.join(connection, "")].member_id
    join = other.join(other.connect(), member_id)
    other.reply(described(member("somebody-else")))
    one.join(connection, member_id)
    other.reply(described(member("somebody-else")))
    assert other.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert other.heartbeats() == []


def test_a_membership_that_was_served_elsewhere_is_not_renewed_under_its_id(log: SharedLog) -> None:
    """It began here, and was taken over once: the epoch 0 of then may be on its way still."""
    one, other = log.replica(), log.replica()
    served_member(one)
    taken_over(other)
    join = one.join(one.connect(), A)
    one.reply(described(member("somebody-else")), one.calls[0])
    assert one.error(join) == ErrorCode.UNKNOWN_MEMBER_ID
    assert one.heartbeats() == []


# -- what a replica does that has lost a member ------------------------------------------------------------------------


def test_a_join_group_that_waits_when_another_replica_takes_the_member_is_to_be_tried_again(
    log: SharedLog,
) -> None:
    one, other = log.replica(new_group=True), log.replica()
    join = one.join(one.connect(), A)
    one.beat(1)
    assert join not in one.answers
    taken_over(other)
    assert one.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_heartbeat_under_way_when_another_replica_takes_the_member_is_to_be_tried_again(
    log: SharedLog,
) -> None:
    one, other = log.replica(), log.replica()
    connection = served_member(one)
    heartbeat = one.heartbeat(connection, A, 1)
    taken_over(other)
    one.beat(1, orders=(0, 1))
    assert one.error(heartbeat) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_no_owned_list_goes_out_for_a_member_that_another_replica_has_taken(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    connection = served_member(one)
    join = one.join(connection, A, claims=(0,), protocol="cooperative-sticky")
    taken_over(other)
    one.reply(described(member(A, epoch=1)))
    assert one.heartbeats() == []
    assert one.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_join_group_whose_first_heartbeat_is_answered_after_the_member_was_taken_is_to_be_tried_again(
    log: SharedLog,
) -> None:
    one, other = log.replica(new_group=True), log.replica()
    join = one.join(one.connect(), A)
    taken_over(other)
    one.beat(1, orders=(0, 1))
    assert one.error(join) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.advance(30.0)
    assert one.calls == []


def test_a_member_that_was_taken_while_the_broker_described_it_is_not_adopted(log: SharedLog) -> None:
    one, other, third = log.replica(), log.replica(), log.replica()
    served_member(one)
    heartbeat = other.heartbeat(other.connect(), A, 1)
    taken_over(third)
    other.reply(described(member(A, epoch=1)))
    assert other.error(heartbeat) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert EventKind.ADOPTED not in other.kinds()


def test_an_adopted_member_has_the_timeouts_of_its_join_group_elsewhere(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    taken_over(other)
    log.advance(9.5)
    assert Kind.EXPIRING not in log.kinds(A)
    log.advance(1.0)
    assert log.kinds(A)[-1] is Kind.EXPIRING


# -- a broker that does not know the member any more -------------------------------------------------------------------


def test_an_id_that_the_broker_does_not_know_any_more_is_dead(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    heartbeat = other.heartbeat(other.connect(), A, 1)
    other.reply(described(member("somebody-else")))
    assert other.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID
    assert log.kinds(A)[-1] is Kind.ENDED


def test_an_id_under_which_a_membership_has_begun_since_is_not_ended_when_the_log_is_back(
    log: SharedLog,
) -> None:
    """While its JoinGroup is under way the broker has no such member yet: somebody's Heartbeat meets that."""
    one = log.replica()
    connection = one.connect()
    member_id = one.answers[one.join(connection, "")].member_id
    heartbeat = one.heartbeat(one.connect(), member_id, 1)
    (asked,) = one.calls
    log.go_away()
    join = one.join(connection, member_id)
    one.reply(described(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), one.calls[-1])
    one.reply(described(member("somebody-else")), asked)
    assert one.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID
    log.advance(1.0)
    one.reply(described(member("somebody-else")))
    one.beat(1, orders=(0, 1))
    assert one.error(join) == ErrorCode.NONE
    log.come_back()
    assert log.kinds(member_id) == [Kind.SERVED]


def test_a_membership_that_is_forgotten_here_is_not_renewed_in_the_log(log: SharedLog) -> None:
    one = log.replica(expires=False)
    connection = served_member(one)
    one.client_disconnected(connection)
    log.advance(12.0)
    assert EventKind.SESSION_EXPIRED in one.kinds()
    before = len(log.kinds(A))
    log.advance(7 * 3600.0)
    assert len(log.kinds(A)) == before


# -- what is counted ---------------------------------------------------------------------------------------------------


def test_a_call_that_the_log_settles_is_counted_once_and_one_that_asks_nobody_is_not(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    connection = served_member(one)
    assert not one.log.decisions
    taken_over(other)
    assert other.log.decisions == {Decision.SERVED: 1}
    one.heartbeat(connection, A, 1)
    assert one.log.decisions == {Decision.SERVED: 1}
    other.log.end(KEY, other.now)
    log.settle()
    dead = one.heartbeat(one.connect(), A, 1)
    assert one.error(dead) == ErrorCode.UNKNOWN_MEMBER_ID
    assert one.log.decisions == {Decision.SERVED: 1, Decision.DEAD: 1}


def test_a_call_that_waits_in_vain_is_counted_as_unresolved(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    log.is_held = True
    one.heartbeat(one.connect(), A, 1)
    assert not one.log.decisions
    log.advance(2.5)
    other.heartbeat(other.connect(), A, 1)
    assert one.log.decisions == {Decision.UNRESOLVED: 1}
    log.advance(2.5)
    assert other.log.decisions == {Decision.UNRESOLVED: 1}


def test_a_call_whose_member_another_replica_takes_each_time_is_counted_as_taken(log: SharedLog) -> None:
    one, other, third = log.replica(), log.replica(), log.replica()
    third.log._members.settings = FleetSettings(partitions=1, tries=1)
    served_member(one)
    log.is_held = True
    other.heartbeat(other.connect(), A, 1)
    refused = third.heartbeat(third.connect(), A, 1)
    log.is_held = False
    log.settle()
    assert third.error(refused) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert third.log.decisions == {Decision.TAKEN: 1}
    assert other.log.decisions == {Decision.SERVED: 1}


def test_a_call_of_a_member_that_the_broker_serves_is_counted_as_relayed(log: SharedLog) -> None:
    one, other = log.replica(), log.replica()
    served_member(one)
    other.log.relay(KEY, other.now)
    log.settle()
    connection = one.connect()
    one.sync(connection, A, 1)
    assert one.log.decisions == {Decision.RELAYED: 1}


def test_a_join_group_under_an_id_that_is_dead_in_the_log_is_relayed_once_as_that_of_a_new_client(
    log: SharedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def relay(_serving: MemberServing, request: Request) -> None:
        context = observing.translator._context
        steps = ClassicJoins(context).relay_as_member_or_new(request)
        context.scheduler.start(steps, ProcedureQueue(), request.connection.id, request.client_id)

    monkeypatch.setattr(MemberServing, "relay_join", relay)
    one = log.replica()
    served_member(one)
    one.log.end(KEY, one.now)
    log.settle()
    observing = log.replica(policy=OBSERVE_ALL)
    join = observing.join(observing.connect(), A)
    (call,) = observing.calls
    assert (call.api_key, call.message.member_id) == (ApiKey.JOIN_GROUP, "")
    assert join not in observing.answers
    observing.reply(JoinGroupResponse(member_id="another", generation_id=5))
    assert observing.answers[join].member_id == "another"
