"""The ways out: leaving, silence and deadlines; and what is kept of a member until then."""

import gc

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.leave_group import LeaveGroupResponse, MemberResponse
from tests.translation.answers import A
from tests.translation.bench import GROUP, TOPIC, Bench, owned
from translation.actions import EventKind
from translation.engine.member import Member
from translation.settings import TranslatorSettings


def test_leave_group_is_the_brokers_and_ends_the_member() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.leave(connection, A)
    (call,) = bench.calls
    assert call.api_key == ApiKey.LEAVE_GROUP
    bench.reply(LeaveGroupResponse(members=(MemberResponse(member_id=A),)))
    assert bench.answers[request].members[0].error_code == ErrorCode.NONE
    assert bench.kinds()[-1] is EventKind.LEFT
    bench.client_gone(connection)
    assert bench.released == [connection.id]


def test_a_silent_client_is_removed_when_its_session_ends_and_its_partitions_are_nudged() -> None:
    bench = Bench()
    silent, other = bench.connect(), bench.connect()
    bench.stable_member(silent, (0, 1), session_timeout_ms=10_000)
    bench.client_gone(silent)
    assert bench.released == []  # heartbeats for it still travel there
    bench.advance(6)
    bench.beat(1)  # the broker's session is kept
    bench.advance(4)
    assert bench.heartbeat_call().message.member_epoch == -1
    bench.beat(-1)
    assert EventKind.SESSION_EXPIRED in bench.kinds()
    assert bench.released == [silent.id]
    del other


def test_a_member_that_is_gone_needs_no_garbage_collector() -> None:
    """Full collections are seldom (``proxy.server.process``); what waits for one grows with the clients that come and
    go."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=10_000)
    gc.collect()
    gc.disable()
    try:
        before = members_alive()
        bench.advance(6)
        bench.beat(1)
        bench.client_gone(connection)
        bench.advance(4)
        bench.beat(-1)
        assert members_alive() == before - 1
    finally:
        gc.enable()


def members_alive() -> int:
    return sum(isinstance(one, Member) for one in gc.get_objects())


def test_a_process_that_is_not_alone_leaves_a_silent_client_to_the_brokers_session_timeout() -> None:
    bench = Bench(settings=TranslatorSettings(sole_process=False))
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=6_000)
    bench.client_gone(connection)
    bench.advance(7)
    assert bench.calls == []
    assert bench.released == [connection.id]


def test_a_client_that_does_not_rejoin_within_its_rebalance_timeout_is_removed() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), rebalance_timeout_ms=20_000)
    bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0,))
    for _ in range(6):
        bench.advance(3)
        bench.heartbeat(connection, A, 1)
        bench.beat(1)
    bench.advance(2)
    assert bench.heartbeat_call().message.member_epoch == -1
    late = bench.join(connection, A)
    bench.beat(-1)
    assert EventKind.REBALANCE_EXPIRED in bench.kinds()
    assert late not in bench.answers  # it joins as a new member, behind the -1
    bench.answer_lookups()
    assert bench.calls[0].api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT
    assert bench.calls[0].message.member_epoch == 0


def test_a_client_that_lives_but_never_asks_for_its_assignment_is_asked_to_join_again() -> None:
    """It goes on from before a JoinGroup that a newer one had overtaken, and never sees that one's answer."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), rebalance_timeout_ms=20_000)
    join = bench.join(connection, A, claims=(0, 1), rebalance_timeout_ms=20_000)
    bench.beat(1, orders=(0, 1))
    assert join in bench.answers
    for _ in range(6):
        bench.advance(3)
        bench.heartbeat(connection, A, 1)
        bench.beat(1)
    bench.advance(3)
    told = bench.heartbeat(connection, A, 1)
    bench.beat(1)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    assert EventKind.REBALANCE_EXPIRED not in bench.kinds()


def test_a_client_that_heartbeats_slowly_is_kept_alive_at_the_brokers_pace() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=300_000)
    for _ in range(5):
        bench.advance(5)
        bench.beat(1)
    assert bench.calls == []


def test_after_a_lost_answer_the_next_heartbeat_is_a_full_one_with_all_that_the_client_may_hold() -> None:
    bench = Bench()
    old, new = bench.connect(), bench.connect()
    bench.stable_member(old, (0, 1))
    bench.heartbeat(old, A, 1)
    bench.upstream_lost(old)
    request = bench.heartbeat(new, A, 1)
    upstream = bench.heartbeat_call().message
    assert upstream.member_epoch == 1
    assert upstream.subscribed_topic_names == (TOPIC,)
    assert owned(upstream) == {TOPIC: (0, 1)}
    bench.beat(2, orders=(0, 1))
    assert bench.error(request) == ErrorCode.NONE
    bench.heartbeat(new, A, 1)
    assert bench.heartbeat_call().message.topic_partitions is None


def test_join_on_one_connection_and_heartbeat_on_another() -> None:
    bench = Bench()
    joins, heartbeats = bench.connect(), bench.connect()
    bench.stable_member(joins, (0, 1))
    bench.heartbeat(heartbeats, A, 1)
    assert bench.heartbeat_call().connection_id == heartbeats.id
    bench.beat(1)
    bench.client_gone(joins)
    assert bench.released == [joins.id]


def test_nothing_is_remembered_of_a_group_that_everybody_left() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.leave(connection, A)
    bench.reply(LeaveGroupResponse(members=(MemberResponse(member_id=A),)))
    assert GROUP not in bench.translator._context.registry.groups
