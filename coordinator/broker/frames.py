"""Frames of a connection: a length of four bytes, then the content."""

import trio

from coordinator.errors import CoordinatorError

MAX_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's ``socket.request.max.bytes``."""
_SIZE_BYTES = 4
_CHUNK_BYTES = 64 * 1024


class BadFrame(CoordinatorError):
    """The peer sent something that is no valid frame."""


class FrameReader:
    """Reads frames from a stream."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def read(self) -> bytes | None:
        """Return the next frame without its length; None at the end of the stream. Raises BadFrame."""
        header = await self._take(_SIZE_BYTES)
        if header is None:
            return None
        size = int.from_bytes(header, "big", signed=True)
        if not 0 <= size <= MAX_FRAME_BYTES:
            raise BadFrame(f"a frame of {size} bytes")
        return await self._take(size)

    async def _take(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            chunk = await self._stream.receive_some(_CHUNK_BYTES)
            if not chunk:
                if self._buffer:
                    raise BadFrame(f"the stream ends {size - len(self._buffer)} bytes early")
                return None
            self._buffer += chunk
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


def framed(content: bytes) -> bytes:
    """Return the content with its length in front."""
    return len(content).to_bytes(_SIZE_BYTES, "big") + content
