"""JoinGroup in each of its versions, and of a group that is none of consumers."""

import pytest

from protocol_codecs import ErrorCode
from tests.translation.bench import TOPIC, Bench


@pytest.mark.parametrize("version", range(10))
def test_join_group_in_every_version(version: int) -> None:
    bench = Bench()
    connection = bench.connect()
    join = bench.join(connection, "epochgate-a", version=version)
    bench.beat(3, orders=(0,))
    assert bench.answers[join].generation_id == 3
    assert bench.handed(bench.sync(connection, "epochgate-a", 3)) == {TOPIC: (0,)}


def test_join_group_version_0_has_no_rebalance_timeout_so_it_is_the_session_timeout() -> None:
    bench = Bench()
    bench.join(bench.connect(), "epochgate-a", version=0, rebalance_timeout_ms=-1, session_timeout_ms=10_000)
    assert bench.heartbeat_call().message.rebalance_timeout_ms == 10_000 + 10_000 + 10_000


def test_a_share_group_is_left_to_the_broker_which_refuses_a_classic_join() -> None:
    """GROUP_ID_NOT_FOUND at epoch 0; to the JoinGroup itself a broker says INCONSISTENT_GROUP_PROTOCOL."""
    bench = Bench()
    join = bench.join(bench.connect(), "epochgate-a")
    bench.beat(0, ErrorCode.GROUP_ID_NOT_FOUND)
    bench.answer_lookups()
    bench.beat(0, ErrorCode.GROUP_ID_NOT_FOUND)
    assert bench.forwarded == [join]
