"""Members that go back to the classic protocol at the same moment: the last of them brings the helper."""

from protocol_codecs import ApiKey, ErrorCode
from tests.translation.bench import Bench
from tests.translation.live_groups import OBSERVE_ALL, described
from translation.members.conversion import HELPER_PREFIX, is_helper
from translation.settings import TranslatorSettings


def test_of_members_that_go_back_at_once_the_last_one_brings_the_helper() -> None:
    """Without a helper the group would stay a consumer group of classic members, which nobody makes a classic one."""
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0,), member_id="epochgate-a")
    bench.stable_member(connection, (1,), member_id="epochgate-b")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    for member_id in ("epochgate-a", "epochgate-b"):
        told = bench.heartbeat(connection, member_id, 1)
        assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.join(connection, "epochgate-a")
    bench.join(connection, "epochgate-b")
    first, second = bench.calls
    assert (first.api_key, first.message.member_id) == (ApiKey.JOIN_GROUP, "epochgate-a")
    assert second.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT
    assert is_helper(second.message.member_id)


def test_the_helper_of_another_process_does_for_the_last_member_too() -> None:
    """Each helper that leaves moves the group epoch, and all members would have to rejoin once more."""
    bench = Bench(settings=TranslatorSettings(sole_process=False))
    connection = bench.connect()
    bench.stable_member(connection, (0,), member_id="epochgate-a")
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    bench.heartbeat(connection, "epochgate-a", 1)
    bench._new_group = False
    bench.join(connection, "epochgate-a")
    bench.reply(described({"epochgate-a": (1, 1), f"{HELPER_PREFIX}1": (1, 1)}))
    (call,) = bench.calls
    assert (call.api_key, call.message.member_id) == (ApiKey.JOIN_GROUP, "epochgate-a")
