"""Rewrites the broker addresses (node endpoints, KIP-951) in responses to Produce (from v10) and Fetch (from v16).

They are tag 0 of the body. When a partition has moved, the broker names its new leader's address at the very end of the
response, behind all records. Clients that connect there walk past the proxy (grepplabs/kafka-proxy 223). So the
response is walked through, from length to length and without a look at any record, while it is passed on in pieces;
only its tail is held back until it is complete.

- If the response arrived in one piece, the addresses are replaced.
- If it is larger, its size went out before its tail was seen, and the length may not change. Then the field
  is given a tag number that no client knows and its bytes are cleared: clients skip it and ask for metadata,
  as they did before there were node endpoints.

The layouts are those of Kafka 4.3's ProduceResponse and FetchResponse, flexible versions only.
"""

import struct
from collections.abc import Callable

from protocol_codecs import ApiKey, MalformedMessage
from proxy.wire.broker_addresses import MapAddress
from proxy.wire.frame_splitter import Piece
from proxy.wire.varint import encode_varint, skip_tags, varint

FIRST_VERSION: dict[int, int] = {ApiKey.PRODUCE: 10, ApiKey.FETCH: 16}
"""From which version on responses may carry node endpoints."""

_SIZE = struct.Struct(">i")
_FRAME_AND_CORRELATION_ID = 8
_NODE_ENDPOINTS = 0
_UNKNOWN_TAG = 0x7F
_FIRST_WITH_TOPIC_ID: dict[int, int] = {ApiKey.PRODUCE: 13, ApiKey.FETCH: 13}

_TOPIC_ID = 16
_THROTTLE_TIME = 4
_FETCH_HEAD = 4 + 2 + 4  # throttle time, error code, session id
_FETCH_PARTITION = 4 + 2 + 8 + 8 + 8  # index, error code, high watermark, last stable and log start offset
_ABORTED_TRANSACTION = 8 + 8  # producer id, first offset
_PREFERRED_READ_REPLICA = 4
_PRODUCE_PARTITION = 4 + 2 + 8 + 8 + 8  # index, error code, base offset, append time, log start offset
_BATCH_INDEX = 4

_Step = Callable[[bytes, int], int]


class EndpointRewriter:
    """Edits one response. ``rewrite`` takes its pieces in order and gives what is to be passed on for each."""

    def __init__(self, api_key: int, version: int, map_address: MapAddress) -> None:
        self._api_key = api_key
        self._version = version
        self._map_address = map_address
        self._has_topic_ids = version >= _FIRST_WITH_TOPIC_ID[api_key]
        self._step: _Step | None = self._head  # None: the tail has been reached
        self._topics = 0
        self._partitions = 0
        self._aborted = 0
        self._held = b""  # bytes of the frame that were not given out
        self._skip = 0  # bytes still to come before the next step

    @property
    def passthrough_bytes(self) -> int:
        """How many of the next bytes are passed on whatever they are, if more follow them."""
        return self._skip

    def skipped(self, n: int) -> None:
        """So many of them were passed on without :meth:`rewrite`."""
        self._skip -= n

    def rewrite(self, piece: Piece) -> bytes:
        """What the client gets for this piece.

        :raises MalformedMessage: the response is not what its version says.
        """
        if self._skip >= len(piece.data) and not piece.last:
            self._skip -= len(piece.data)
            return piece.data
        window = self._held + piece.data if self._held else piece.data
        at = self._walk(window)
        if not piece.last:
            self._held = window[at:]
            self._skip = max(0, at - len(window))
            return window[:at]
        if self._step is not None or at > len(window):
            raise self._malformed("the frame ends within the topics")
        if piece.first:
            return self._replaced(window, at)
        return window[:at] + self._hidden(window[at:])

    def _walk(self, window: bytes) -> int:
        """Go on as far as the bytes reach; where the next step begins, which may be beyond their end."""
        at, self._skip = self._skip, 0
        try:
            while self._step is not None and at <= len(window):
                at = self._step(window, at)
        except (IndexError, struct.error):
            pass  # the step needs bytes that are not here yet; it is taken again from its start
        return at

    # -- the steps: each reads from ``at``, says what is next, and gives where that begins -------------------

    def _head(self, data: bytes, at: int) -> int:
        at = skip_tags(data, _FRAME_AND_CORRELATION_ID)
        if self._api_key == ApiKey.FETCH:
            at += _FETCH_HEAD
        count, at = varint(data, at)
        self._topics = max(count - 1, 0)
        self._step = self._next_topic()
        return at

    def _next_topic(self) -> _Step | None:
        if self._topics:
            return self._topic
        return self._throttle_time if self._api_key == ApiKey.PRODUCE else None

    def _topic(self, data: bytes, at: int) -> int:
        if self._has_topic_ids:
            at += _TOPIC_ID
        else:
            length, at = varint(data, at)
            at += max(length - 1, 0)
        count, at = varint(data, at)
        self._topics -= 1
        self._partitions = max(count - 1, 0)
        self._step = self._next_partition()
        return at

    def _next_partition(self) -> _Step:
        if not self._partitions:
            return self._end_of_topic
        return self._fetch_partition if self._api_key == ApiKey.FETCH else self._produce_partition

    def _fetch_partition(self, data: bytes, at: int) -> int:
        count, at = varint(data, at + _FETCH_PARTITION)
        if count <= 1:
            return self._records(data, at)
        self._aborted = count - 1
        self._step = self._aborted_transaction
        return at

    def _aborted_transaction(self, data: bytes, at: int) -> int:
        # A step for each: there may be many thousands, and what was walked through is not walked through again.
        at = skip_tags(data, at + _ABORTED_TRANSACTION)
        self._aborted -= 1
        if not self._aborted:
            self._step = self._records
        return at

    def _records(self, data: bytes, at: int) -> int:
        records, at = varint(data, at + _PREFERRED_READ_REPLICA)
        self._step = self._end_of_partition
        return at + max(records - 1, 0)

    def _produce_partition(self, data: bytes, at: int) -> int:
        count, at = varint(data, at + _PRODUCE_PARTITION)
        for _ in range(count - 1):
            length, at = varint(data, at + _BATCH_INDEX)
            at = skip_tags(data, at + max(length - 1, 0))
        length, at = varint(data, at)
        self._step = self._end_of_partition
        return at + max(length - 1, 0)

    def _end_of_partition(self, data: bytes, at: int) -> int:
        at = skip_tags(data, at)
        self._partitions -= 1
        self._step = self._next_partition()
        return at

    def _end_of_topic(self, data: bytes, at: int) -> int:
        at = skip_tags(data, at)
        self._step = self._next_topic()
        return at

    def _throttle_time(self, _data: bytes, at: int) -> int:
        self._step = None
        return at + _THROTTLE_TIME

    # -- the tail: the tagged fields of the body -----------------------------------------------------------

    def _replaced(self, frame: bytes, at: int) -> bytes:
        """The frame with the addresses that clients are told, and its size made right."""
        fields = self._fields(frame, at)
        if _NODE_ENDPOINTS not in fields:
            return frame
        endpoints = self._endpoints(fields.pop(_NODE_ENDPOINTS))
        if endpoints:
            fields = {_NODE_ENDPOINTS: endpoints, **fields}
        tail = encode_varint(len(fields)) + b"".join(
            encode_varint(tag) + encode_varint(len(value)) + value for tag, value in fields.items()
        )
        body = frame[_SIZE.size : at] + tail
        return _SIZE.pack(len(body)) + body

    def _hidden(self, tail: bytes) -> bytes:
        """The tail in its length, without addresses."""
        fields = self._fields(tail, 0)
        if _NODE_ENDPOINTS not in fields:
            return tail
        hidden = {tag: value for tag, value in fields.items() if tag != _NODE_ENDPOINTS}
        hidden[_UNKNOWN_TAG] = bytes(len(fields[_NODE_ENDPOINTS]))
        told = encode_varint(len(hidden)) + b"".join(
            encode_varint(tag) + encode_varint(len(value)) + value for tag, value in sorted(hidden.items())
        )
        if len(told) != len(tail):
            raise self._malformed("a length in the tagged fields has more bytes than it needs")
        return told

    def _fields(self, data: bytes, at: int) -> dict[int, bytes]:
        """The tagged fields from ``at`` to the end of the data, which they must fill."""
        fields: dict[int, bytes] = {}
        try:
            count, at = varint(data, at)
            for _ in range(count):
                tag, at = varint(data, at)
                size, at = varint(data, at)
                fields[tag] = data[at : at + size]
                at += size
        except IndexError:
            raise self._malformed("the tagged fields are cut short") from None
        if at != len(data) or len(fields) != count:
            raise self._malformed("the tagged fields do not fill the rest of the frame")
        return fields

    def _endpoints(self, data: bytes) -> bytes:
        """The array of endpoints as clients are told it; empty if none is left."""
        kept: list[bytes] = []
        try:
            count, at = varint(data, 0)
            for _ in range(count - 1):
                (node_id,) = _SIZE.unpack_from(data, at)
                length, host_at = varint(data, at + 4)
                port_at = host_at + length - 1
                host = data[host_at:port_at].decode()
                (port,) = _SIZE.unpack_from(data, port_at)
                rack_at = port_at + 4
                length, rest_at = varint(data, rack_at)
                end = skip_tags(data, rest_at + max(length - 1, 0))
                address = self._map_address(node_id, host, port)
                if address is not None:
                    told = address.host.encode()
                    kept.append(
                        _SIZE.pack(node_id)
                        + encode_varint(len(told) + 1)
                        + told
                        + _SIZE.pack(address.port)
                        + data[rack_at:end]
                    )
                at = end
        except (IndexError, struct.error, UnicodeDecodeError):
            raise self._malformed("the node endpoints can't be read") from None
        return encode_varint(len(kept) + 1) + b"".join(kept) if kept else b""

    def _malformed(self, reason: str) -> MalformedMessage:
        name = f"{ApiKey(self._api_key).name.title()}Response"
        return MalformedMessage(name, self._version, "node_endpoints", 0, reason)
