"""One client connection: serves requests one after the other, and answers them in their order."""

import trio

from coordinator.broker import connect_groups, dispatch
from coordinator.broker.cluster import EmbeddedCluster
from coordinator.broker.context import RequestScope
from coordinator.broker.frames import BadFrame, FrameReader, framed
from protocol_codecs.all_messages import RequestHeader
from protocol_codecs.codec import decode_prefix
from protocol_codecs.errors import CodecError

_READ_AHEAD = 4
"""So many requests are read before the first is answered; then the client feels it."""


async def serve_connection(cluster: EmbeddedCluster, node_id: int, stream: trio.SocketStream) -> None:
    """Serve a connection until it ends. A client that violates the protocol is disconnected."""
    try:
        async with stream:
            with cluster.connections.opened() as connection_id:
                try:
                    await _Connection(cluster, node_id, connection_id, stream).run()
                finally:
                    cluster.share_leaders[node_id].disconnected(connection_id)
    except* (trio.BrokenResourceError, trio.ClosedResourceError, BadFrame, CodecError, dispatch.UnknownApi):
        pass  # a client that disconnects or violates the protocol must not affect others


class _Connection:
    def __init__(
        self, cluster: EmbeddedCluster, node_id: int, connection_id: int, stream: trio.SocketStream
    ) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._stream = stream
        self._host = f"/{stream.socket.getpeername()[0]}"  # as Java prints it
        self._id = connection_id
        self._client_has_gone = False
        self._current = trio.CancelScope()

    async def run(self) -> None:
        requests, frames = trio.open_memory_channel[bytes](_READ_AHEAD)
        async with trio.open_nursery() as nursery, frames:
            nursery.start_soon(self._read, requests)
            async for frame in frames:
                await self._serve(frame)

    async def _read(self, requests: trio.MemorySendChannel[bytes]) -> None:
        """Pass frames on; when the client has disconnected, cancel the request that is being served."""
        reader = FrameReader(self._stream)
        async with requests:
            try:
                while (frame := await reader.read()) is not None:
                    await requests.send(frame)
            finally:
                self._client_has_gone = True
                self._current.cancel()

    async def _serve(self, frame: bytes) -> None:
        """Serve one request. Requests sent before a disconnect still count, for example records with acks 0."""
        with trio.CancelScope() as self._current:
            if self._client_has_gone:
                self._current.cancel()
            answer = await self._answer(frame)
            if answer is not None:
                await self._stream.send_all(framed(answer))

    async def _answer(self, frame: bytes) -> bytes | None:
        """Return the answer to one request; None if it has none. Raises CodecError and UnknownApi."""
        of_experiment = connect_groups.answer(
            self._cluster.connect_groups, self._cluster.shard_of, self._node_id, self._host, frame
        )
        if of_experiment is not None:
            return of_experiment
        api_key = int.from_bytes(frame[0:2], "big", signed=True)
        version = int.from_bytes(frame[2:4], "big", signed=True)
        header_version = dispatch.request_header_version(self._cluster.config, api_key, version)
        header, start = decode_prefix(RequestHeader, header_version, frame)
        context = RequestScope(
            self._cluster, self._node_id, version, header.client_id or "", self._host, self._id
        )
        body = await dispatch.answer(context, api_key, frame, start)
        if body is None:
            return None
        return dispatch.response_header(api_key, version, header.correlation_id) + body
