"""Two JoinGroups of one member under way at once. Simulation found each of these races."""

from protocol_codecs import ErrorCode
from tests.translation.answers import A
from tests.translation.bench import Bench


def test_a_join_group_that_was_overtaken_on_its_way_changes_nothing() -> None:
    bench = Bench()
    older, newer = bench.connect(), bench.connect()
    bench.stable_member(newer, (0, 1))
    late = bench.join(older, A)
    assert bench.error(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.calls == []


def test_a_join_group_on_an_older_connection_counts_when_the_newer_one_is_closed() -> None:
    bench = Bench()
    older, newer = bench.connect(), bench.connect()
    bench.stable_member(newer, (0, 1))
    bench.client_disconnected(newer)
    join = bench.join(older, A)
    bench.beat(1, orders=(0, 1))
    assert bench.error(join) == ErrorCode.NONE


def test_an_older_join_group_that_nobody_waits_for_changes_nothing_when_the_newer_connection_is_closed_too() -> (
    None
):
    bench = Bench()
    older, newer = bench.connect(), bench.connect()
    bench.stable_member(newer, (0, 1))
    bench.client_disconnected(newer)
    bench.hung_up.add(older.id)
    bench.join(older, A)
    assert bench.calls == []


def test_a_join_group_that_came_in_the_middle_of_a_waiting_heartbeat_takes_over() -> None:
    bench = Bench()
    older, newer = bench.connect(), bench.connect()
    first = bench.join(older, A)
    bench.beat(1)
    bench.advance(0.25)
    second = bench.join(newer, A)  # the first one's heartbeat is under way
    bench.beat(1)
    bench.beat(1, orders=(0,))
    assert bench.answers[first] == bench.answers[second]
    assert bench.answers[second].generation_id == 1


def test_a_join_group_of_a_static_client_that_was_overtaken_replaces_nobody() -> None:
    bench = Bench()
    older, newer = bench.connect(), bench.connect()
    first = bench.join(newer, "", instance_id="i-1")
    bench.beat(1, orders=(0, 1))
    assert bench.error(first) == ErrorCode.NONE
    late = bench.join(older, "", instance_id="i-1")
    assert bench.error(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE
