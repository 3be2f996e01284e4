"""Replaces or hides node endpoints (KIP-951): the addresses of partitions' new leaders, at the end of a response.

Produce and Fetch have them as tag 0 of the body, ShareFetch and ShareAcknowledge as an array before the body's tags.
Everything here gets the *tail* of a response: from where the endpoints may begin to the end of the frame.

- :func:`replace` is for a response whose size is still to be told: clients get the addresses that ``map_address``
  returns, and nodes without one are left out. Racks and tags are kept.
- :func:`hide` is for one whose size was told already: the addresses disappear, and the tail keeps its length. What
  is too much becomes a tagged field that no client knows, of zeros. Clients skip it (KIP-482) and ask for metadata, as
  they did before there were node endpoints.
"""

import struct
from collections.abc import Iterator

from protocol_codecs import ApiKey
from proxy.wire.broker_addresses import MapAddress
from proxy.wire.varint import encode_varint, skip_tags, varint

_IN_AN_ARRAY = frozenset({int(ApiKey.SHARE_FETCH), int(ApiKey.SHARE_ACKNOWLEDGE)})
_NODE_ENDPOINTS = 0
_UNKNOWN_TAG = 0x7F
_NO_ENDPOINTS = b"\x01"
_INT32 = struct.Struct(">i")


class TailError(Exception):
    """The tail of a response can't be read; the message says why."""


def replace(api_key: int, tail: bytes, map_address: MapAddress) -> bytes:
    """The tail with the addresses that clients are told; the same object if it has no endpoints.

    :raises TailError: it is not what it should be.
    """
    if api_key in _IN_AN_ARRAY:
        end = _end_of_endpoints(tail)
        _check_tags(tail, end)
        if end == len(_NO_ENDPOINTS):
            return tail
        return _mapped(tail, map_address) + tail[end:]
    fields = _tagged_fields(tail)
    if _NODE_ENDPOINTS not in fields:
        return tail
    endpoints = _mapped(fields.pop(_NODE_ENDPOINTS), map_address)
    if endpoints != _NO_ENDPOINTS:
        fields = {_NODE_ENDPOINTS: endpoints, **fields}
    return _encoded(fields)


def hide(api_key: int, tail: bytes) -> bytes:
    """The tail in its length, without addresses; the same object if it has no endpoints.

    :raises TailError: it is not what it should be.
    """
    if api_key in _IN_AN_ARRAY:
        end = _end_of_endpoints(tail)
        own = _check_tags(tail, end)
        if end == len(_NO_ENDPOINTS):
            return tail
        _, own_at = varint(tail, end)
        return _NO_ENDPOINTS + _padded(tail[own_at:], own, len(tail) - len(_NO_ENDPOINTS))
    fields = _tagged_fields(tail)
    if _NODE_ENDPOINTS not in fields:
        return tail
    hidden = {tag: value for tag, value in fields.items() if tag != _NODE_ENDPOINTS}
    hidden[_UNKNOWN_TAG] = bytes(len(fields[_NODE_ENDPOINTS]))
    told = _encoded(dict(sorted(hidden.items())))
    if len(told) != len(tail):
        raise TailError("a length in the tagged fields has more bytes than it needs")
    return told


# -- tagged fields -----------------------------------------------------------------------------------------


def _tagged_fields(tail: bytes) -> dict[int, bytes]:
    """The tagged fields that fill the tail."""
    fields: dict[int, bytes] = {}
    try:
        count, at = varint(tail, 0)
        for _ in range(count):
            tag, at = varint(tail, at)
            size, at = varint(tail, at)
            fields[tag] = tail[at : at + size]
            at += size
    except IndexError:
        raise TailError("the tagged fields are cut short") from None
    if at != len(tail) or len(fields) != count:
        raise TailError("the tagged fields do not fill the rest of the frame")
    return fields


def _check_tags(tail: bytes, at: int) -> list[int]:
    """The tags from ``at`` to the end of the tail, which their fields must fill."""
    return list(_tagged_fields(tail[at:]))


def _encoded(fields: dict[int, bytes]) -> bytes:
    return encode_varint(len(fields)) + b"".join(_field(tag, value) for tag, value in fields.items())


def _field(tag: int, value: bytes) -> bytes:
    return encode_varint(tag) + encode_varint(len(value)) + value


def _padded(own: bytes, tags: list[int], size: int) -> bytes:
    """Tagged fields of ``size`` bytes in all: a body's ``own``, which have these ``tags``, and one of zeros behind.

    Tags ascend (KIP-482), so that of the zeros is above the others. A tag of one byte does not do for every size: the
    field's length has two bytes from 128 on, so there is none of 131 bytes. Then a longer tag fills one byte more.
    """
    count = encode_varint(len(tags) + 1)
    lowest = max([_UNKNOWN_TAG - 1, *tags]) + 1
    for tag in (lowest, lowest + 0x80, lowest + 0x4000):
        room = size - len(count) - len(own) - len(encode_varint(tag))
        for length_size in range(1, 6):
            zeros = room - length_size
            if zeros >= 0 and len(encode_varint(zeros)) == length_size:
                return count + own + _field(tag, bytes(zeros))
    raise TailError(f"no tagged field fills {size} bytes")


# -- the array of endpoints --------------------------------------------------------------------------------


def _endpoints(data: bytes) -> Iterator[tuple[int, str, int, int, int]]:
    """Each endpoint: node id, host, port, and where its rack begins and the endpoint ends."""
    count, at = varint(data, 0)
    for _ in range(count - 1):
        (node_id,) = _INT32.unpack_from(data, at)
        length, host_at = varint(data, at + _INT32.size)
        if not length:
            raise IndexError("a host that is null")
        port_at = host_at + length - 1
        (port,) = _INT32.unpack_from(data, port_at)
        rack_at = port_at + _INT32.size
        length, at = varint(data, rack_at)
        at = skip_tags(data, at + max(length - 1, 0))
        yield node_id, data[host_at:port_at].decode(), port, rack_at, at


def _end_of_endpoints(data: bytes) -> int:
    """Where the array ends with which the data begin."""
    try:
        ends = [end for *_, end in _endpoints(data)]
    except (IndexError, struct.error, UnicodeDecodeError):
        raise TailError("the node endpoints can't be read") from None
    end = ends[-1] if ends else len(_NO_ENDPOINTS)
    if end > len(data):
        raise TailError("the node endpoints are cut short")
    return end


def _mapped(data: bytes, map_address: MapAddress) -> bytes:
    """The array with which the data begin, as clients are told it."""
    kept: list[bytes] = []
    try:
        for node_id, host, port, rack_at, end in _endpoints(data):
            if (address := map_address(node_id, host, port)) is not None:
                shown_host, shown_port = address
                told = shown_host.encode()
                kept.append(
                    _INT32.pack(node_id)
                    + encode_varint(len(told) + 1)
                    + told
                    + _INT32.pack(shown_port)
                    + data[rack_at:end]
                )
    except (IndexError, struct.error, UnicodeDecodeError):
        raise TailError("the node endpoints can't be read") from None
    return encode_varint(len(kept) + 1) + b"".join(kept)
