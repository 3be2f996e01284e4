"""A scripted broker on loopback: it answers ApiVersions and Metadata, and echoes everything else by length."""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

from protocol_codecs import ApiKey, ErrorCode, decode
from protocol_codecs.messages.api_versions import NODE_FROM, ApiVersionsRequest, ApiVersionsResponse
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseBroker
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateResponse
from protocol_codecs.messages.sasl_handshake import SaslHandshakeResponse
from proxy.transport.tcp_stream import TcpStream
from proxy.wire.request_header import body_offset, read_header
from tests.proxy.fakes import messages, wire


class FakeBroker:
    """Node ``node_id`` of a cluster whose members are in ``nodes`` (node id -> host and port)."""

    def __init__(self, node_id: int, nodes: dict[int, tuple[str, int]]) -> None:
        self.node_id = node_id
        self.nodes = nodes
        self.nursery: trio.Nursery
        self.requests: list[bytes] = []
        self._arrived = trio.Event()
        self.connections = 0
        self.tls: ssl.SSLContext | None = None
        self.refuses_metadata = False
        """As a broker that wants authentication first: it closes the connection."""
        self.cluster_id: str | None = None
        """With one, it checks whom a client means, as brokers since Kafka 4.4 do (KIP-1242)."""
        self.holds_back: trio.Event | None = None
        """If set, answers wait for it."""

    async def start(self) -> None:
        """Serve at the node's address, or at a free one, until :meth:`stop` is called."""
        await self.nursery.start(self._run)

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        host, port = self.nodes.get(self.node_id, ("127.0.0.1", 0))
        (listener,) = await trio.open_tcp_listeners(port, host=host)
        self.nodes[self.node_id] = listener.socket.getsockname()[:2]
        with trio.CancelScope() as self._running:
            guarded = listener if self.tls is None else trio.SSLListener(listener, self.tls)
            await trio.serve_listeners(self._serve_well, [guarded], task_status=task_status)

    async def _serve_well(self, stream: trio.abc.Stream) -> None:
        with suppress(trio.BrokenResourceError):  # TLS was not agreed on
            await self.serve(stream)

    def stop(self) -> None:
        """Close all connections and the port."""
        self._running.cancel()

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        reader = wire.FrameReader(stream)
        async with stream:
            while (request := await reader.frame()) is not None:
                self.requests.append(request)
                self._arrived.set()
                self._arrived = trio.Event()
                answer = self.answer(request)
                if answer is None:
                    return
                if self.holds_back is not None:
                    await self.holds_back.wait()
                await stream.send_all(answer)

    async def got(self, request: bytes) -> None:
        """Wait until this request has arrived."""
        with trio.fail_after(10):
            while request not in self.requests:
                await self.arrival()

    async def arrival(self) -> None:
        """Wait for the next request."""
        await self._arrived.wait()

    def answer(self, request: bytes) -> bytes | None:
        api_key, version = wire.api_of(request)
        correlation_id = wire.correlation_id(request)
        if api_key == ApiKey.API_VERSIONS:
            return wire.response(api_key, version, correlation_id, self._api_versions(version, request))
        if api_key == ApiKey.METADATA:
            if self.refuses_metadata:
                return None
            brokers = tuple(
                MetadataResponseBroker(node_id=node_id, host=host, port=port)
                for node_id, (host, port) in self.nodes.items()
            )
            metadata = MetadataResponse(brokers=brokers, cluster_id=self.cluster_id)
            return wire.response(api_key, version, correlation_id, metadata)
        if api_key == ApiKey.SASL_HANDSHAKE:
            return wire.response(api_key, version, correlation_id, SaslHandshakeResponse())
        if api_key == ApiKey.SASL_AUTHENTICATE:
            return wire.response(api_key, version, correlation_id, SaslAuthenticateResponse())
        if api_key == ApiKey.HEARTBEAT:
            return wire.response(api_key, version, correlation_id, HeartbeatResponse())
        return wire.response(api_key, version, correlation_id, bytes(4))

    def _api_versions(self, version: int, request: bytes) -> ApiVersionsResponse:
        if self.cluster_id is None:
            return messages.api_versions_response()
        if version >= NODE_FROM:
            asked = decode(ApiVersionsRequest, version, request, body_offset(request, read_header(request)))
            if (asked.cluster_id, asked.node_id) not in ((None, -1), (self.cluster_id, self.node_id)):
                return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        return messages.api_versions_response({**messages.BROKER_VERSIONS, ApiKey.API_VERSIONS: (0, 5)})


@asynccontextmanager
async def a_cluster(
    *node_ids: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[dict[int, FakeBroker]]:
    """Brokers with these ids on free ports of loopback."""
    nodes: dict[int, tuple[str, int]] = {}
    brokers = {node_id: FakeBroker(node_id, nodes) for node_id in node_ids}
    async with trio.open_nursery() as nursery:
        for broker in brokers.values():
            broker.nursery = nursery
            broker.tls = tls
            await broker.start()
        yield brokers
        nursery.cancel_scope.cancel()


async def connect(port: int) -> TcpStream:
    """A client's connection to a port of loopback."""
    sock = socket.create_connection(("127.0.0.1", port))
    return TcpStream(sock)
