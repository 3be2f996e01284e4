"""The calls over the wire: served if the broker is told to, on the group's node, and unknown to every other broker."""

import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from coordinator.broker import EmbeddedCluster, serve
from coordinator.config import CoordinatorConfig
from coordinator.connect_groups.formats import Said, for_leader
from coordinator.connect_groups.work import as_message, from_message
from coordinator.shard import Call
from protocol_codecs import ErrorCode
from protocol_codecs import all_messages as m
from protocol_codecs import connect_groups as c
from protocol_codecs.codec import decode, decode_prefix, encode
from protocol_codecs.message import Message
from tests.coordinator.connect_groups.talk import COMPATIBLE, GROUP, text, works
from tests.coordinator.kafka_backend import Connection

NODES = 2
WITH = CoordinatorConfig(experimental_connect_groups=True, classic_initial_rebalance_delay_ms=0)


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with serve(EmbeddedCluster(nodes=NODES, coordinator=WITH)) as served:
        yield served


async def ask(cluster: EmbeddedCluster, request: Message, node_id: int | None = None) -> Any:
    """The answer of a node, by default the one that coordinates the group; None if it disconnects."""
    address = cluster.addresses[cluster.coordinator_of(GROUP) if node_id is None else node_id]
    stream = await trio.open_tcp_stream(address.host, address.port)
    async with stream:
        header = m.RequestHeader(
            request_api_key=request.__schema__.api_key, request_api_version=0, correlation_id=7, client_id="w"
        )
        frame = encode(header, c.REQUEST_HEADER_VERSION) + encode(request, c.VERSION)
        await stream.send_all(len(frame).to_bytes(4, "big") + frame)
        answer = bytearray()
        while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
            part = await stream.receive_some()
            if not part:
                return None
            answer += part
    response_header, start = decode_prefix(m.ResponseHeader, c.RESPONSE_HEADER_VERSION, bytes(answer[4:]))
    assert response_header.correlation_id == 7
    return decode(c.CONNECT_APIS[request.__schema__.api_key].response, c.VERSION, bytes(answer[4:]), start)


async def ask_kafka(cluster: EmbeddedCluster, request: Message, version: int) -> Any:
    address = cluster.addresses[cluster.coordinator_of(GROUP)]

    def talk() -> Any:
        connection = Connection(address.host, address.port, "test")
        try:
            return connection.call(request, version)
        finally:
            connection.close()

    return await trio.to_thread.run_sync(talk)


def joining(member_id: str) -> c.ConnectGroupHeartbeatRequest:
    return c.ConnectGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        rebalance_timeout_ms=10_000,
        client_assignors=(COMPATIBLE,),
        connectors_and_tasks=(),
        config_offset=3,
        configured=as_message(works("a a-0")),
    )


def joining_as_classic(member_id: str = "", metadata: bytes = b"") -> m.JoinGroupRequest:
    return m.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="connect",
        protocols=(m.JoinGroupRequestProtocol(name="compatible", metadata=metadata),),
    )


async def assigned(cluster: EmbeddedCluster) -> None:
    """One worker joins, computes, and runs all."""
    assert (await ask(cluster, joining("w1"))).should_compute_assignment
    prepared = await ask(
        cluster, c.ConnectGroupPrepareAssignmentRequest(group_id=GROUP, member_id="w1", member_epoch=1)
    )
    assert prepared.error_code == 0
    part = c.ConnectGroupInstallAssignmentRequestMember(
        member_id="w1", connectors_and_tasks=prepared.configured, version=1
    )
    installed = await ask(
        cluster,
        c.ConnectGroupInstallAssignmentRequest(
            group_id=GROUP,
            member_id="w1",
            member_epoch=1,
            group_epoch=prepared.group_epoch,
            members=(part,),
        ),
    )
    assert installed.error_code == 0
    beat = await ask(
        cluster,
        c.ConnectGroupHeartbeatRequest(
            group_id=GROUP, member_id="w1", member_epoch=1, connectors_and_tasks=()
        ),
    )
    assert (beat.member_epoch, text(from_message(beat.assignment.connectors_and_tasks))) == (2, "a a-0")


async def test_a_worker_gets_what_it_computed(cluster: EmbeddedCluster):
    await assigned(cluster)


async def test_another_node_does_not_coordinate_the_group(cluster: EmbeddedCluster):
    other = 1 - cluster.coordinator_of(GROUP)

    assert (await ask(cluster, joining("w1"), other)).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_group_moves_with_its_shard(cluster: EmbeddedCluster):
    await assigned(cluster)

    cluster.move_coordinator(GROUP, 1 - cluster.coordinator_of(GROUP))

    beat = c.ConnectGroupHeartbeatRequest(group_id=GROUP, member_id="w1", member_epoch=2)
    assert (await ask(cluster, beat)).error_code == 0


async def test_a_coordinator_that_loads_says_so(cluster: EmbeddedCluster):
    cluster.set_loading(GROUP, loading=True)

    assert (await ask(cluster, joining("w1"))).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_group_is_there_after_a_restart_of_the_broker(tmp_path: Path):
    async with serve(EmbeddedCluster(coordinator=WITH, log_directory=tmp_path)) as cluster:
        await assigned(cluster)

    async with serve(EmbeddedCluster(coordinator=WITH, log_directory=tmp_path)) as cluster:
        beat = c.ConnectGroupHeartbeatRequest(group_id=GROUP, member_id="w1", member_epoch=2)
        assert (await ask(cluster, beat)).error_code == 0


async def test_sessions_end_by_the_brokers_clock(autojump_clock: trio.testing.MockClock):
    cluster = EmbeddedCluster(coordinator=WITH)
    async with serve(cluster):
        cluster.connect_groups.serve(
            cluster.shard_of(GROUP), cluster.coordinator_of(GROUP), joining("w1"), _call()
        )
        groups = cluster.connect_groups.coordinators[cluster.shard_of(GROUP).number].shard.groups
        assert set(groups[GROUP].members) == {"w1"}

        await trio.sleep(46)

        assert groups == {}


async def test_other_types_of_groups_keep_away_from_its_id(cluster: EmbeddedCluster):
    await assigned(cluster)

    classic = await ask_kafka(cluster, joining_as_classic(), 9)
    consumer = await ask_kafka(
        cluster,
        m.ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="m",
            rebalance_timeout_ms=1,
            subscribed_topic_names=(),
            topic_partitions=(),
        ),
        1,
    )

    assert classic.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert consumer.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_it_keeps_away_from_a_classic_group_that_it_cannot_read_and_takes_its_place_when_it_is_empty(
    cluster: EmbeddedCluster,
):
    member_id = (await ask_kafka(cluster, joining_as_classic(), 9)).member_id
    joined = await ask_kafka(cluster, joining_as_classic(member_id), 9)
    assert joined.error_code == 0

    assert (await ask(cluster, joining("w1"))).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    leaving = m.LeaveGroupRequest(group_id=GROUP, members=(m.MemberIdentity(member_id=member_id),))
    await ask_kafka(cluster, leaving, 5)
    generation = cluster.shard_of(GROUP).coordinator.shard.groups[GROUP].generation
    assert generation > 1

    assert (await ask(cluster, joining("w1"))).member_epoch == generation
    assert GROUP not in cluster.shard_of(GROUP).coordinator.shard.groups


async def test_a_classic_worker_that_waits_in_a_rebalance_joins_again_when_a_new_one_converts_the_group(
    cluster: EmbeddedCluster,
):
    metadata = for_leader(Said("http://classic/", 3, works("a")), "compatible")
    first = (await ask_kafka(cluster, joining_as_classic(metadata=metadata), 9)).member_id
    generation = (await ask_kafka(cluster, joining_as_classic(first, metadata), 9)).generation_id
    second = (await ask_kafka(cluster, joining_as_classic(metadata=metadata), 9)).member_id
    answers = []

    async def join() -> None:
        answers.append(await ask_kafka(cluster, joining_as_classic(second, metadata), 9))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(join)
        classic = cluster.shard_of(GROUP).coordinator.shard.groups[GROUP]
        while second not in classic.members:  # noqa: ASYNC110 - the state is plain data and tells nobody
            await trio.sleep(0.01)
        assert (await ask(cluster, joining("w1"))).error_code == 0
    heartbeat = m.HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=first)

    assert [answer.error_code for answer in answers] == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert (await ask_kafka(cluster, heartbeat, 4)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    joined = await ask_kafka(cluster, joining_as_classic(first, metadata), 9)
    assert joined.leader == first
    assert {one.member_id for one in joined.members} == {first, second, "w1"}


async def test_when_the_last_worker_has_left_the_group_may_be_classic_again(cluster: EmbeddedCluster):
    await assigned(cluster)
    leaving = c.ConnectGroupHeartbeatRequest(group_id=GROUP, member_id="w1", member_epoch=-1)
    assert (await ask(cluster, leaving)).error_code == 0

    answer = await ask_kafka(cluster, joining_as_classic(), 9)

    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED


async def test_a_broker_that_is_not_told_to_does_not_know_the_calls(tmp_path: Path):
    async with serve(EmbeddedCluster(log_directory=tmp_path)) as cluster:
        assert cluster.connect_groups is None
        for api in c.CONNECT_APIS.values():
            assert await ask(cluster, api.request()) is None
    assert not list(tmp_path.rglob("connect_groups*"))


async def test_a_version_that_does_not_exist_ends_the_connection(cluster: EmbeddedCluster):
    address = cluster.addresses[0]
    stream = await trio.open_tcp_stream(address.host, address.port)
    async with stream:
        key = c.ConnectApiKey.CONNECT_GROUP_HEARTBEAT.to_bytes(2, "big")
        await stream.send_all((10).to_bytes(4, "big") + key + b"\0\1" + bytes(6))
        assert await stream.receive_some() == b""


async def test_apiversions_does_not_name_them(cluster: EmbeddedCluster):
    offered = await ask_kafka(cluster, m.ApiVersionsRequest(), 4)

    assert not {api.api_key for api in offered.api_keys} & set(c.CONNECT_APIS)


def _call():

    return Call(0, 0)


def test_the_option_of_the_command_turns_it_on():
    """The command of docs/explanation/connect-groups.md, on a free port."""
    command = [sys.executable, "-m", "coordinator.broker", "--port", "0", "--experimental-connect-groups"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().split()[-1].partition(":")
            header = m.RequestHeader(
                request_api_key=c.ConnectApiKey.CONNECT_GROUP_HEARTBEAT, request_api_version=0, client_id="w"
            )
            frame = encode(header, c.REQUEST_HEADER_VERSION) + encode(joining("w1"), c.VERSION)
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(len(frame).to_bytes(4, "big") + frame)
                assert connection.recv(4096)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
