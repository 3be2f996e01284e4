"""SyncGroup: nothing goes upstream for it, whichever connection it comes on, but who may act in the group is asked."""

from protocol_codecs import ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from tests.translation.bench import Bench
from translation.actions import Connection, RequestId


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
    bench._lets_in = False
    return other, bench.sync(other, "epochgate-a", 5)


def test_on_another_connection_the_broker_is_asked_first() -> None:
    bench = Bench()
    other, request = synced_on_another_connection(bench)
    assert request not in bench.answers
    (question,) = bench.questions()
    assert question.connection_id == other.id
    bench.reply(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert bench.answers[request].assignment
    assert bench.calls == []


def test_who_may_not_read_the_group_gets_no_assignment() -> None:
    bench = Bench()
    _, request = synced_on_another_connection(bench)
    bench.reply(HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert request not in bench.answers
    assert bench.forwarded == [request]  # the broker itself refuses it
