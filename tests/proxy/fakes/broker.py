"""A scripted broker on loopback: it answers ApiVersions and Metadata, and echoes everything else by length."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from fakes import messages, wire
from protocol_codecs import ApiKey
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseBroker
from proxy.streams import TcpStream


class FakeBroker:
    """Node ``node_id`` of a cluster whose members are in ``nodes`` (node id -> host and port)."""

    def __init__(self, node_id: int, nodes: dict[int, tuple[str, int]]) -> None:
        self.node_id = node_id
        self.nodes = nodes
        self.requests: list[bytes] = []
        self._arrived = trio.Event()
        self.connections = 0
        self.refuses_metadata = False
        """As a broker that wants authentication first: it closes the connection."""
        self.holds_back: trio.Event | None = None
        """If set, answers wait for it."""

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
                await self._arrived.wait()

    def answer(self, request: bytes) -> bytes | None:
        api_key, version = wire.api_of(request)
        correlation_id = wire.correlation_id(request)
        if api_key == ApiKey.API_VERSIONS:
            return wire.response(api_key, version, correlation_id, messages.api_versions_response())
        if api_key == ApiKey.METADATA:
            if self.refuses_metadata:
                return None
            brokers = tuple(
                MetadataResponseBroker(node_id=node_id, host=host, port=port)
                for node_id, (host, port) in self.nodes.items()
            )
            return wire.response(api_key, version, correlation_id, MetadataResponse(brokers=brokers))
        if api_key == ApiKey.HEARTBEAT:
            return wire.response(api_key, version, correlation_id, HeartbeatResponse())
        return wire.response(api_key, version, correlation_id, bytes(4))


@asynccontextmanager
async def a_cluster(*node_ids: int) -> AsyncIterator[dict[int, FakeBroker]]:
    """Brokers with these ids on free ports of loopback."""
    nodes: dict[int, tuple[str, int]] = {}
    brokers = {node_id: FakeBroker(node_id, nodes) for node_id in node_ids}
    async with trio.open_nursery() as nursery:
        for node_id, broker in brokers.items():
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nodes[node_id] = listener.socket.getsockname()[:2]
            nursery.start_soon(trio.serve_listeners, broker.serve, [listener])
        yield brokers
        nursery.cancel_scope.cancel()


async def connect(port: int) -> TcpStream:
    """A client's connection to a port of loopback."""
    sock = socket.create_connection(("127.0.0.1", port))
    return TcpStream(sock)
