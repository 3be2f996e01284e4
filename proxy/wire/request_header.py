"""What the relay reads of a request without decoding it: its header, and whether a response will come.

All requests start alike (KIP-482 keeps the first four fields in place): api key, version, correlation id,
client id; from the flexible versions on tagged fields follow.
"""

import struct

import msgspec

from protocol_codecs.api_key import ApiKey
from protocol_codecs.registry import request_header_version
from protocol_codecs.text import decode_text
from proxy.wire.translated_apis import WITH_GROUP_ID
from proxy.wire.varint import skip_tags, varint

_FIXED = struct.Struct(">ihhih")  # size, api key, api version, correlation id, length of the client id
_INT16 = struct.Struct(">h")
_CLIENT_ID = _FIXED.size
_FLEXIBLE_HEADER = 2
_NULLABLE_TRANSACTIONAL_ID = 3
_PRODUCE = int(ApiKey.PRODUCE)
_TXN_OFFSET_COMMIT = int(ApiKey.TXN_OFFSET_COMMIT)


class HeaderError(Exception):
    """The bytes of a frame are no Kafka request; the message says why."""


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """The fixed part of a request's header; ``client_id_end`` is the offset of what follows the client id."""

    api_key: int
    version: int
    correlation_id: int
    client_id_end: int


def read_header(frame: bytes) -> RequestHeader:
    """Read the header of a request from the first piece of its frame (which begins with the size).

    :raises HeaderError: it is too short or the client id does not fit into it.
    """
    size = len(frame)
    if size < _CLIENT_ID:
        raise HeaderError(f"a request of {size - 4} bytes, too short for a header")
    _, api_key, version, correlation_id, client_id_length = _FIXED.unpack_from(frame)
    end = _CLIENT_ID + client_id_length if client_id_length > 0 else _CLIENT_ID
    if client_id_length < -1 or end > size:
        raise HeaderError(f"a header with a client id of {client_id_length} bytes in a request of {size - 4}")
    return RequestHeader(api_key, version, correlation_id, end)


def api_key_of(frame: bytes) -> int:
    """The API key of a request, from the first piece of its frame; -1 if that has none."""
    return int.from_bytes(frame[4:6], signed=True) if len(frame) >= _CLIENT_ID else -1


def client_id_of(frame: bytes, header: RequestHeader) -> str | None:
    """The client id of the header, None if it is null."""
    (length,) = _INT16.unpack_from(frame, _CLIENT_ID - 2)
    if length < 0:
        return None
    return decode_text(frame[_CLIENT_ID : header.client_id_end])


def body_offset(frame: bytes, header: RequestHeader) -> int:
    """Where the body starts: behind the header's tagged fields, if its version has them.

    :raises HeaderError: the tagged fields do not fit into the frame.
    """
    offset = header.client_id_end
    if request_header_version(header.api_key, header.version) < _FLEXIBLE_HEADER:
        return offset
    try:
        offset = skip_tags(frame, offset)
    except IndexError as error:
        raise HeaderError(f"a header whose tagged fields can't be read: {error}") from None
    if offset > len(frame):
        raise HeaderError("a header whose tagged fields are longer than the request")
    return offset


def is_enough(beginning: bytes) -> bool:
    """Whether the beginning of a large request has all that is read of it when it is relayed."""
    try:
        header = read_header(beginning)
        if header.api_key == _PRODUCE:
            expects_response(beginning, header)
        elif header.api_key in WITH_GROUP_ID:
            group_id_of(beginning, header)
    except HeaderError:
        return False  # it is incomplete, or nonsense, which shows when there is more of it
    return True


def expects_response(frame: bytes, header: RequestHeader) -> bool:
    """Whether the broker answers this Produce request; with acks=0 it does not.

    ``acks`` stands behind the transactional id, which is there from v3 on and may be null
    (kroxylicious 2640 misread this).

    :raises HeaderError: the request ends before ``acks``.
    """
    offset = body_offset(frame, header)
    try:
        if request_header_version(ApiKey.PRODUCE, header.version) >= _FLEXIBLE_HEADER:
            length, offset = varint(frame, offset)
            offset += max(length - 1, 0)
        elif header.version >= _NULLABLE_TRANSACTIONAL_ID:
            (length,) = _INT16.unpack_from(frame, offset)
            offset += _INT16.size + max(length, 0)
        acks: int = _INT16.unpack_from(frame, offset)[0]
    except (IndexError, struct.error):
        raise HeaderError("a Produce request that ends before its acks") from None
    return acks != 0


def group_id_of(frame: bytes, header: RequestHeader) -> str:
    """The group id of a request of :data:`proxy.wire.translated_apis.WITH_GROUP_ID`, which stands at its beginning.

    Only TxnOffsetCommit has a transactional id before it.

    :raises HeaderError: the request ends before.
    """
    is_compact = request_header_version(header.api_key, header.version) >= _FLEXIBLE_HEADER
    text = b""
    try:
        offset = body_offset(frame, header)
        for _ in range(2 if header.api_key == _TXN_OFFSET_COMMIT else 1):
            if is_compact:
                length, offset = varint(frame, offset)
                length -= 1
            else:
                (length,) = _INT16.unpack_from(frame, offset)
                offset += _INT16.size
            text, offset = frame[offset : offset + length], offset + length
            if length < 0 or offset > len(frame):
                raise HeaderError("a request that ends before its group id")
        return decode_text(text)
    except (IndexError, struct.error):
        raise HeaderError("a request that ends before its group id") from None
