"""A Heartbeat or a commit below v9 under ``observe``: its member, unknown here, may be one of the new protocol."""

from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from tests.translation.admission.test_serving import served_member
from tests.translation.answers import A as SERVED
from tests.translation.answers import commit_answer, commit_error, described, member
from tests.translation.bench import GROUP, KAFKA_4_3, NO_CONSUMER_GROUP, Bench
from tests.translation.classic_group import is_converted, live_member, observed, to_translate
from tests.translation.live_groups import OBSERVE_ALL, A, mixed_group
from tests.translation.member_log.bench import SharedLog
from translation.actions import Connection, RequestId

GENERATION, EPOCH = 2, 4


def relayed_first(version: int = 7) -> tuple[Bench, Connection, RequestId]:
    """The commit is on its way to the broker, as it came."""
    bench = observed()
    connection = bench.connect()
    commit = bench.commit(connection, A, GENERATION, version=version)
    (call,) = bench.calls
    assert (call.api_key, call.version) == (ApiKey.OFFSET_COMMIT, version)
    assert call.message == bench._requests[commit].message
    return bench, connection, commit


@pytest.mark.parametrize("version", [2, 7, 8])
def test_that_of_a_member_of_the_new_protocol_is_translated(version: int) -> None:
    """The process was restarted while its clients were to go back. A broker refuses the version."""
    bench, connection, commit = relayed_first(version)
    bench.reply(commit_answer(ErrorCode.UNSUPPORTED_VERSION))
    bench.reply(described(member(A, epoch=EPOCH)))
    (call,) = bench.calls
    assert (call.version, call.message.generation_id_or_member_epoch) == (9, EPOCH)
    bench.reply(commit_answer())
    assert commit_error(bench, commit) == ErrorCode.NONE
    # It is known now, and goes back.
    assert bench.error(bench.heartbeat(connection, A, GENERATION)) == ErrorCode.REBALANCE_IN_PROGRESS


def test_that_of_a_classic_member_is_answered_by_the_broker_and_the_next_ones_are_relayed() -> None:
    bench, connection, commit = relayed_first()
    bench.reply(commit_answer())
    assert commit_error(bench, commit) == ErrorCode.NONE
    again = bench.commit(connection, A, GENERATION, version=7)
    assert (bench.forwarded, bench.calls) == ([again], [])
    bench.advance(61.0)  # it may have been converted by another process since
    bench.commit(connection, A, GENERATION, version=7)
    assert len(bench.calls) == 1


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_refusal_is_the_brokers_own(code: ErrorCode) -> None:
    bench, _, commit = relayed_first()
    bench.reply(commit_answer(code))
    assert commit_error(bench, commit) == code
    assert bench.calls == []


def test_one_that_the_broker_describes_otherwise_meanwhile_is_relayed() -> None:
    bench, _, commit = relayed_first()
    bench.reply(commit_answer(ErrorCode.UNSUPPORTED_VERSION))
    bench.reply(mixed_group(A))
    assert commit in bench.forwarded


def test_those_that_a_broker_takes_from_anybody_are_relayed_as_they_came() -> None:
    bench = observed()
    connection = bench.connect()
    newer = bench.commit(connection, A, GENERATION, version=9)
    nobodys = bench.commit(connection, "", -1, version=7)
    natives = bench.commit(connection, "vvT4/e3hRkqyt1NzTWv0cA", GENERATION, version=7)
    live_member(bench, bench.connect(), generation=GENERATION)
    of_known = bench.commit(connection, A, GENERATION, version=7)
    assert [newer, nobodys, natives, of_known] == [
        one for one in bench.forwarded if one in (newer, nobodys, natives, of_known)
    ]


def test_a_broker_without_the_new_protocol_gets_them_as_they_came() -> None:
    bench = observed()
    bench.versions = {key: KAFKA_4_3[key] for key in KAFKA_4_3 if key != ApiKey.CONSUMER_GROUP_HEARTBEAT}
    assert bench.commit(bench.connect(), A, GENERATION, version=7) in bench.forwarded


def test_a_replica_asks_the_broker_for_the_epoch_of_a_member_that_another_one_serves() -> None:
    log = SharedLog()
    one, other = log.replica(), log.replica()
    served_member(one)
    for replica in (one, other):
        replica._do(replica.translator.set_policy(replica.now, OBSERVE_ALL))
    commit = other.commit(other.connect(), SERVED, 1, version=7)
    other.reply(commit_answer(ErrorCode.UNSUPPORTED_VERSION))
    other.reply(described(member(SERVED, epoch=1)))
    other.reply(commit_answer())
    assert commit_error(other, commit) == ErrorCode.NONE
    assert not other.heartbeats()


def test_a_commit_for_a_group_that_is_none_any_more_is_relayed() -> None:
    bench, _, commit = relayed_first()
    bench.reply(commit_answer(ErrorCode.UNSUPPORTED_VERSION))
    bench.reply(NO_CONSUMER_GROUP)
    assert commit in bench.forwarded


# -- Heartbeats --------------------------------------------------------------------------------------------------------


def heartbeat_relayed_first(bench: Bench) -> tuple[Connection, RequestId]:
    """The Heartbeat of a member that is unknown here is on its way to the broker, as it came."""
    connection = bench.connect()
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    (call,) = bench.calls
    assert call.message == bench._requests[heartbeat].message
    return connection, heartbeat


def test_a_member_of_the_new_protocol_is_asked_to_rejoin_at_its_heartbeat() -> None:
    """The process was restarted while its clients were to go back: the broker's UNKNOWN_MEMBER_ID would cost the
    client everything."""
    bench = observed()
    _, heartbeat = heartbeat_relayed_first(bench)
    bench.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    bench.reply(described(member(A, epoch=EPOCH)))
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.calls == []
    assert is_converted(bench)


def test_the_heartbeat_of_a_classic_member_is_answered_by_the_broker_and_the_next_ones_pass_through() -> None:
    bench = observed()
    connection, heartbeat = heartbeat_relayed_first(bench)
    assert not bench.translator.passes_through(bench.now, GROUP, A)
    bench.reply(HeartbeatResponse())
    assert bench.error(heartbeat) == ErrorCode.NONE
    assert bench.translator.passes_through(bench.now, GROUP, A)
    assert bench.heartbeat(connection, A, GENERATION) in bench.forwarded
    bench.advance(61.0)
    assert not bench.translator.passes_through(bench.now, GROUP, A)


def test_the_heartbeat_of_a_member_that_nobody_has_is_answered_unknown_member_id() -> None:
    bench = observed()
    _, heartbeat = heartbeat_relayed_first(bench)
    bench.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    bench.reply(described(member(SERVED, epoch=EPOCH)))
    assert bench.error(heartbeat) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "description", [mixed_group(A), NO_CONSUMER_GROUP], ids=["classic member", "classic group"]
)
def test_a_member_that_has_become_classic_meanwhile_is_not_converted(description: Any) -> None:
    """Its policy says observe: the broker answers the Heartbeat, and no question of a conversion is asked."""
    bench = observed()
    _, heartbeat = heartbeat_relayed_first(bench)
    bench.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    bench.reply(description)
    assert heartbeat in bench.forwarded
    assert bench.calls == []


def test_a_heartbeat_that_the_broker_forbids_withdraws_what_the_connection_was_allowed() -> None:
    bench = observed()
    connection, heartbeat = heartbeat_relayed_first(bench)
    bench.reply(HeartbeatResponse())
    assert bench.translator.is_authorized(connection.id, GROUP)
    bench.advance(61.0)
    heartbeat = bench.heartbeat(connection, A, GENERATION)
    bench.reply(HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert bench.error(heartbeat) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not bench.translator.is_authorized(connection.id, GROUP)


def test_a_replica_claims_a_member_of_another_one_before_it_is_asked_to_rejoin() -> None:
    log = SharedLog()
    one, other = log.replica(), log.replica()
    served_member(one)
    for replica in (one, other):
        replica._do(replica.translator.set_policy(replica.now, OBSERVE_ALL))
    log.is_held = True
    heartbeat = other.heartbeat(other.connect(), SERVED, 1)
    other.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert other.calls == []  # until its claim is read back
    log.is_held = False
    log.settle()
    other.reply(described(member(SERVED, epoch=1)))
    assert other.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_that_the_broker_has_vouched_for_is_moved_as_soon_as_the_policy_says_so() -> None:
    """Not only when its calls have been relayed for a minute."""
    bench = observed()
    connection, _ = heartbeat_relayed_first(bench)
    bench.reply(HeartbeatResponse())
    to_translate(bench)
    bench.heartbeat(connection, A, GENERATION)
    (call,) = bench.calls
    assert call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE
