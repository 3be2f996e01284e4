"""Proxies that are one fleet, as an operator starts them: one whose log is not as it has to be does not start.

How soon a killed client is noticed behind them is in test_failover.py, what a rolling restart costs in
tests/chart/test_drain.py.
"""

import subprocess
import sys

import pytest
from confluent_kafka.cimpl import NewTopic
from support import ROOT
from support.clients import CONFLUENT
from support.entry import Proxy, running_proxy
from support.waiting import eventually

from proxy.fleet.topic import required_settings

PARTITIONS = 6
LOG_PARTITIONS = 4


@pytest.fixture
def fleet(kafka, group):
    return {
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "topic": f"members-{group}",
        "partitions": LOG_PARTITIONS,
        "replication": 1,
        "expires": True,
    }


def served(proxy: Proxy, direction: str = "written") -> float:
    """Records that say that a member is served, as the proxy has written or read them."""
    return metric(proxy, f'epochgate_fleet_records_total{{direction="{direction}",kind="served"}}')


def metric(proxy: Proxy, series: str) -> float:
    """The value of one series."""
    (value,) = [line.split()[-1] for line in proxy.metrics().splitlines() if line.startswith(f"{series} ")]
    return float(value)


@pytest.mark.kafka
def test_a_topic_with_other_settings_ends_the_start_with_the_command_that_mends_it(kafka, folder, fleet):
    settings = {**required_settings(1), "retention.ms": "3600000"}
    topic = NewTopic(fleet["topic"], LOG_PARTITIONS, 1, config=settings)
    kafka.admin.create_topics([topic])[fleet["topic"]].result(10)
    for workers in (1, 2):
        proxy = Proxy(
            kafka.bootstrap, folder / f"{workers}", sole_process=False, workers=workers, fleet=fleet
        )
        done = subprocess.run(
            [sys.executable, "-m", "proxy", "run", "--config", proxy.folder / "epochgate.yaml"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1
        assert "can't start" in done.stderr
        assert "kafka-configs.sh" in done.stderr
        assert "--add-config 'retention.ms=[604800000]'" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.kafka
def test_each_worker_reads_and_writes_the_log(kafka, consumers, folder, fleet, group):
    topic = kafka.new_topic(partitions=PARTITIONS)
    with running_proxy(kafka.bootstrap, folder / "proxy", workers=2, fleet=fleet) as proxy:
        member = consumers.start(CONFLUENT, proxy.bootstrap, f"translate-{group}", topic, "range")
        consumers.wait_until(lambda: len(member.owned()) == PARTITIONS, "it owns everything")
        eventually(
            lambda: (served(proxy), served(proxy, "read")),
            lambda seen: seen[0] > 0 and seen[1] == 2 * seen[0],
            what="both workers have read that one of them serves the member",
        )
        assert metric(proxy, "epochgate_fleet_log_away") == 0
        assert metric(proxy, "epochgate_fleet_replay_seconds") > 0
        member.close()
