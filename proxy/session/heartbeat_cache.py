"""Reuses the last encoded and decoded heartbeats when only the correlation id differs.

In a stable group that holds for the client's Heartbeat, for the ConsumerGroupHeartbeat that it becomes, and for both
responses. The cache keeps bytes with their message. Messages are immutable, and encoding depends on nothing
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
    """The ConsumerGroupHeartbeats of one connection: keeps the two frames and the two responses that were new last.

    Two, because in a fleet one of several heartbeats reports what the client owns, and has the assignment in its
    response; those in between say nothing new, and neither do their responses.
    """

    __slots__ = ("_requests", "_responses")

    def __init__(self) -> None:
        self._requests: tuple[tuple[tuple[int, str | None, Message], bytes], ...] = ()
        self._responses: tuple[tuple[int, Message, bytes], ...] = ()

    def frame(self, version: int, correlation_id: int, client_id: str | None, message: Message) -> bytes:
        """See :func:`proxy.wire.framing.request_frame`."""
        asked = (version, client_id, message)
        for known, before in self._requests:
            if asked == known:
                return (
                    before[:_REQUEST_ID_AT]
                    + _CORRELATION_ID.pack(correlation_id)
                    + before[_BEHIND_REQUEST_ID:]
                )
        frame = request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, correlation_id, client_id, message)
        if len(frame) <= MAX_CACHED_FRAME_BYTES:
            self._requests = ((asked, frame), *self._requests[:1])
        return frame

    def read(self, version: int, frame: bytes) -> Message:
        """Return the message in a response.

        :raises MalformedMessage: there is none in it.
        """
        for of_version, message, before in self._responses:
            if of_version == version and frame[_BEHIND_RESPONSE_ID:] == before[_BEHIND_RESPONSE_ID:]:
                return message
        offset = response_body_offset(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, frame)
        message = decode(ConsumerGroupHeartbeatResponse, version, frame, offset)
        if len(frame) <= MAX_CACHED_FRAME_BYTES:
            self._responses = ((version, message, frame), *self._responses[:1])
        return message


def heartbeat_response_frame(version: int, correlation_id: int, message: Message) -> bytes:
    """Return the response frame of a Heartbeat, as :func:`proxy.wire.framing.response_frame` does. Few kinds occur."""
    before = _heartbeat_response_frame(version, message)
    return before[:_RESPONSE_ID_AT] + _CORRELATION_ID.pack(correlation_id) + before[_BEHIND_RESPONSE_ID:]


@lru_cache(maxsize=64)
def _heartbeat_response_frame(version: int, message: Message) -> bytes:
    return response_frame(ApiKey.HEARTBEAT, version, 0, message)
