"""SyncGroup on another connection than the JoinGroup before it: the broker says who may speak for the group."""

from protocol_codecs import ApiKey, ErrorCode
from translation.actions import Connection, RequestId

from .bench import Bench


def test_on_the_connection_of_the_join_group_nothing_goes_upstream() -> None:
    bench = Bench()
    line = bench.connect()
    bench.stable_member(line, (0, 1), epoch=5)
    bench.settle(5)
    bench.sync(line, "epochgate-a", 5)
    assert bench.calls == []


def synced_on_another_connection(bench: Bench) -> tuple[Connection, RequestId]:
    """The other connection and its SyncGroup, for a member that is stable at epoch 5."""
    line, other = bench.connect(), bench.connect()
    bench.stable_member(line, (0, 1), epoch=5)
    bench.settle(5)
    return other, bench.sync(other, "epochgate-a", 5)


def test_on_another_connection_the_broker_is_asked_first() -> None:
    bench = Bench()
    other, request = synced_on_another_connection(bench)
    assert request not in bench.answers
    asked = bench.heartbeat_call()
    assert (asked.connection_id, asked.api_key) == (other.id, ApiKey.CONSUMER_GROUP_HEARTBEAT)
    bench.beat(5)
    assert bench.answers[request].assignment


def test_who_may_not_read_the_group_gets_no_assignment() -> None:
    bench = Bench()
    _, request = synced_on_another_connection(bench)
    bench.beat(0, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert bench.error(request) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not bench.answers[request].assignment


def test_what_the_question_takes_away_is_not_handed_out() -> None:
    bench = Bench()
    _, request = synced_on_another_connection(bench)
    bench.beat(6, orders=(0,))
    assert bench.error(request) == ErrorCode.REBALANCE_IN_PROGRESS
