"""Frames as clients and brokers write them, made with the codecs, and a reader of frames."""

import struct
from typing import Any

import trio

from protocol_codecs import ApiKey, Message, decode, encode
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.messages.headers import RequestHeader, ResponseHeader
from protocol_codecs.registry import request_header_version, response_header_version


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def request(
    api_key: int, version: int, correlation_id: int, body: Message | bytes, client_id: str | None = "a-client"
) -> bytes:
    header = RequestHeader(
        request_api_key=int(api_key),
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    encoded = body if isinstance(body, bytes) else encode(body, version)
    return framed(encode(header, request_header_version(api_key, version)) + encoded)


def response(api_key: int, version: int, correlation_id: int, body: Message | bytes) -> bytes:
    header = encode(ResponseHeader(correlation_id=correlation_id), response_header_version(api_key, version))
    return framed(header + (body if isinstance(body, bytes) else encode(body, version)))


def correlation_id(request_frame: bytes) -> int:
    return int(struct.unpack_from(">i", request_frame, 8)[0])


def answered_id(response_frame: bytes) -> int:
    return int(struct.unpack_from(">i", response_frame, 4)[0])


def body_of(frame: bytes, api_key: int, version: int) -> Any:
    """The decoded body of a response."""
    offset = 8 + (1 if response_header_version(api_key, version) else 0)
    return decode(ALL_APIS[api_key].response, version, frame, offset)


def api_of(request_frame: bytes) -> tuple[ApiKey, int]:
    api_key, version = struct.unpack_from(">hh", request_frame, 4)
    return ApiKey(api_key), version


def frames(data: bytes) -> list[bytes]:
    """Whole frames that stand one after another."""
    found = []
    while data:
        end = 4 + struct.unpack(">i", data[:4])[0]
        assert len(data) >= end, f"{len(data)} bytes of a frame of {end}"
        found.append(data[:end])
        data = data[end:]
    return found


class FrameReader:
    """Reads frames from a stream, one at a time."""

    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream
        self._data = b""

    async def frame(self) -> bytes | None:
        """The next frame, None at the end of the stream."""
        while True:
            if len(self._data) >= 4:
                end = 4 + struct.unpack(">i", self._data[:4])[0]
                if len(self._data) >= end:
                    frame, self._data = self._data[:end], self._data[end:]
                    return frame
            try:
                more = await self._stream.receive_some()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not more:
                return None
            self._data += more
