"""Hiding the node endpoints of share groups in a tail whose length is told already: every length, every cut."""

from collections.abc import Iterator
from itertools import product

import pytest

from protocol_codecs import ApiKey, Message, decode, encode
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.messages.share_acknowledge import ShareAcknowledgeResponse
from protocol_codecs.messages.share_fetch import (
    ShareFetchResponse,
    ShareFetchResponseAcquiredRecords,
    ShareFetchResponseNodeEndpoint,
    ShareFetchResponsePartition,
    ShareFetchResponseTopic,
)
from proxy.config.schema import Address
from proxy.wire import node_endpoints
from proxy.wire.endpoint_rewriter import EndpointRewriter
from proxy.wire.frame_splitter import Piece
from proxy.wire.node_endpoints import TailError
from proxy.wire.varint import encode_varint, varint
from tests.proxy.fakes import wire
from tests.skips import Need, without
from tools.codec_oracle.oracle import Answer, Oracle, OracleUnavailableError

SHORTEST = 13
"""One endpoint with an empty host and no rack, and no tagged fields."""

SHORT = range(SHORTEST, 301)
LONG = range(16_300, 16_501)
"""Around the sizes from which a tagged field's length needs a second and a third byte."""

NO_TOPICS = 4 + 2 + 1 + 4 + 1
"""The bytes of an empty ShareFetch response before its endpoints."""

ACQUIRED = ShareFetchResponse(
    acquisition_lock_timeout_ms=30_000,
    responses=(
        ShareFetchResponseTopic(
            topic_id=bytes(range(16)),
            partitions=(
                ShareFetchResponsePartition(
                    partition_index=3,
                    error_message="moved",
                    records=b"records",
                    acquired_records=(
                        ShareFetchResponseAcquiredRecords(first_offset=5, last_offset=9, delivery_count=1),
                    ),
                ),
            ),
        ),
    ),
)


def tail_of(size: int) -> bytes:
    """An array of one endpoint and no tagged fields, in so many bytes."""
    rack_sizes = range(max(size - SHORTEST - 4, 0), size - SHORTEST + 1)
    for host_size, rack_size in product(range(3), rack_sizes):
        endpoint = ShareFetchResponseNodeEndpoint(host="h" * host_size, rack="r" * rack_size or None)
        tail = encode(ShareFetchResponse(node_endpoints=(endpoint,)), 1)[NO_TOPICS:]
        if len(tail) == size:
            return tail
    raise AssertionError(f"no array of one endpoint has {size} bytes")


def with_tail(size: int) -> bytes:
    """The body of a response with records that ends with :func:`tail_of`."""
    return encode(ACQUIRED, 1)[:-2] + tail_of(size)


def told(_node_id: int, _host: str, _port: int) -> Address:
    return Address("proxy", 9100)


@pytest.mark.parametrize("size", [*SHORT, *LONG])
def test_the_endpoints_disappear_and_the_tail_keeps_its_length(size):
    body = encode(ACQUIRED, 1)[:-2] + node_endpoints.hide(ApiKey.SHARE_FETCH, tail_of(size))
    assert len(body) == len(with_tail(size))
    assert decode(ShareFetchResponse, 1, body) == ACQUIRED


def test_a_tagged_field_of_131_or_16388_bytes_needs_a_longer_tag():
    """A field's length has a second byte from 128 on and a third from 16,384 on; none has a byte too many."""
    for size in (131, 16_388):
        hidden = node_endpoints.hide(ApiKey.SHARE_FETCH, tail_of(size + 1))
        count, at = varint(hidden, 1)
        tag, at = varint(hidden, at)
        length, end = varint(hidden, at)
        assert (count, hidden[end:]) == (1, bytes(length))
        assert hidden[1:end] == encode_varint(1) + encode_varint(tag) + encode_varint(length)
        assert tag > 0x7F


def test_the_padding_stands_behind_the_tagged_fields_of_the_body():
    """Tags ascend (KIP-482)."""
    for last in (5, 0x7F, 0x80, 0x3FFF):
        own = b"\1a" + encode_varint(last) + b"\2bc"
        tail = tail_of(40)[:-1] + b"\2" + b"\0" + own
        hidden = node_endpoints.hide(ApiKey.SHARE_FETCH, tail)
        assert len(hidden) == len(tail)
        assert hidden.startswith(b"\1\3\0" + own)
        padding, _ = varint(hidden, 3 + len(own))
        assert padding > last


def test_an_array_without_endpoints_is_left_as_it_is():
    for tail in (b"\1\0", b"\1\1\5\3abc"):
        assert node_endpoints.hide(ApiKey.SHARE_FETCH, tail) == tail
        assert node_endpoints.replace(ApiKey.SHARE_FETCH, tail, told) == tail


def test_tagged_fields_of_endpoint_and_body_are_kept_where_the_address_is_replaced():
    endpoint = b"\0\0\0\1" + b"\2h" + b"\0\0\1\1" + b"\3rk" + b"\1\5\1x"
    tail = b"\2" + endpoint + b"\1\7\1y"
    assert node_endpoints.replace(ApiKey.SHARE_ACKNOWLEDGE, tail, told) == (
        b"\2" + b"\0\0\0\1" + b"\6proxy" + (9100).to_bytes(4) + b"\3rk" + b"\1\5\1x" + b"\1\7\1y"
    )


@pytest.mark.parametrize(
    "act", [node_endpoints.hide, lambda api, tail: node_endpoints.replace(api, tail, told)]
)
def test_a_tail_that_is_cut_short_is_an_error(act):
    tail = tail_of(40)[:-1] + b"\1\5\1x"
    for end in range(len(tail)):
        with pytest.raises(TailError):
            act(ApiKey.SHARE_FETCH, tail[:end])
    with pytest.raises(TailError):
        act(ApiKey.SHARE_FETCH, tail + b"\0")
    with pytest.raises(TailError, match="can't be read"):
        act(ApiKey.SHARE_FETCH, b"\2" + bytes(11))  # a host that is null


@pytest.mark.parametrize("size", SHORT)
def test_it_is_the_same_wherever_the_response_is_cut_in_two(size):
    frame = wire.response(ApiKey.SHARE_FETCH, 1, 7, with_tail(size))
    expected = frame[:-size] + node_endpoints.hide(ApiKey.SHARE_FETCH, tail_of(size))
    for cut in range(1, len(frame)):
        assert cut_at(frame, cut) == expected
    assert wire.body_of(expected, ApiKey.SHARE_FETCH, 1) == ACQUIRED


@pytest.mark.parametrize("size", LONG)
def test_it_is_the_same_wherever_a_long_one_is_cut_in_two(size):
    frame = wire.response(ApiKey.SHARE_FETCH, 1, 7, with_tail(size))
    expected = frame[:-size] + node_endpoints.hide(ApiKey.SHARE_FETCH, tail_of(size))
    for cut in (
        *range(1, len(frame) - size + 20),
        *range(len(frame) - size + 20, len(frame), 1009),
        len(frame) - 1,
    ):
        assert cut_at(frame, cut) == expected


def cut_at(frame: bytes, cut: int) -> bytes:
    """What the client gets of a frame in two pieces."""
    rewriter = EndpointRewriter(ApiKey.SHARE_FETCH, 1, told)
    return rewriter.rewrite(
        Piece(frame[:cut], first=True, last=False, frame_size=len(frame))
    ) + rewriter.rewrite(Piece(frame[cut:], first=False, last=True, frame_size=len(frame)))


@pytest.fixture(scope="module")
def kafka() -> Iterator[Oracle]:
    try:
        running = Oracle("4.4.0")
    except OracleUnavailableError as error:
        without(Need.KAFKA, error)
    with running:
        yield running


@pytest.mark.kafka
def test_kafkas_own_client_reads_every_length(kafka):
    """It keeps what it does not know as it stands, so it writes the same bytes again."""
    for size in (*SHORT, *LONG):
        hidden = node_endpoints.hide(ApiKey.SHARE_FETCH, tail_of(size))
        for api_key, version, message in (
            (ApiKey.SHARE_FETCH, 1, ACQUIRED),
            (ApiKey.SHARE_FETCH, 2, ACQUIRED),
            (ApiKey.SHARE_ACKNOWLEDGE, 1, ShareAcknowledgeResponse()),
            (ApiKey.SHARE_ACKNOWLEDGE, 2, ShareAcknowledgeResponse()),
        ):
            body = without_tail(message, version) + hidden
            answer = kafka.ask(ALL_APIS[api_key].response.__name__, version, body)
            assert isinstance(answer, Answer), (size, answer)
            assert answer.written == body
            assert answer.fields["nodeEndpoints"] == []


def without_tail(message: Message, version: int) -> bytes:
    return encode(message, version)[:-2]
