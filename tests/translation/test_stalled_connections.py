"""Connections of somebody who may act, and who reads nothing: what they hold up is bounded."""

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from tests.translation.bench import Bench
from tests.translation.victim import INSTANCE, VICTIM, a_victim, heartbeat_succeeds
from translation.actions import Connection, ConnectionId, EventKind


def stalled_behind(bench: Bench, connection: Connection) -> ConnectionId:
    """A procedure of a member waits on another connection, on which answers came until a moment ago."""
    stalled = bench.connect()
    bench.heartbeat(stalled, VICTIM, 1, instance_id=INSTANCE)
    assert [call.connection_id for call in bench.calls] == [stalled.id]
    return stalled.id


def test_a_call_that_goes_unanswered_holds_up_those_on_other_connections_for_a_bounded_time() -> None:
    bench, own = a_victim()
    bench._lets_in = True
    stalled = stalled_behind(bench, own)
    bench.advance(1)  # nobody waits
    heartbeat = bench.heartbeat(own, VICTIM, 1, instance_id=INSTANCE)
    bench.advance(2.9)
    assert bench.closed == []
    bench.advance(0.2)
    assert bench.closed == [stalled]
    (call,) = [call for call in bench.calls if call.connection_id == own.id]
    bench.reply(ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=5000), call)
    assert bench.error(heartbeat) == ErrorCode.NONE


def test_connections_that_stall_never_get_the_turn_of_a_member_that_is_served_elsewhere() -> None:
    bench, own = a_victim()
    bench._lets_in = True
    stalled = [bench.connect() for _ in range(20)]
    for connection in stalled:  # they may act, and read until now
        bench.commit(connection, VICTIM, 7)
    bench._lets_in = False
    for connection in stalled:
        bench.heartbeat(connection, VICTIM, 1, instance_id=INSTANCE)
    assert len(bench.questions()) == 20
    heartbeat_succeeds(bench, own)
    assert bench.closed == []


def test_a_call_that_nobody_waits_for_any_more_closes_no_connection() -> None:
    bench, own = a_victim()
    bench._lets_in = True
    bench.heartbeat(own, VICTIM, 1, instance_id=INSTANCE)
    other = bench.connect()
    bench.heartbeat(other, VICTIM, 1, instance_id=INSTANCE)
    bench.client_disconnected(other)
    bench.advance(9)
    assert bench.closed == []


def test_a_call_that_goes_unanswered_does_not_hold_up_the_end_of_a_session() -> None:
    """Its connection is closed. The coordinator is out of reach then, and the client has a whole session when it
    answers again: on the connection of another client of the group the member is ended."""
    bench, own = a_victim()
    bench.heartbeat(own, VICTIM, 1, instance_id=INSTANCE)
    bench.client_disconnected(own)
    bench.advance(10.1)  # its session timeout is 10 s
    assert bench.closed == []
    bench.advance(5)
    assert bench.closed == [own.id]
    bench._lets_in = True
    other = bench.connect()
    bench.heartbeat(other, "somebody", 1)  # the coordinator answers again
    bench.calls.clear()
    bench.advance(9.9)
    assert EventKind.SESSION_EXPIRED not in bench.kinds()
    bench.advance(0.2)
    assert [call.message.member_epoch for call in bench.calls] == [-1]
    bench.beat(-1)
    assert EventKind.SESSION_EXPIRED in bench.kinds()


def test_a_client_is_kept_alive_on_the_connection_of_its_join_group_when_the_other_stalls() -> None:
    bench = Bench()
    own = bench.connect()
    bench.stable_member(own, (0, 1), member_id=VICTIM, session_timeout_ms=300_000)
    stalled = bench.connect()
    bench.heartbeat(stalled, VICTIM, 1)
    bench.advance(20)
    assert bench.closed == [stalled.id]
    assert any(
        call.connection_id == own.id and call.message.member_epoch == 1
        for call in bench.calls
        if call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT
    )


def test_a_slow_broker_ends_no_connection_while_nobody_else_waits() -> None:
    bench, own = a_victim()
    heartbeat = bench.heartbeat(own, VICTIM, 1, instance_id=INSTANCE)
    bench.advance(8)
    bench.beat(1)
    assert bench.error(heartbeat) == ErrorCode.NONE
    assert bench.closed == []


def test_calls_on_the_same_connection_wait_for_each_other_as_long_as_the_broker_takes() -> None:
    bench, own = a_victim()
    bench.heartbeat(own, VICTIM, 1, instance_id=INSTANCE)
    bench.commit(own, VICTIM, 1, instance_id=INSTANCE)
    bench.advance(8)
    assert bench.closed == []
