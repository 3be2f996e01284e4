"""The connections of one client."""

from tests.translation.answers import A
from tests.translation.bench import Bench


def test_join_on_one_connection_and_heartbeat_on_another() -> None:
    bench = Bench()
    joins, heartbeats = bench.connect(), bench.connect()
    bench.stable_member(joins, (0, 1))
    bench.heartbeat(heartbeats, A, 1)
    assert bench.heartbeat_call().connection_id == heartbeats.id
    bench.beat(1)
    bench.client_disconnected(joins)
    assert bench.released == [joins.id]
