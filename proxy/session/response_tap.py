"""Reads responses that pass through, without delaying them: a tap collects the pieces while they go to the client.

A response that can't be decoded is ignored here; the client decides what to do with it.
"""

from collections.abc import Callable

from protocol_codecs import ApiKey, CodecError, Message, decode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.metadata import MetadataResponse
from proxy.wire.bounded_decoding import read_group_call, read_group_response
from proxy.wire.framing import response_body_offset
from proxy.wire.request_header import RequestHeader, client_id_of
from translation.actions import Connection, Request, RequestId
from translation.passthrough.topic_names import TopicNames

TOPIC_IDS_FROM = 10
"""The version of Metadata since which responses have the ids of topics."""

_HEARTBEAT_SUCCEEDED = HeartbeatResponse()
_FLEXIBLE_HEARTBEAT = 4
_MOST_BYTES = 1024 * 1024
"""A tap ignores larger responses: it would have to hold them in memory."""


class ResponseTap:
    """Collects the pieces of a response, and gives ``on_frame`` the whole frame once the last one has arrived.

    One tap can serve several requests of a connection, since their responses come one after another.
    """

    __slots__ = ("_collected", "_on_frame", "_too_large")

    def __init__(self, on_frame: Callable[[bytes], None]) -> None:
        self._on_frame = on_frame
        self._collected: bytearray | None = None
        self._too_large = False

    def take(self, data: bytes, *, last: bool) -> None:
        """Take the next piece."""
        if self._too_large:
            self._too_large = not last
            return
        if self._collected is not None:
            if len(self._collected) + len(data) > _MOST_BYTES:
                self._too_large = not last
                self._collected = None
                return
            self._collected += data
            data = bytes(self._collected) if last else b""
            if last:
                self._collected = None
        elif not last:
            self._collected = bytearray(data)
        if last:
            try:
                self._on_frame(data)
            except CodecError:
                return


class HeartbeatTap(ResponseTap):
    """The tap of a Heartbeat: decodes no plain success, but gives ``on_response`` the same message each time."""

    __slots__ = ("_on_response", "_version")

    def __init__(
        self, version: int, on_response: Callable[[Message], None], on_frame: Callable[[bytes], None]
    ) -> None:
        super().__init__(on_frame)
        self._version = version
        self._on_response = on_response

    def take(self, data: bytes, *, last: bool) -> None:
        """Take the next piece."""
        if last and self._collected is None and is_plain_success(data, self._version):
            self._on_response(_HEARTBEAT_SUCCEEDED)
        else:
            super().take(data, last=last)


_HEARTBEAT_SIZES = {0: 10, 1: 14, 2: 14, 3: 14, 4: 16}
"""The size of a response frame without tagged fields, by version."""


def is_plain_success(frame: bytes, version: int) -> bool:
    """Whether a Heartbeat response is a success without tagged fields. Nearly all are, and need no decoding."""
    if len(frame) != _HEARTBEAT_SIZES.get(version):
        return False
    return frame[-3:] == b"\0\0\0" if version == _FLEXIBLE_HEARTBEAT else frame[-2:] == b"\0\0"


def decode_group_call(
    frame: bytes, header: RequestHeader, connection: Connection, request_id: RequestId, max_elements: int
) -> Request | None:
    """Decode the group call in a request frame; None if that fails, which the broker will tell the client.

    A call with more than ``max_elements`` elements is not decoded either.
    """
    try:
        message = read_group_call(header, frame, max_elements)
    except CodecError:
        return None
    client_id = client_id_of(frame, header)
    return Request(request_id, connection, header.api_key, header.version, client_id, message)


def tap_group_call(
    request: Request, on_response: Callable[[Message], None], max_elements: int
) -> ResponseTap:
    """Return a tap that gives ``on_response`` the decoded response if it has at most ``max_elements`` elements."""

    def on_frame(frame: bytes) -> None:
        on_response(read_group_response(request.api_key, request.version, frame, max_elements))

    if request.api_key == ApiKey.HEARTBEAT:
        return HeartbeatTap(request.version, on_response, on_frame)
    return ResponseTap(on_frame)


def tap_topic_names(version: int, topics: TopicNames) -> ResponseTap:
    """Return a tap that learns topic names from a Metadata response of this version."""

    def on_frame(frame: bytes) -> None:
        response = decode(
            MetadataResponse, version, frame, response_body_offset(ApiKey.METADATA, version, frame)
        )
        topics.learn((topic.topic_id, topic.name) for topic in response.topics if topic.name)

    return ResponseTap(on_frame)
