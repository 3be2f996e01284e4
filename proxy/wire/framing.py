"""Builds and skips what precedes a body on the wire, the frame's size and the header. By hand, for speed.

Bodies are encoded and decoded by ``protocol_codecs``; ``protocol_codecs.messages.headers`` declares the same
headers, and a test holds both together.
"""

import struct

from protocol_codecs import MalformedMessage, Message, encode
from protocol_codecs.registry import request_header_version, response_header_version
from proxy.wire.varint import skip_tags

_REQUEST = struct.Struct(">ihhih")
_RESPONSE = struct.Struct(">ii")
_CORRELATION_ID = struct.Struct(">i")
_SIZE_BYTES = 4
_NO_TAGS = b"\x00"
_FLEXIBLE_REQUEST = 2


def request_frame(
    api_key: int, version: int, correlation_id: int, client_id: str | None, message: Message
) -> bytes:
    """A request as it goes over the wire, with its size."""
    client = b"" if client_id is None else client_id.encode()
    tags = _NO_TAGS if request_header_version(api_key, version) == _FLEXIBLE_REQUEST else b""
    body = encode(message, version)
    size = _REQUEST.size - _SIZE_BYTES + len(client) + len(tags) + len(body)
    client_length = -1 if client_id is None else len(client)
    return _REQUEST.pack(size, api_key, version, correlation_id, client_length) + client + tags + body


def response_frame(api_key: int, version: int, correlation_id: int, message: Message) -> bytes:
    """A response as it goes over the wire, with its size."""
    return response_of_body(api_key, version, correlation_id, encode(message, version))


def response_of_body(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """The frame of a response whose body is encoded already."""
    tags = _NO_TAGS if response_header_version(api_key, version) else b""
    size = _RESPONSE.size - _SIZE_BYTES + len(tags) + len(body)
    return _RESPONSE.pack(size, correlation_id) + tags + body


def correlation_id_of(response: bytes) -> int:
    """The correlation id of a response.

    :raises MalformedMessage: the frame is too short to have one.
    """
    try:
        correlation_id: int = _CORRELATION_ID.unpack_from(response, _SIZE_BYTES)[0]
    except struct.error:
        raise MalformedMessage(
            "ResponseHeader", 0, "correlation_id", _SIZE_BYTES, "the frame ends before it"
        ) from None
    return correlation_id


def response_body_offset(api_key: int, version: int, frame: bytes) -> int:
    """Where the body of a response begins in its frame.

    :raises MalformedMessage: the header does not fit into the frame.
    """
    offset = _RESPONSE.size
    if response_header_version(api_key, version) == 0:
        return offset
    try:
        return skip_tags(frame, offset)
    except IndexError:
        reason = "the frame ends within them"
        raise MalformedMessage("ResponseHeader", 1, "tagged fields", offset, reason) from None
