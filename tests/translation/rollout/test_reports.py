"""When a Heartbeat reports what its client owns: after a takeover, now and then, and while the log is away."""

from itertools import pairwise

import pytest

from protocol_codecs import ErrorCode
from tests.translation.answers import A
from tests.translation.bench import TOPIC, owned
from tests.translation.joining.test_resumption import group_of_a, stable_at, two_replicas
from tests.translation.member_log.bench import Replica, SharedLog
from translation.actions import Connection
from translation.settings import TranslatorSettings

INTERVAL_S = 3.0
SESSION_S = 10.0
"""The session timeout of the bench's clients."""
SETTINGS = TranslatorSettings()


@pytest.fixture
def log() -> SharedLog:
    return SharedLog()


def report_times(replica: Replica, connection: Connection, seconds: float) -> list[float]:
    """Let a client send Heartbeats for so long; when (seconds from now) they told the broker what it owns."""
    began, times = replica.now, []
    while replica.now - began < seconds:
        heartbeat = replica.heartbeat(connection, A, 1)
        sent = replica.heartbeat_call().message
        if sent.topic_partitions is not None:
            assert owned(sent) == {TOPIC: (0, 1)}
            times.append(replica.now - began)
        replica.beat(1, **({"orders": (0, 1)} if sent.topic_partitions is not None else {}))
        assert replica.error(heartbeat) == ErrorCode.NONE
        for _ in range(int(INTERVAL_S)):
            replica.shared.advance(1.0)
            while replica.heartbeats():  # of the replica's own accord, as often as the broker wants them
                replica.beat(1)
    return times


def test_a_member_that_began_here_reports_now_and_then(log: SharedLog) -> None:
    one = log.replica()
    times = report_times(one, stable_at(one), 60.0)
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps
    assert all(SETTINGS.report_interval_s <= gap < SETTINGS.report_interval_s + INTERVAL_S for gap in gaps)


def test_a_member_that_was_taken_over_reports_each_time_for_two_sessions(log: SharedLog) -> None:
    _, other = two_replicas(log)
    connection = other.connect()
    heartbeat = other.heartbeat(connection, A, 1)
    other.beat(1)
    other.reply(group_of_a())
    other.reply_names()
    other.beat(1, orders=(0, 1))
    assert other.error(heartbeat) == ErrorCode.NONE
    times = report_times(other, connection, 60.0)
    each = [n * INTERVAL_S for n in range(20)]
    assert [time for time in times if time < 2 * SESSION_S] == [time for time in each if time < 2 * SESSION_S]
    assert len([time for time in times if time >= 2 * SESSION_S]) <= 40.0 / SETTINGS.report_interval_s


def test_a_member_reports_each_time_while_the_log_is_away(log: SharedLog) -> None:
    one = log.replica()
    connection = stable_at(one)
    log.go_away()
    while one.heartbeats():
        one.beat(1)
    assert report_times(one, connection, 12.0) == [0.0, 3.0, 6.0, 9.0]


def test_the_broker_waits_longer_for_a_client_that_may_hear_of_a_change_later(log: SharedLog) -> None:
    one = log.replica(new_group=True)
    one.join(one.connect(), A, session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    told_ms = one.heartbeat_call().message.rebalance_timeout_ms
    assert told_ms == 60_000 + 10_000 + SETTINGS.upstream_margin_ms + SETTINGS.report_interval_s * 1000
