"""The heartbeats that the proxy sends of its own accord."""

from tests.translation.bench import Bench


def test_a_client_that_heartbeats_slowly_is_kept_alive_at_the_brokers_pace() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=300_000)
    for _ in range(5):
        bench.advance(5)
        bench.beat(1)
    assert bench.calls == []
