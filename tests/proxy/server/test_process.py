"""What a process of the proxy sets up for itself."""

import subprocess
import sys

import pytest

from proxy.config.fleet import Fleet
from proxy.metrics.registry import Metrics
from proxy.server import process
from proxy.server.process import StartError, check_fleet, make_fleet, make_translator
from tests.proxy.fakes.serving import config_for
from translation.policy.policy import Policy

GROWTH = """
import gc
import sys
from proxy.server.process import tune_gc

if sys.argv[1] == "seldom":
    tune_gc()
before = gc.get_stats()[2]["collections"]
held = [[number] for number in range(1_000_000)]
print(gc.get_stats()[2]["collections"] - before)
"""


def full_collections(how: str) -> int:
    """While a million objects are made and kept."""
    ran = subprocess.run([sys.executable, "-c", GROWTH, how], capture_output=True, text=True, check=True)
    return int(ran.stdout)


def test_a_process_that_grows_is_not_looked_through_time_and_again() -> None:
    assert full_collections("seldom") * 4 < full_collections("always")


def test_only_a_process_that_serves_alone_speaks_for_silent_clients():
    for workers, said, alone in ((1, True, True), (2, True, False), (1, False, False)):
        translator = make_translator(config_for({}, workers=workers, sole_process=said), Policy())
        assert translator._context.settings.sole_process is alone


async def test_no_process_of_a_fleet_serves_alone():
    config = config_for({}, sole_process=True, fleet=Fleet(kafka={"bootstrap.servers": "k"}))
    translator = make_translator(config, Policy(), make_fleet(config, "here", Metrics()))
    assert translator._context.settings.sole_process is False


def test_a_member_log_without_its_kafka_client_is_refused_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setattr(process, "find_spec", lambda _name: None)
    check_fleet(config_for({}))
    with pytest.raises(StartError, match=r"pip install '\.\[fleet\]' in a checkout"):
        check_fleet(config_for({}, fleet=Fleet(kafka={"bootstrap.servers": "k"})))
