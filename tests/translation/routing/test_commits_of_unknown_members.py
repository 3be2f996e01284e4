"""A commit below v9 under ``observe``: its member, unknown to this process, may be one of the new protocol."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from tests.translation.answers import A as SERVED
from tests.translation.answers import commit_answer, commit_error, described, member
from tests.translation.bench import KAFKA_4_3, NO_CONSUMER_GROUP, Bench
from tests.translation.classic_group import live_member, observed
from tests.translation.fleet.bench import SharedLog
from tests.translation.fleet.test_serving import served_member
from tests.translation.live_groups import OBSERVE_ALL, A, mixed_group
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
    """The process was started anew while its clients were to go back. A broker refuses the version."""
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
