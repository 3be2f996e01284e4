"""The small broker: several nodes in one process, each with the groups that it coordinates, which may move."""

import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from coordinator.broker import EmbeddedCluster, serve
from coordinator.snapshot import persistent
from protocol_codecs import ErrorCode
from protocol_codecs import all_messages as m
from protocol_codecs.message import Message
from tests.coordinator.core_backend import CONFIG
from tests.coordinator.kafka_backend import Connection

NODES = 3
GROUPS = [f"group-{number}" for number in range(9)]


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with serve(EmbeddedCluster(nodes=NODES, shards=6, coordinator=CONFIG)) as served:
        served.create_topic("foo", 4)
        yield served


async def ask(cluster: EmbeddedCluster, node_id: int, request: Message, version: int) -> Any:
    """The answer of one node, over the wire."""
    address = cluster.addresses[node_id]

    def talk() -> Any:
        connection = Connection(address.host, address.port, "test")
        try:
            return connection.call(request, version)
        finally:
            connection.close()

    return await trio.to_thread.run_sync(talk)


def joining(group_id: str) -> Message:
    return m.ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("foo",),
        topic_partitions=(),
    )


def beating(group_id: str, epoch: int) -> Message:
    return m.ConsumerGroupHeartbeatRequest(group_id=group_id, member_id="member", member_epoch=epoch)


def in_classic_group(member_id: str = "") -> Message:
    return m.JoinGroupRequest(
        group_id="classic",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=(m.JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\0\0\0\0\0\0\0\0"),),
    )


async def test_every_node_leads_partitions_and_is_named(cluster: EmbeddedCluster):
    topics = (m.MetadataRequestTopic(name="foo"),)
    answer = await ask(cluster, 1, m.MetadataRequest(topics=topics), 12)

    assert {broker.node_id: broker.port for broker in answer.brokers} == {
        node_id: address.port for node_id, address in cluster.addresses.items()
    }
    assert {partition.leader_id for partition in answer.topics[0].partitions} == set(range(NODES))


async def test_a_client_that_means_another_broker_is_refused(cluster: EmbeddedCluster):
    here, another = sorted(cluster.addresses)[:2]
    for cluster_id, node_id, error in (
        (None, -1, ErrorCode.NONE),
        (cluster.cluster_id, here, ErrorCode.NONE),
        (cluster.cluster_id, another, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", here, ErrorCode.REBOOTSTRAP_REQUIRED),
        (cluster.cluster_id, -1, ErrorCode.INVALID_REQUEST),
        (None, here, ErrorCode.INVALID_REQUEST),
    ):
        request = m.ApiVersionsRequest(
            client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id
        )
        assert (await ask(cluster, here, request, 5)).error_code == error


async def test_groups_are_spread_and_only_their_own_node_serves_them(cluster: EmbeddedCluster):
    assert {cluster.coordinator_of(group) for group in GROUPS} == set(range(NODES))
    for group in GROUPS:
        for node_id in range(NODES):
            is_its = cluster.coordinator_of(group) == node_id
            answer = await ask(cluster, node_id, joining(group), 1)
            assert answer.error_code == (ErrorCode.NONE if is_its else ErrorCode.NOT_COORDINATOR)

    listed = [await ask(cluster, node_id, m.ListGroupsRequest(), 5) for node_id in range(NODES)]
    for node_id, answer in enumerate(listed):
        its = {group for group in GROUPS if cluster.coordinator_of(group) == node_id}
        assert {group.group_id for group in answer.groups} == its


async def test_find_coordinator_says_where_it_has_moved(cluster: EmbeddedCluster):
    group = GROUPS[0]
    old = cluster.coordinator_of(group)
    joined = await ask(cluster, old, joining(group), 1)
    new = (old + 1) % NODES

    cluster.move_coordinator(group, new)

    found = await ask(cluster, old, m.FindCoordinatorRequest(coordinator_keys=(group,)), 4)
    assert found.coordinators[0].node_id == new
    gone = await ask(cluster, old, beating(group, joined.member_epoch), 1)
    assert gone.error_code == ErrorCode.NOT_COORDINATOR
    there = await ask(cluster, new, beating(group, joined.member_epoch), 1)
    assert (there.error_code, there.member_epoch) == (ErrorCode.NONE, joined.member_epoch)


async def test_who_waits_is_told_when_the_coordinator_moves(cluster: EmbeddedCluster):
    node_id = cluster.coordinator_of("classic")
    first = (await ask(cluster, node_id, in_classic_group(), 5)).member_id
    assert (await ask(cluster, node_id, in_classic_group(first), 5)).error_code == ErrorCode.NONE
    second = (await ask(cluster, node_id, in_classic_group(), 5)).member_id
    answers: list[Any] = []

    async def wait_in_join_group() -> None:
        answers.append(await ask(cluster, node_id, in_classic_group(second), 5))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_in_join_group)
        group = cluster.shard_of("classic").coordinator.shard.groups["classic"]
        while group.state != "PreparingRebalance":  # noqa: ASYNC110 - the state is plain data and tells nobody
            await trio.sleep(0.005)  # until its request has arrived
        cluster.move_coordinator("classic", (node_id + 1) % NODES)

    assert [ErrorCode(answer.error_code) for answer in answers] == [ErrorCode.NOT_COORDINATOR]


async def test_a_loading_coordinator_says_so(cluster: EmbeddedCluster):
    group = GROUPS[0]
    cluster.set_loading(group, loading=True)
    answer = await ask(cluster, cluster.coordinator_of(group), joining(group), 1)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    cluster.set_loading(group, loading=False)
    answer = await ask(cluster, cluster.coordinator_of(group), joining(group), 1)
    assert answer.error_code == ErrorCode.NONE


async def test_a_cluster_that_starts_on_its_logs_has_the_same_groups(tmp_path: Path):
    def states(cluster: EmbeddedCluster) -> list[Any]:
        return [persistent(shard.coordinator) for shard in cluster.shards]

    def made() -> EmbeddedCluster:
        return EmbeddedCluster(nodes=NODES, coordinator=CONFIG, log_directory=tmp_path)

    async with serve(made()) as cluster:
        for group in GROUPS:
            await ask(cluster, cluster.coordinator_of(group), joining(group), 1)
        before = states(cluster)
    async with serve(made()) as cluster:
        assert states(cluster) == before
        assert sum(len(state["groups"]) for state in before) == len(GROUPS)


async def test_a_cluster_that_starts_again_has_the_same_topics(tmp_path: Path):
    async with serve(EmbeddedCluster(nodes=NODES, log_directory=tmp_path)) as cluster:
        cluster.create_topic("gone", 2)
        cluster.create_topic("kept", 2, settings={"retention.ms": "5"})
        cluster.create_partitions("kept", 3)
        cluster.set_topic_settings("kept", {"retention.ms": "7"})
        cluster.delete_topic("gone")
        image, producer_id = cluster.topics["kept"].image, cluster.new_producer_id()
    async with serve(EmbeddedCluster(nodes=NODES, log_directory=tmp_path)) as cluster:
        assert list(cluster.topics) == ["kept"]
        assert cluster.topics["kept"].image == image
        assert cluster.topics["kept"].settings == {"retention.ms": "7"}
        assert cluster.new_producer_id() > producer_id
        assert len(list((tmp_path / "topics").glob("*.log"))) == 3


class BrokerProcess:
    """``python -m coordinator.broker`` with its groups' logs in a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "coordinator.broker", "--port", "0", "--topic", "foo:4"]
        self._process = subprocess.Popen(
            [*command, "--log-directory", str(folder), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        host, _, port = self._process.stdout.readline().split()[-1].rpartition(":")
        self.connection = Connection(host, int(port), "test")

    def end(self, how: signal.Signals) -> tuple[int, str]:
        """How it ended, and what it had logged."""
        self.connection.close()
        self._process.send_signal(how)
        _, logged = self._process.communicate(timeout=60)
        return self._process.returncode, logged


def test_a_process_that_was_killed_goes_on_and_says_what_is_damaged(tmp_path: Path):
    killed = BrokerProcess(tmp_path)
    epoch = killed.connection.call(joining("g"), 1).member_epoch
    killed.end(signal.SIGKILL)
    (log,) = (path for path in tmp_path.glob("*.log") if path.stat().st_size)
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(b"torn")

    again = BrokerProcess(tmp_path)
    answer = again.connection.call(beating("g", epoch), 1)
    code, logged = again.end(signal.SIGTERM)

    assert answer.error_code == ErrorCode.NONE
    assert code == 0
    assert "the end of a log was damaged" in logged
    assert log.name in logged
    assert f"position={size}" in plain(logged)


def test_a_process_has_the_settings_that_it_is_given(tmp_path: Path):
    broker = BrokerProcess(tmp_path, "--set", "group.consumer.heartbeat.interval.ms=7000")
    answer = broker.connection.call(joining("g"), 1)
    broker.end(signal.SIGTERM)

    assert answer.heartbeat_interval_ms == 7_000


def plain(text: str) -> str:
    """The text without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
