"""Which consumers are started anew, as by a supervisor. Needs no Kafka."""

import contextlib
import json
import sys
from types import SimpleNamespace

import pytest
from support.consumers import Consumers

from tests.jepsen import arena
from tests.jepsen.fault_log import FaultLog
from tests.jepsen.schedule import Fault, Step

SAYS_AND_STAYS = """
import sys
for line in sys.argv[1:-1]:
    print(line, flush=True)
sys.stdin.read()
"""


class Kind:
    """A client that says what it was told to say, and stays."""

    def __init__(self, lines):
        self._lines = lines

    def command(self, log):
        return [sys.executable, "-c", SAYS_AND_STAYS, *self._lines]


@pytest.fixture
def saying(tmp_path):
    """`saying(*events)` is a consumer process that has said so."""
    started = Consumers(tmp_path)

    def start(*events):
        lines = [json.dumps({"event": kind, "mono": 1, "time": 1, **fields}) for kind, fields in events]
        consumer = started.start(Kind(lines), "nowhere:1", "g", "t", name="c")
        consumer.wait_until(lambda: len(consumer.events) == len(events), "it has said all")
        return consumer

    yield start
    started.end()


def error(text, *, fatal):
    return "error", {"error": text, "fatal": fatal}


def test_a_consumer_whose_library_reports_a_fatal_error_is_started_anew_although_it_runs(saying):
    consumer = saying(error("down", fatal=False), error("fenced", fatal=True), error("down", fatal=False))
    assert not consumer.ended
    assert arena.failure_of(consumer).fields["error"] == "fenced"


def test_a_consumer_that_reports_other_errors_is_not(saying):
    assert arena.failure_of(saying(error("down", fatal=False))) is None


def test_a_consumer_that_closes_after_a_fatal_error_ends_by_itself(saying):
    assert arena.failure_of(saying(error("fenced", fatal=True), ("closing", {}))) is None


def test_a_consumer_that_failed_is_started_anew(saying):
    assert arena.failure_of(saying(("failed", {"error": "down"}))).kind == "failed"


def test_a_consumer_that_was_killed_or_closed_is_not(saying):
    assert arena.failure_of(saying(("closed", {}))) is None


def test_a_consumer_that_is_to_close_and_has_not_said_so_gets_one_successor(saying, tmp_path):
    consumer = saying(("started", {}))
    scene = object.__new__(arena.Arena)  # without its cluster
    scene._living = {"c": consumer}
    scene._seats = [SimpleNamespace(name="c")]
    scene._healing = []
    with contextlib.closing(FaultLog(tmp_path / "faults.jsonl")) as scene._faults:
        for number, fault in enumerate((Fault.CLOSE_CONSUMER, Fault.KILL_CONSUMER)):
            scene._inflict(Step(float(number), fault, "c", 10.0))
    assert [victim for _, victim, _ in scene._healing].count("c") == 1
    assert not consumer.ended, "the second fault waits"
