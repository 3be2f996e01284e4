"""Reuses the last encoded and decoded heartbeats when only the correlation id differs.

In a stable group that holds for the client's Heartbeat, for the ConsumerGroupHeartbeat that it becomes, and for both
responses. The cache keeps the last bytes with their message. Messages are immutable, and encoding depends on nothing
else, so the result is the same as from ``proxy.wire.framing`` and ``proxy.wire.request_header``.
"""

import struct
from functools import lru_cache

import msgspec

from protocol_codecs import ApiKey, Message, decode
from protocol_codecs.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from proxy.wire.framing import request_frame, response_body_offset, response_frame
from proxy.wire.request_header import RequestHeader

_CORRELATION_ID = struct.Struct(">i")
_REQUEST_ID_AT = 8  # behind size, API key and version
_RESPONSE_ID_AT = 4  # behind the size
_BEHIND_REQUEST_ID = _REQUEST_ID_AT + _CORRELATION_ID.size
_BEHIND_RESPONSE_ID = _RESPONSE_ID_AT + _CORRELATION_ID.size
MAX_CACHED_FRAME_BYTES = 1024
"""Longer frames are not kept: they carry lists, and lists change."""


class CachedHeartbeat(msgspec.Struct, frozen=True, gc=False):
    """The client's last Heartbeat, as bytes and as what they mean."""

    frame: bytes
    header: RequestHeader
    client_id: str | None
    message: HeartbeatRequest

    def repeated_in(self, frame: bytes) -> RequestHeader | None:
        """Return the header of ``frame`` if that differs from this one in the correlation id at most, else None."""
        before = self.frame
        if (
            len(frame) != len(before)
            or frame[_BEHIND_REQUEST_ID:] != before[_BEHIND_REQUEST_ID:]
            or frame[:_REQUEST_ID_AT] != before[:_REQUEST_ID_AT]
        ):
            return None
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame, _REQUEST_ID_AT)
        header = self.header
        return RequestHeader(header.api_key, header.version, correlation_id, header.client_id_end)


class HeartbeatFrames:
    """The ConsumerGroupHeartbeats of one connection: keeps the frame sent last, and the response read last."""

    __slots__ = ("_answer", "_answer_frame", "_asked", "_frame")

    def __init__(self) -> None:
        self._asked: tuple[int, str | None, Message] | None = None
        self._frame = b""
        self._answer: tuple[int, Message] | None = None
        self._answer_frame = b""

    def frame(self, version: int, correlation_id: int, client_id: str | None, message: Message) -> bytes:
        """See :func:`proxy.wire.framing.request_frame`."""
        asked = (version, client_id, message)
        if asked == self._asked:
            before = self._frame
            return (
                before[:_REQUEST_ID_AT] + _CORRELATION_ID.pack(correlation_id) + before[_BEHIND_REQUEST_ID:]
            )
        frame = request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, correlation_id, client_id, message)
        if len(frame) <= MAX_CACHED_FRAME_BYTES:
            self._asked, self._frame = asked, frame
        return frame

    def read(self, version: int, frame: bytes) -> Message:
        """Return the message in a response.

        :raises MalformedMessage: there is none in it.
        """
        known = self._answer
        if (
            known is not None
            and known[0] == version
            and frame[_BEHIND_RESPONSE_ID:] == self._answer_frame[_BEHIND_RESPONSE_ID:]
        ):
            return known[1]
        offset = response_body_offset(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, frame)
        message = decode(ConsumerGroupHeartbeatResponse, version, frame, offset)
        if len(frame) <= MAX_CACHED_FRAME_BYTES:
            self._answer, self._answer_frame = (version, message), frame
        return message


def heartbeat_response_frame(version: int, correlation_id: int, message: Message) -> bytes:
    """Return the response frame of a Heartbeat, as :func:`proxy.wire.framing.response_frame` does. Few kinds occur."""
    before = _heartbeat_response_frame(version, message)
    return before[:_RESPONSE_ID_AT] + _CORRELATION_ID.pack(correlation_id) + before[_BEHIND_RESPONSE_ID:]


@lru_cache(maxsize=64)
def _heartbeat_response_frame(version: int, message: Message) -> bytes:
    return response_frame(ApiKey.HEARTBEAT, version, 0, message)
