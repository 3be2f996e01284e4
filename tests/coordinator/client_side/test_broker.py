"""Client-side assignors over the wire: the embedded broker serves them only where it is told to."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from coordinator.broker import EmbeddedCluster, serve
from coordinator.broker.clock import Clock
from coordinator.broker.cluster_metrics import ClusterMetrics
from coordinator.config import CoordinatorConfig
from protocol_codecs import all_messages as m
from protocol_codecs.api_key import ApiKey
from protocol_codecs.codec import decode, decode_prefix, encode
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.experimental import (
    EXPERIMENTAL_APIS,
    ClientAssignorsHeartbeatRequest,
    ClientAssignorsHeartbeatResponse,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentRequestMember,
    ConsumerGroupInstallAssignmentRequestTopicPartition,
    ConsumerGroupPrepareAssignmentRequest,
    ExperimentalApiKey,
)
from protocol_codecs.message import Message
from tests.coordinator.client_side.group import CONFIG, assignor


class Client:
    """One connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def ask(self, request: Message, version: int, response_type: type[Message]) -> Any:
        """The answer; raises EOFError if the broker hangs up."""
        key = request.__schema__.api_key
        assert key is not None
        header = m.RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=1, client_id="c"
        )
        header_version = 2 if key != ApiKey.API_VERSIONS or version >= 3 else 1
        frame = encode(header, header_version) + encode(request, version)
        await self._stream.send_all(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(await self._exactly(4), "big")
        answer = await self._exactly(size)
        _, start = decode_prefix(m.ResponseHeader, 0 if key == ApiKey.API_VERSIONS else 1, answer)
        return decode(response_type, version, answer, start)

    async def heartbeat(self, **fields: Any) -> Any:
        request = ClientAssignorsHeartbeatRequest(**{"group_id": "g", "member_id": "a", **fields})
        return await self.ask(request, 1, ClientAssignorsHeartbeatResponse)

    async def call(self, request: Message) -> Any:
        key = request.__schema__.api_key
        assert key is not None
        return await self.ask(request, 0, EXPERIMENTAL_APIS[key].response)

    async def _exactly(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            more = await self._stream.receive_some(size - len(content))
            if not more:
                raise EOFError
            content += more
        return content


@asynccontextmanager
async def connected(cluster: EmbeddedCluster, node_id: int = 0) -> AsyncIterator[Client]:
    address = cluster.addresses[node_id]
    async with await trio.open_tcp_stream(address.host, address.port) as stream:
        yield Client(stream)


@pytest.fixture(params=[True, False], ids=["on", "off"])
async def cluster(request) -> AsyncIterator[EmbeddedCluster]:
    config = CONFIG if request.param else CoordinatorConfig()
    async with serve(EmbeddedCluster(coordinator=config)) as served:
        served.create_topic("foo", 2)
        yield served


JOIN: dict[str, Any] = {
    "rebalance_timeout_ms": 30_000,
    "subscribed_topic_names": ("foo",),
    "topic_partitions": (),
    "client_assignors": (assignor(metadata_bytes=b"mine"),),
}


async def test_a_member_computes_its_groups_assignment_where_that_is_on(cluster):
    async with connected(cluster) as client:
        await computes(client, is_on=cluster.config.experimental_client_assignors)


async def computes(client: Client, *, is_on: bool) -> None:
    offered = await client.ask(m.ApiVersionsRequest(), 0, m.ApiVersionsResponse)
    assert {key.api_key for key in offered.api_keys}.issuperset(ExperimentalApiKey) == is_on

    joined = await client.heartbeat(**JOIN)
    assert joined.should_compute_assignment == is_on
    ask = ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="a", member_epoch=joined.member_epoch)
    if not is_on:
        assert joined.assignment.topic_partitions[0].partitions == (0, 1), "the tag was skipped"
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            await client.call(ask)
        return

    told = await client.call(ask)
    assert told.members[0].assignor.metadata_bytes == b"mine"
    part = ConsumerGroupInstallAssignmentRequestTopicPartition(
        topic_id=told.topics[0].topic_id, partitions=(0, 1)
    )
    install = ConsumerGroupInstallAssignmentRequest(
        group_id="g",
        member_id="a",
        member_epoch=joined.member_epoch,
        group_epoch=told.group_epoch,
        members=(
            ConsumerGroupInstallAssignmentRequestMember(
                member_id="a", partitions=(part,), metadata_version=3, metadata_bytes=b"yours"
            ),
        ),
    )
    assert (await client.call(install)).error_code == 0
    answer = await client.heartbeat(member_epoch=joined.member_epoch)
    assert answer.assignment.topic_partitions[0].partitions == (0, 1)
    assert answer.assignment_details.metadata_bytes == b"yours"
    assert (await client.call(install)).error_code == ErrorCode.STALE_MEMBER_EPOCH


async def test_other_nodes_and_a_loading_coordinator_say_so():
    async with serve(EmbeddedCluster(nodes=2, coordinator=CONFIG)) as cluster:
        cluster.create_topic("foo", 2)
        here = cluster.coordinator_of("g")
        ask = ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="a", member_epoch=1)
        async with connected(cluster, 1 - here) as elsewhere:
            assert (await elsewhere.call(ask)).error_code == ErrorCode.NOT_COORDINATOR
            assert (await elsewhere.heartbeat(**JOIN)).error_code == ErrorCode.NOT_COORDINATOR
        cluster.set_loading("g", loading=True)
        async with connected(cluster, here) as loading:
            assert (await loading.call(ask)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_group_goes_on_from_its_files(tmp_path):
    for is_first in (True, False):
        kept = EmbeddedCluster(coordinator=CONFIG, log_directory=tmp_path)
        async with serve(kept) as cluster, connected(cluster) as client:
            if is_first:
                cluster.create_topic("foo", 2)
                await client.heartbeat(**JOIN)
            answer = await client.heartbeat(member_epoch=1)
            assert answer.should_compute_assignment
            ask = ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id="a", member_epoch=1)
            assert (await client.call(ask)).members[0].assignor.metadata_bytes == b"mine"


async def test_what_it_does_is_counted_where_it_is_on(cluster):
    metrics = ClusterMetrics(cluster, Clock()).render().decode()
    assert ("experimental_client_side_installs_total" in metrics) == (
        cluster.config.experimental_client_assignors
    )


def test_the_process_has_an_option_that_says_that_it_is_an_experiment():
    said = subprocess.run(
        [sys.executable, "-m", "coordinator.broker", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "--experimental-client-assignors" in said
    assert "an experiment" in said
