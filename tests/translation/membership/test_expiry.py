"""The session timeout and the rebalance timeout of a client end its membership."""

from protocol_codecs import ApiKey, ErrorCode
from tests.translation.answers import A
from tests.translation.bench import Bench
from translation.actions import Connection, EventKind
from translation.settings import TranslatorSettings


def test_a_silent_client_is_removed_when_its_session_ends_and_its_partitions_are_nudged() -> None:
    bench = Bench()
    silent, other = bench.connect(), bench.connect()
    bench.stable_member(silent, (0, 1), session_timeout_ms=10_000)
    bench.client_disconnected(silent)
    assert bench.released == []  # heartbeats for it still travel there
    bench.advance(6)
    bench.beat(1)  # the broker's session is kept
    bench.advance(4)
    assert bench.heartbeat_call().message.member_epoch == -1
    bench.beat(-1)
    assert EventKind.SESSION_EXPIRED in bench.kinds()
    assert bench.released == [silent.id]
    del other


def test_the_reason_is_what_had_passed_although_the_client_is_heard_while_the_broker_removes_it() -> None:
    bench = Bench()
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=10_000, rebalance_timeout_ms=20_000)
    bench.advance(6)
    bench.beat(1)  # the broker's session is kept
    bench.advance(4)
    assert bench.heartbeat_call().message.member_epoch == -1
    bench.heartbeat(connection, A, 1)
    bench.beat(-1)
    assert bench.kinds()[-1] is EventKind.SESSION_EXPIRED


def test_a_process_that_is_not_alone_leaves_a_silent_client_to_the_brokers_session_timeout() -> None:
    bench = Bench(settings=TranslatorSettings(sole_process=False))
    connection = bench.connect()
    bench.stable_member(connection, (0, 1), session_timeout_ms=6_000)
    bench.client_disconnected(connection)
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


def test_the_rebalance_timeout_starts_when_the_client_is_told_to_rejoin_and_not_before() -> None:
    """Its connection ended while the broker was asked, so nobody heard the first answer."""
    bench = Bench()
    first = bench.connect()
    bench.stable_member(first, (0, 1), rebalance_timeout_ms=20_000)
    bench.heartbeat(first, A, 1)
    bench.client_disconnected(first)
    bench.beat(1, orders=(0,))
    bench.advance(2)
    second = bench.connect()
    for _ in range(7):
        told = bench.heartbeat(second, A, 1)
        bench.beat(1)
        assert bench.error(told) == ErrorCode.REBALANCE_IN_PROGRESS
        bench.advance(2.8)
    assert bench.calls == [], "19.6 s after it was told, 21.6 s after the answer that nobody heard"
    bench.advance(0.5)
    assert bench.heartbeat_call().message.member_epoch == -1


def a_client_that_heartbeats_instead_of_syncing() -> tuple[Bench, Connection]:
    """Its JoinGroup was answered 19.9 s ago, with a rebalance timeout of 20 s, and no SyncGroup has come."""
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
    bench.advance(1.9)
    return bench, connection


def test_a_client_that_never_syncs_is_removed_when_its_rebalance_timeout_ends_although_it_heartbeats() -> (
    None
):
    bench, _ = a_client_that_heartbeats_instead_of_syncing()
    assert bench.calls == []

    bench.advance(0.1)
    assert bench.heartbeat_call().message.member_epoch == -1
    bench.beat(-1)

    assert bench.kinds()[-1] is EventKind.REBALANCE_EXPIRED
    assert bench.events[-1].reason == "sent no SyncGroup within 20000 ms"


def test_a_sync_group_at_the_last_moment_keeps_the_membership() -> None:
    bench, connection = a_client_that_heartbeats_instead_of_syncing()

    synced = bench.sync(connection, A, 1)
    assert bench.error(synced) == ErrorCode.NONE

    for _ in range(5):
        bench.advance(3)
        bench.heartbeat(connection, A, 1)
        bench.beat(1)
    assert EventKind.REBALANCE_EXPIRED not in bench.kinds()


def test_each_join_group_gives_a_whole_rebalance_timeout_to_sync() -> None:
    bench, connection = a_client_that_heartbeats_instead_of_syncing()

    again = bench.join(connection, A, claims=(0, 1), rebalance_timeout_ms=20_000)
    bench.beat(1, orders=(0, 1))
    assert again in bench.answers
    for _ in range(6):
        bench.advance(3)
        bench.heartbeat(connection, A, 1)
        bench.beat(1)
    bench.advance(1.9)

    assert bench.calls == []
    bench.advance(0.1)
    assert bench.heartbeat_call().message.member_epoch == -1


class Expiring(Bench):
    """The session of the last member ends while the first heartbeat of another is on its way, on its own connection."""

    def __init__(self) -> None:
        super().__init__()
        self.line = self.connect()
        self.stable_member(self.line, (0, 1), session_timeout_ms=10_000)
        self.advance(6)
        self.beat(1)  # the broker's session is kept
        assert not self.ends_it()
        self.advance(1.9)
        self.translator._context.ids.issued("epochgate-b")
        self.join(self.connect(), "epochgate-b")
        (self.first,) = (call for call in self.calls if call.message.member_id == "epochgate-b")
        assert self.first.message.member_epoch == 0
        self.advance(1.1)

    def ends_it(self) -> bool:
        return any(
            call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and call.message.member_epoch == -1
            for call in self.calls
        )


def test_the_last_member_does_not_leave_while_the_first_heartbeat_of_another_is_on_its_way() -> None:
    """Had its leave arrived first, the broker would have made the group a classic one, and converted it again."""
    bench = Expiring()
    assert not bench.ends_it()
    bench.reply(bench.heartbeat_answer(2, orders=(2,)), bench.first)
    bench.advance(0.3)
    bench.beat(1)  # the member is heartbeated as all others are when a new one has begun
    assert bench.ends_it()


def test_a_first_heartbeat_that_is_held_up_is_waited_for_no_longer_than_a_turn_lasts() -> None:
    bench = Expiring()
    bench.advance(TranslatorSettings().turn_limit_s - 0.3)
    assert not bench.ends_it()
    bench.advance(0.4)
    assert bench.ends_it()


def test_a_client_that_is_heard_in_the_meantime_stays() -> None:
    bench = Expiring()
    bench.heartbeat(bench.line, A, 1)
    bench.advance(3.5)
    assert not bench.ends_it()
