"""Heartbeats and rebalances of members that have joined."""

from protocol_codecs import ErrorCode
from tests.translation.answers import A
from tests.translation.bench import TOPIC, Bench, owned
from translation.actions import Connection, EventKind
from translation.settings import TranslatorSettings


def test_a_heartbeat_is_one_heartbeat_with_everything_null() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.heartbeat(connection, A, 1)
    upstream = bench.heartbeat_call().message
    assert upstream.member_epoch == 1
    assert upstream.topic_partitions is None
    assert upstream.subscribed_topic_names is None
    assert upstream.rebalance_timeout_ms == -1
    bench.beat(1)
    assert bench.error(request) == ErrorCode.NONE


def test_a_moved_epoch_without_a_change_of_partitions_is_not_told() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    request = bench.heartbeat(connection, A, 1)
    bench.beat(2, orders=(0, 1))
    assert bench.error(request) == ErrorCode.NONE
    assert EventKind.EPOCH_MOVED in bench.kinds()
    bench.settle(2)
    again = bench.heartbeat(connection, A, 1)  # still with its own generation
    assert bench.heartbeat_call().message.member_epoch == 2
    bench.beat(2)
    assert bench.error(again) == ErrorCode.NONE


def test_an_eager_member_gives_up_a_partition_by_joining_without_it() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1, 2, 3))
    heartbeat = bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0, 1))
    assert bench.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    join = bench.join(connection, A)
    upstream = bench.heartbeat_call().message
    assert (upstream.member_epoch, owned(upstream)) == (1, {})
    bench.beat(2, orders=(0, 1))
    assert bench.answers[join].generation_id == 2
    assert bench.handed(bench.sync(connection, A, 2)) == {TOPIC: (0, 1)}
    stable = bench.heartbeat(connection, A, 2)
    bench.beat(2)
    assert bench.error(stable) == ErrorCode.NONE


def joins_still_holding_all(bench: Bench) -> Connection:
    """A cooperative member has four partitions, is to keep two, and claims all four in its first JoinGroup."""
    connection = bench.connect()
    bench.stable_member(connection, (0, 1, 2, 3), protocol="cooperative-sticky")
    bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0, 1))
    bench.join(connection, A, claims=(0, 1, 2, 3), protocol="cooperative-sticky")
    return connection


def test_a_cooperative_member_joins_twice_and_the_revocation_is_acknowledged_by_the_second() -> None:
    bench = Bench()
    connection = joins_still_holding_all(bench)  # so nothing is acknowledged yet
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1, 2, 3)}
    bench.beat(1, orders=(0, 1))
    assert bench.handed(bench.sync(connection, A, 1)) == {TOPIC: (0, 1)}
    # Clients that do not join again by themselves are told to.
    told = bench.heartbeat(connection, A, 1)
    assert bench.heartbeat_call().message.topic_partitions is None
    bench.beat(1)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.join(connection, A, claims=(0, 1), protocol="cooperative-sticky")
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1)}
    bench.beat(2, orders=(0, 1))
    bench.sync(connection, A, 2)
    stable = bench.heartbeat(connection, A, 2)
    bench.beat(2)
    assert bench.error(stable) == ErrorCode.NONE


def test_a_client_that_never_saw_its_assignment_still_holds_what_it_claimed() -> None:
    """The SyncGroup answer got lost: the second claim is the old one, and acknowledges nothing."""
    bench = Bench()
    connection = joins_still_holding_all(bench)
    bench.beat(1, orders=(0, 1))
    bench.sync(connection, A, 1)
    bench.join(connection, A, claims=(0, 1, 2, 3), protocol="cooperative-sticky")
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1, 2, 3)}


def test_a_claim_is_cut_to_what_the_client_was_handed() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="cooperative-sticky")
    bench.join(connection, A, claims=(0, 1, 2, 3), protocol="cooperative-sticky")
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0, 1)}


def test_a_change_between_join_and_sync_is_in_the_sync_answer() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.join(connection, A)
    bench.beat(1, orders=(0, 1))
    bench.heartbeat(connection, A, 1)
    sync = bench.sync(connection, A, 1)
    assert sync not in bench.answers  # not while one of its heartbeats is under way
    bench.beat(2, orders=(0, 1, 2))
    assert bench.handed(sync) == {TOPIC: (0, 1, 2)}


def test_a_revocation_between_join_and_sync_is_acknowledged_without_another_join() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.join(connection, A)
    bench.beat(1, orders=(0, 1))
    bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0,))
    sync = bench.sync(connection, A, 1)
    assert owned(bench.heartbeat_call().message) == {}  # it never had the other one
    bench.beat(2, orders=(0,))
    assert bench.handed(sync) == {TOPIC: (0,)}


def test_what_the_broker_did_not_take_with_sync_is_acknowledged_with_the_next_heartbeat() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.join(connection, A)
    bench.beat(1, orders=(0, 1))
    bench.heartbeat(connection, A, 1)
    bench.beat(1, orders=(0,))
    sync = bench.sync(connection, A, 1)
    bench.beat(1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert bench.handed(sync) == {TOPIC: (0,)}
    told = bench.heartbeat(connection, A, 1)
    assert owned(bench.heartbeat_call().message) == {TOPIC: (0,)}
    bench.beat(2)
    assert bench.error(told) == ErrorCode.NONE


def test_additions_for_an_eager_member_are_gathered() -> None:
    bench = Bench(settings=TranslatorSettings(addition_debounce_s=0.5))
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=60_000)
    first = bench.heartbeat(connection, A, 1)
    bench.beat(2, orders=(0, 1, 2))
    assert bench.error(first) == ErrorCode.NONE
    bench.advance(0.4)
    while bench.calls:
        bench.beat(2)
    not_yet = bench.heartbeat(connection, A, 1)
    bench.beat(2)
    assert bench.error(not_yet) == ErrorCode.NONE
    bench.advance(0.2)
    while bench.calls:
        bench.beat(2)
    told = bench.heartbeat(connection, A, 1)
    bench.beat(2)
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_the_same_addition_is_gathered_and_told_again_after_it_was_taken_away() -> None:
    """Seen with Kafka: a member joined and left, joined and left, and the rest went to one member each time."""
    bench = Bench()
    connection = bench.connect()
    generation = bench.stable_member(connection, (0, 1), session_timeout_ms=60_000)
    for _ in range(2):
        bench.heartbeat(connection, A, generation)
        bench.beat(generation + 1, orders=(0, 1, 2))
        bench.settle(generation + 1)
        told = bench.heartbeat(connection, A, generation)
        bench.beat(generation + 1)
        assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
        bench.join(connection, A)
        bench.beat(generation + 2, orders=(0, 1))
        generation += 2
        bench.sync(connection, A, generation)
        bench.settle(generation)


def test_additions_for_a_cooperative_member_are_told_at_once() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), protocol="cooperative-sticky")
    told = bench.heartbeat(connection, A, 1)
    bench.beat(2, orders=(0, 1, 2))
    assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS


def test_sync_group_may_be_repeated() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    assert bench.handed(bench.sync(connection, A, 1)) == {TOPIC: (0, 1)}


def test_the_others_are_heartbeated_when_a_member_joins() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1))
    bench.advance(1)
    bench.join(bench.connect(), "epochgate-b")
    bench.beat(1)
    bench.advance(0)
    assert bench.heartbeat_call().message.member_id == A
    bench.beat(1)
    bench.advance(0.25)
    bench.beat(2)  # the joiner's own poll
    bench.advance(0.85)
    assert any(call.message.member_id == A for call in bench.calls)
