"""Proxies that are one fleet, as an operator starts them: one whose log is not as it has to be does not start.

How soon a killed client is noticed behind them is in test_failover.py, what a rolling restart costs in
tests/chart/test_drain.py.
"""

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic
from support import ROOT
from support.broker import Kafka
from support.clients import CONFLUENT, COOPERATIVE
from support.entry import Proxy, running_proxy
from support.load import Load
from support.ownership import Partition, overlaps
from support.waiting import eventually

from proxy.member_log.topic import required_settings
from tools.kafka.settings import GROUP_DEFAULTS

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


def answer(proxy: Proxy) -> dict[str, Any]:
    """What /api/groups says."""
    with urllib.request.urlopen(f"{proxy.admin}/api/groups", timeout=10) as page:  # noqa: S310 - our own URL
        found: dict[str, Any] = json.load(page)
    return found


def shown(proxy: Proxy) -> dict[str, Any]:
    """The groups of /api/groups, by id."""
    return {group["id"]: group for group in answer(proxy)["groups"]}


def elsewhere(groups: dict[str, Any], group: str) -> list[dict[str, Any]]:
    """The members of a group that other replicas serve."""
    return groups[group]["fleet"]["elsewhere"] if group in groups else []


def status(proxy: Proxy, *arguments: str) -> str:
    """What `epochgate status` prints."""
    command = [sys.executable, "-m", "proxy", "status", "--admin", proxy.admin, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, env={**os.environ, "COLUMNS": "300"}
    )
    return done.stdout


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
        assert metric(proxy, "epochgate_fleet_members_here") == 1
        assert metric(proxy, 'epochgate_fleet_members{state="served"}') == 1
        assert metric(proxy, 'epochgate_fleet_replicas{state="active"}') == 2
        member.close()


@pytest.mark.kafka
def test_each_replica_shows_the_members_that_the_other_serves(kafka, consumers, folder, fleet, group):
    topic, group = kafka.new_topic(partitions=PARTITIONS), f"translate-{group}"
    other_group = f"{group}-other"
    with contextlib.ExitStack() as stack:
        here, there = [
            stack.enter_context(
                running_proxy(kafka.bootstrap, folder / f"proxy-{number}", sole_process=False, fleet=fleet)
            )
            for number in range(2)
        ]
        ours = consumers.start(CONFLUENT, here.bootstrap, group, topic, COOPERATIVE)
        theirs = consumers.start(CONFLUENT, there.bootstrap, group, topic, COOPERATIVE)
        alone = consumers.start(CONFLUENT, there.bootstrap, other_group, topic, COOPERATIVE)
        consumers.wait_until(
            lambda: sorted(map(len, (ours.owned(), theirs.owned(), alone.owned()))) == [3, 3, PARTITIONS],
            "all have their partitions",
        )
        serving = {member["id"] for member in shown(there)[group]["members"]}
        found = eventually(
            lambda: shown(here),
            lambda groups: (
                {one["id"] for one in elsewhere(groups, group)} == serving
                and len(elsewhere(groups, other_group)) == 1
            ),
            what="the first replica shows what the second serves",
        )
        (member,) = elsewhere(found, group)
        assert member["state"] == "served"
        assert member["replica_id"] not in {one["replica_id"] for one in elsewhere(shown(there), group)}
        assert (found[group]["fleet"]["members"], len(found[group]["members"])) == (2, 1)
        assert (found[other_group]["state"], found[other_group]["members"]) == ("Elsewhere", [])
        health = answer(here)["fleet"]
        assert (health["state"], health["members"], len(health["replicas"])) == ("ready", 3, 2)
        assert member["id"] in status(here, group)
        assert "member log: ready" in status(here)
        theirs.close()
        alone.close()
        eventually(
            lambda: shown(here),
            lambda groups: not elsewhere(groups, group) and other_group not in groups,
            what="members that have left are not shown",
        )
        ours.close()


@pytest.mark.kafka
def test_a_replica_that_is_killed_and_started_again_costs_no_rejoin(
    own_kafka, consumers, folder, fleet, group
):
    """Its log says what its clients had, and the broker confirms it; so not even an eager client stops.

    With the broker's own settings for groups: its session lasts longer than the replica is away.
    """
    cluster = own_kafka(overrides=GROUP_DEFAULTS)
    kafka = Kafka(cluster.bootstrap, source="maven", version=cluster.version)
    fleet["kafka"] = {"bootstrap.servers": cluster.bootstrap}
    topic = kafka.new_topic(partitions=PARTITIONS)
    with running_proxy(kafka.bootstrap, folder / "proxy", fleet=fleet) as proxy:
        members = [
            consumers.start(
                CONFLUENT, proxy.bootstrap, f"translate-{group}", topic, "range", session_timeout_ms=30_000
            )
            for _ in range(2)
        ]
        share = [PARTITIONS // len(members)] * len(members)
        consumers.wait_until(lambda: [len(one.owned()) for one in members] == share, "each has its share")

        def read():
            written = {(Partition(at.topic, at.partition), at.offset) for at in kafka.produce(topic, 60)}
            consumers.wait_until(
                lambda: written <= set().union(*(one.consumed() for one in members)), "all is read"
            )

        read()
        eventually(
            lambda: metric(proxy, "epochgate_fleet_unresolved_records"),
            lambda unresolved: unresolved == 0,
            what="everything that was written is read back",
        )
        marks = [one.mark() for one in members]
        proxy.kill()
        proxy.start()
        read()
        eventually(
            proxy.metrics,
            lambda text: (
                'epochgate_members{mode="translate",protocol="translated",state="Stable"} 2.0'
                in text.splitlines()
            ),
            what="the new process serves both",
        )
        read()
        # Each came on a connection that the new process did not know, so the log was asked.
        assert metric(proxy, 'epochgate_fleet_verdicts_total{verdict="served"}') >= len(members)
        assert [one.callbacks(mark) for one, mark in zip(members, marks, strict=True)] == [[], []]


@pytest.mark.kafka
def test_while_the_log_is_away_clients_work_and_join(kafka, own_kafka, consumers, folder, fleet, group):
    """The log is in a cluster of its own, so that it can be away alone."""
    log_cluster = own_kafka()
    fleet["kafka"] = {"bootstrap.servers": log_cluster.bootstrap}
    topic = kafka.new_topic(partitions=PARTITIONS)

    def shared(*members):
        return sorted(len(one.owned()) for one in members) == [PARTITIONS // len(members)] * len(members)

    with contextlib.ExitStack() as stack:
        proxies = [
            stack.enter_context(
                running_proxy(kafka.bootstrap, folder / f"proxy-{number}", sole_process=False, fleet=fleet)
            )
            for number in range(2)
        ]

        def start(proxy):
            return consumers.start(
                CONFLUENT,
                proxy.bootstrap,
                f"translate-{group}",
                topic,
                COOPERATIVE,
                session_timeout_ms=10_000,
            )

        def read(*members):
            written = {(Partition(at.topic, at.partition), at.offset) for at in kafka.produce(topic, 60)}
            consumers.wait_until(
                lambda: written <= set().union(*(one.consumed() for one in members)), "all is read"
            )

        first, second = (start(proxy) for proxy in proxies)
        consumers.wait_until(lambda: shared(first, second), "two share the partitions")
        log_cluster.stop_broker(1)
        marks = first.mark(), second.mark()
        for proxy in proxies:
            eventually(
                lambda at=proxy: metric(at, "epochgate_fleet_log_away"),
                lambda away: away == LOG_PARTITIONS,
                what="the log is away",
            )
        read(first, second)
        assert not first.callbacks(marks[0])
        assert not second.callbacks(marks[1])
        third = start(proxies[0])
        consumers.wait_until(lambda: shared(first, second, third), "a third has its share")
        read(first, second, third)
        assert all(proxy.ready() for proxy in proxies)
        log_cluster.start_broker(1)
        for proxy in proxies:
            eventually(
                lambda at=proxy: metric(at, "epochgate_fleet_log_away"),
                lambda away: away == 0,
                what="the log is back",
            )
        third.kill()
        consumers.wait_until(lambda: shared(first, second), "the partitions of a killed client have owners")
        read(first, second)
    assert overlaps(consumers.logs) == []


@pytest.mark.kafka
def test_a_replica_that_stands_still_for_longer_than_a_session_harms_nobody(
    kafka, consumers, folder, fleet, group
):
    """SIGSTOP and SIGCONT under load. Its clients lose their sessions, and by their own clocks what they own."""
    topic = kafka.new_topic(partitions=PARTITIONS)
    with contextlib.ExitStack() as stack:
        proxies = [
            stack.enter_context(
                running_proxy(kafka.bootstrap, folder / f"proxy-{number}", sole_process=False, fleet=fleet)
            )
            for number in range(3)
        ]
        members = [
            consumers.start(
                CONFLUENT,
                proxy.bootstrap,
                f"translate-{group}",
                topic,
                "range",
                session_timeout_ms=6_000,
                heartbeat_interval_ms=1_000,
            )
            for proxy in proxies
        ]

        def shared():
            return all(len(one.owned()) == PARTITIONS // len(members) for one in members)

        consumers.wait_until(shared, "three share the partitions")
        with Load(kafka, topic) as load:
            mark = members[0].mark()
            proxies[0].freeze()
            stack.callback(proxies[0].thaw)  # or it could not be stopped
            members[0].wait_for("lost", since=mark)
            proxies[0].thaw()
            consumers.wait_until(shared, "all three are back at work")
        written = {(Partition(at.topic, at.partition), at.offset) for at in load.records}
        consumers.wait_until(
            lambda: written <= set().union(*(one.consumed() for one in members)), "all is read"
        )
    # The one behind the replica that stood still lost its membership; a broker's clock and a client's differ a little.
    assert [overlap for overlap in overlaps(consumers.logs) if not overlap.after_loss] == []


@pytest.mark.kafka
def test_a_killed_client_is_expired_where_every_replica_writes_the_log(
    kafka, consumers, folder, fleet, group
):
    """Two names that resolve to the same: on this machine, that of the machine."""
    names = {"every": "localhost", "writing": "localhost", "own_address": "127.0.0.1"}
    fleet |= {"expires": "auto", "replica_names": names}
    topic = kafka.new_topic(partitions=PARTITIONS)
    with running_proxy(kafka.bootstrap, folder / "proxy", sole_process=False, fleet=fleet) as proxy:
        eventually(
            lambda: metric(proxy, "epochgate_fleet_expires"),
            lambda value: value == 1,
            what="it expires members",
        )
        member = consumers.start(CONFLUENT, proxy.bootstrap, f"translate-{group}", topic, "range")
        consumers.wait_until(lambda: len(member.owned()) == PARTITIONS, "it owns everything")
        member.kill()
        expired = 'epochgate_fleet_records_total{direction="written",kind="expiring"}'
        eventually(
            lambda: metric(proxy, expired),
            lambda count: count == 1,
            timeout_s=60,
            what="the log says that it is dead",
        )


@pytest.mark.kafka
def test_nobody_is_expired_where_a_replica_may_not_write_the_log(kafka, folder, fleet):
    names = {"every": "localhost", "writing": "localhost", "own_address": "192.0.2.1"}
    fleet |= {"expires": "auto", "replica_names": names}
    with running_proxy(kafka.bootstrap, folder / "proxy", sole_process=False, fleet=fleet) as proxy:
        eventually(
            lambda: status(proxy),
            lambda said: "replicas that may not write this log: 192.0.2.1" in said,
            what="its status says which",
        )
        assert metric(proxy, "epochgate_fleet_expires") == 0
