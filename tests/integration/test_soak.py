"""Two minutes of the soak (`make soak MINUTES=60` is the long form): memory, descriptors and tasks stay flat.

The other tests are of the soak itself: it tells a leak from noise, and a consumer that has lost its brokers from one to
which the proxy owes an answer.
"""

import socket
import sys
import time
from pathlib import Path

import pytest

from benchmarks import soak
from benchmarks.lib.soak_clients import ConsumerProcess, Unclosed, has_lost_its_brokers, last_lines, timed_out

METADATA = "%7|1.0|METADATA|rdkafka#consumer-1| [thrd:main]: 127.0.0.1:1/1: {}\n"
NO_BROKERS = METADATA.format("0 brokers, 1 topics")
ONE_BROKER = METADATA.format("1 brokers, 0 topics")
STAYS = "import signal; signal.pause()"
CONNECTS_AND_STAYS = (
    "import socket, sys; line = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); " + STAYS
)


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nothing_grows_under_traffic_churn_and_restarts(own_kafka):
    report = soak.soak(minutes=2)
    assert report["traffic"]["consumed"] > 0
    assert report["traffic"]["came and went"] > 50
    assert report["flat"], report
    assert report["answered"], report


@pytest.mark.parametrize(("leaked", "flat"), [(0.0, True), (4.0, False)])
def test_a_leak_is_told_from_noise(leaked, flat):
    rests = [
        {"memory_mib": 75.0 + at % 2, "descriptors": 50.0 + 3 * (at % 2) + leaked * at, "tasks": 80.0}
        for at in range(4)
    ]
    report = soak.judged(rests)
    assert report["flat"] is flat
    assert report["rows"]["descriptors"]["flat"] is flat


def unclosed(*, connections, lost_its_brokers):
    return Unclosed("consumer-0", Path("log"), connections, lost_its_brokers)


@pytest.mark.parametrize(
    ("one", "excused"),
    [
        (unclosed(connections=0, lost_its_brokers=True), True),
        (unclosed(connections=1, lost_its_brokers=True), False),
        (unclosed(connections=0, lost_its_brokers=False), False),
        (unclosed(connections=2, lost_its_brokers=False), False),
    ],
)
def test_only_a_consumer_without_brokers_and_connections_is_excused_for_not_closing(one, excused):
    assert soak.answered(0, 0.0, 0.0, [one]) is excused


@pytest.mark.parametrize(("unanswered", "left_over", "hidden"), [(1, 0.0, 0.0), (0, 1.0, 0.0), (0, 0.0, 1.0)])
def test_a_call_without_an_answer_or_a_hidden_broker_fails_the_soak(unanswered, left_over, hidden):
    assert soak.answered(0, 0.0, 0.0, [])
    assert not soak.answered(unanswered, left_over, hidden, [])


@pytest.mark.parametrize(
    ("log", "lost"),
    [
        ("", False),
        (ONE_BROKER, False),
        (ONE_BROKER + NO_BROKERS, True),
        (ONE_BROKER + NO_BROKERS + "%7|1.0|CGRPQUERY|and so on\n", True),
        (NO_BROKERS + ONE_BROKER, False),
        (METADATA.format("0 brokers, 0 topics"), False),
    ],
)
def test_a_consumer_has_lost_its_brokers_if_its_last_metadata_had_none(tmp_path, log, lost):
    (tmp_path / "log").write_text(log)
    assert has_lost_its_brokers(tmp_path / "log") is lost


def test_requests_that_timed_out_in_flight_are_counted(tmp_path):
    log = tmp_path / "log"
    log.write_text(
        "%5|1.0|REQTMOUT|rdkafka#consumer-1| [thrd:GroupCoordinator]: GroupCoordinator/1: "
        "Timed out JoinGroupRequest in flight (after 60000ms, timeout #0)\n"
        "%4|1.0|REQTMOUT|rdkafka#consumer-1| [thrd:GroupCoordinator]: GroupCoordinator/1: "
        "Timed out 2 in-flight, 0 retry-queued, 1 out-queue, 0 partially-sent requests\n"
    )
    assert timed_out(log) == 2


def test_the_last_lines_of_a_log_leave_out_what_repeats(tmp_path):
    (tmp_path / "log").write_text(NO_BROKERS + "%7|1.0|CGRPQUERY|rdkafka#consumer-1| again\n" * 100)
    assert last_lines(tmp_path / "log") == [NO_BROKERS.rstrip()]


def test_a_consumer_that_does_not_close_is_described_and_ended(tmp_path):
    consumer = ConsumerProcess("consumer-0", [sys.executable, "-c", STAYS], tmp_path / "log")
    try:
        consumer.tell_to_close()
        assert not consumer.closed_by(time.monotonic())
        found = consumer.why_not()
    finally:
        said = consumer.end()
    assert consumer.closed_by(time.monotonic())
    assert (found.name, found.connections, found.lost_its_brokers) == ("consumer-0", 0, False)
    assert said == (0, [])


def test_a_consumers_connections_are_counted(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", CONNECTS_AND_STAYS, str(server.getsockname()[1])]
        consumer = ConsumerProcess("consumer-0", command, tmp_path / "log")
        try:
            with server.accept()[0]:
                assert consumer.why_not().connections == 1
        finally:
            consumer.end()
