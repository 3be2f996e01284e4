"""Node endpoints in responses of Produce, Fetch and share groups, against kio's schemas of Kafka's own definitions."""

import datetime as dt
import importlib
import io
import uuid
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta, i64

from protocol_codecs import ApiKey, MalformedMessage
from proxy.config.schema import Address
from proxy.wire.endpoint_rewriter import FIRST_VERSION, EndpointRewriter
from proxy.wire.frame_splitter import Piece
from proxy.wire.varint import varint
from tests.proxy.fakes import wire

BROKER_HOST = "broker-behind-the-proxy.internal"
VERSIONS = [
    (ApiKey.FETCH, 16),
    (ApiKey.FETCH, 17),
    (ApiKey.FETCH, 18),
    *((ApiKey.PRODUCE, v) for v in range(10, 14)),
    (ApiKey.SHARE_FETCH, 1),
    (ApiKey.SHARE_FETCH, 2),
    (ApiKey.SHARE_ACKNOWLEDGE, 1),
    (ApiKey.SHARE_ACKNOWLEDGE, 2),
]
IN_AN_ARRAY = {ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}
NO_TIME = i32Timedelta.parse(dt.timedelta(0))


def schema(api_key: ApiKey, version: int) -> ModuleType:
    return importlib.import_module(f"kio.schema.{api_key.name.lower()}.v{version}.response")


def response_type(api_key: ApiKey, version: int) -> Any:
    name = "".join(word.title() for word in api_key.name.split("_"))
    return getattr(schema(api_key, version), f"{name}Response")


def frame_of(api_key: ApiKey, version: int, message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return wire.response(api_key, version, 7, buffer.getvalue())


def message_of(api_key: ApiKey, version: int, frame: bytes) -> Any:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    message, size = entity_reader(response_type(api_key, version))(frame[9:], 0)
    assert size == len(frame) - 9
    return message


def fetch_partition(
    s: ModuleType, index: int, records: bytes | None, aborted: int | None, leader: int
) -> Any:
    transactions = None
    if aborted is not None:
        transactions = tuple(
            s.AbortedTransaction(producer_id=i64(n), first_offset=i64(n)) for n in range(aborted)
        )
    return s.PartitionData(
        partition_index=i32(index),
        error_code=ErrorCode.not_leader_or_follower if leader >= 0 else ErrorCode.none,
        high_watermark=i64(5),
        current_leader=s.LeaderIdAndEpoch(leader_id=leader, leader_epoch=i32(3 if leader >= 0 else -1)),
        aborted_transactions=transactions,
        records=records,
    )


def produce_partition(s: ModuleType, index: int, text: bytes | None, errors: int | None, leader: int) -> Any:
    message = None if text is None else text.hex()
    return s.PartitionProduceResponse(
        index=i32(index),
        error_code=ErrorCode.not_leader_or_follower if leader >= 0 else ErrorCode.none,
        base_offset=i64(3),
        record_errors=tuple(
            s.BatchIndexAndErrorMessage(batch_index=i32(n), batch_index_error_message=message)
            for n in range(errors or 0)
        ),
        error_message=message,
        current_leader=s.LeaderIdAndEpoch(leader_id=leader, leader_epoch=i32(3 if leader >= 0 else -1)),
    )


def share_fetch_partition(
    s: ModuleType, index: int, records: bytes | None, acquired: int | None, leader: int
) -> Any:
    return s.PartitionData(
        partition_index=i32(index),
        error_code=ErrorCode.not_leader_or_follower if leader >= 0 else ErrorCode.none,
        error_message=None if records is None else records.hex(),
        acknowledge_error_code=i16(acquired or 0),
        acknowledge_error_message=None if acquired is None else "refused" * acquired,
        current_leader=s.LeaderIdAndEpoch(leader_id=i32(leader), leader_epoch=i32(3 if leader >= 0 else -1)),
        records=records or b"",
        acquired_records=tuple(
            s.AcquiredRecords(first_offset=i64(10 * n), last_offset=i64(10 * n + 4), delivery_count=i16(1))
            for n in range(acquired or 0)
        ),
    )


def share_acknowledge_partition(
    s: ModuleType, index: int, text: bytes | None, _number: int | None, leader: int
) -> Any:
    return s.PartitionData(
        partition_index=i32(index),
        error_code=ErrorCode.not_leader_or_follower if leader >= 0 else ErrorCode.none,
        error_message=None if text is None else text.hex(),
        current_leader=s.LeaderIdAndEpoch(leader_id=i32(leader), leader_epoch=i32(3 if leader >= 0 else -1)),
    )


PARTITION_OF = {
    ApiKey.PRODUCE: produce_partition,
    ApiKey.FETCH: fetch_partition,
    ApiKey.SHARE_FETCH: share_fetch_partition,
    ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge_partition,
}


def topic(api_key: ApiKey, version: int, name: str, partitions: tuple[Any, ...]) -> Any:
    s = schema(api_key, version)
    topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    if api_key == ApiKey.SHARE_FETCH:
        return s.ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions)
    if api_key == ApiKey.SHARE_ACKNOWLEDGE:
        return s.ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
    if api_key == ApiKey.FETCH:
        return s.FetchableTopicResponse(topic_id=topic_id, partitions=partitions)
    if version >= 13:
        return s.TopicProduceResponse(topic_id=topic_id, partition_responses=partitions)
    return s.TopicProduceResponse(name=name, partition_responses=partitions)


def whole(api_key: ApiKey, version: int, topics: tuple[Any, ...], nodes: tuple[int, ...]) -> Any:
    s = schema(api_key, version)
    endpoints = tuple(
        s.NodeEndpoint(node_id=node, host=BROKER_HOST, port=i32(9092), rack="r" if node % 2 else None)
        for node in nodes
    )
    extra: dict[str, Any] = {} if api_key == ApiKey.PRODUCE else {"error_code": ErrorCode.none}
    if api_key in IN_AN_ARRAY:
        extra["error_message"] = "a message" if topics else None
        if (api_key, version) != (ApiKey.SHARE_ACKNOWLEDGE, 1):
            extra["acquisition_lock_timeout"] = i32Timedelta.parse(dt.timedelta(seconds=30))
    return response_type(api_key, version)(
        throttle_time=NO_TIME, responses=topics, node_endpoints=endpoints, **extra
    )


partition = st.tuples(
    st.none() | st.binary(max_size=300), st.none() | st.integers(0, 3), st.sampled_from([-1, 2])
)


@st.composite
def responses(draw: st.DrawFn) -> tuple[ApiKey, int, Any]:
    api_key, version = draw(st.sampled_from(VERSIONS))
    make = PARTITION_OF[api_key]
    layout = draw(st.lists(st.lists(partition, max_size=4), max_size=4))
    nodes = draw(st.sampled_from([(), (1,), (2, 12), (12,), (1, 2, 3, 4)]))
    topics = tuple(
        topic(
            api_key,
            version,
            f"topic-{n}",
            tuple(make(schema(api_key, version), m, *fields) for m, fields in enumerate(partitions)),
        )
        for n, partitions in enumerate(layout)
    )
    return api_key, version, whole(api_key, version, topics, nodes)


def told(node_id: int, host: str, port: int) -> Address | None:
    assert (host, port) == (BROKER_HOST, 9092)
    return Address("proxy", 9100 + node_id) if node_id < 10 else None


@given(responses())
def test_addresses_of_a_response_in_one_piece_are_replaced(response):
    api_key, version, message = response
    frame = frame_of(api_key, version, message)
    edited = EndpointRewriter(api_key, version, told).rewrite(
        Piece(frame, first=True, last=True, frame_size=len(frame))
    )
    expected = replace(
        message,
        node_endpoints=tuple(
            replace(node, host="proxy", port=i32(9100 + node.node_id))
            for node in message.node_endpoints
            if node.node_id < 10
        ),
    )
    assert message_of(api_key, version, edited) == expected


@settings(max_examples=300)
@given(responses(), st.data())
def test_addresses_of_a_response_in_pieces_are_hidden_without_changing_its_length(response, data):
    api_key, version, message = response
    frame = frame_of(api_key, version, message)
    cuts = sorted(data.draw(st.sets(st.integers(9, len(frame) - 1), min_size=1, max_size=12)))
    editor = EndpointRewriter(api_key, version, told)
    edited = b""
    for start, end in zip([0, *cuts], [*cuts, len(frame)], strict=True):
        if start and (moved := data.draw(st.integers(0, min(editor.passthrough_bytes, end - 1 - start)))):
            editor.skipped(moved)
            edited += frame[start : start + moved]
            start += moved  # noqa: PLW2901  the rest of the piece
        piece = Piece(frame[start:end], first=start == 0, last=end == len(frame), frame_size=len(frame))
        edited += editor.rewrite(piece)
        assert len(frame[:end]) - len(edited) < 600, "no more is held back than one step needs"
    assert len(edited) == len(frame)
    assert BROKER_HOST.encode() not in edited
    without = frame_of(api_key, version, replace(message, node_endpoints=()))
    tail = len(without) - 1
    assert edited[4:tail] == without[4:-1]
    if not message.node_endpoints:
        assert edited == without
    elif api_key in IN_AN_ARRAY:
        theirs = wire.body_of(without, api_key, version)
        assert wire.body_of(edited, api_key, version) == theirs, "our own decoder skips unknown tags"
    else:  # a tagged field that no client knows, of zeros (kio alone refuses those, so it can't judge here)
        count, at = varint(edited, tail)
        tag, at = varint(edited, at)
        size, at = varint(edited, at)
        assert (count, tag, edited[at:]) == (1, 127, bytes(size))


def test_records_are_passed_on_as_they_arrive():
    s = schema(ApiKey.FETCH, 16)
    partitions = (fetch_partition(s, 0, bytes(1_000_000), None, -1), fetch_partition(s, 1, None, None, 2))
    message = whole(ApiKey.FETCH, 16, (topic(ApiKey.FETCH, 16, "t", partitions),), (2,))
    frame = frame_of(ApiKey.FETCH, 16, message)
    editor = EndpointRewriter(ApiKey.FETCH, 16, told)
    passed = 0
    for start in range(0, 900_000, 100_000):
        data = frame[start : start + 100_000]
        passed += len(editor.rewrite(Piece(data, first=start == 0, last=False, frame_size=len(frame))))
        assert passed == start + 100_000


def test_thousands_of_aborted_transactions_are_walked_through_once():
    aborted = fetch_partition(schema(ApiKey.FETCH, 16), 0, b"", 20_000, -1)
    frame = frame_of(
        ApiKey.FETCH, 16, whole(ApiKey.FETCH, 16, (topic(ApiKey.FETCH, 16, "t", (aborted,)),), (2,))
    )
    editor = EndpointRewriter(ApiKey.FETCH, 16, told)
    passed = 0
    for start in range(0, 300_000, 10_000):
        data = frame[start : start + 10_000]
        passed += len(editor.rewrite(Piece(data, first=start == 0, last=False, frame_size=len(frame))))
        assert start + len(data) - passed < 20, "what is held back is walked through again"


def test_thousands_of_record_errors_are_walked_through_once():
    refused = produce_partition(schema(ApiKey.PRODUCE, 10), 0, b"why", 20_000, -1)
    topics = (topic(ApiKey.PRODUCE, 10, "t", (refused,)),)
    frame = frame_of(ApiKey.PRODUCE, 10, whole(ApiKey.PRODUCE, 10, topics, (2,)))
    editor = EndpointRewriter(ApiKey.PRODUCE, 10, told)
    passed = 0
    for start in range(0, 200_000, 10_000):
        data = frame[start : start + 10_000]
        passed += len(editor.rewrite(Piece(data, first=start == 0, last=False, frame_size=len(frame))))
        assert start + len(data) - passed < 20, "what is held back is walked through again"


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_no_more_is_held_back_than_the_addresses_of_some_thousand_brokers(api_key, version):
    """A broker may announce fields without end."""
    frame = frame_of(api_key, version, whole(api_key, version, (), tuple(range(12_000))))
    editor = EndpointRewriter(api_key, version, told)
    pieces = [
        Piece(frame[start : start + 10_000], first=start == 0, last=False, frame_size=len(frame))
        for start in range(0, 300_000, 10_000)
    ]
    with pytest.raises(MalformedMessage, match="belong together"):
        list(map(editor.rewrite, pieces))


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_a_response_that_ends_too_early_is_malformed(api_key, version):
    make = PARTITION_OF[api_key]
    partitions = (make(schema(api_key, version), 0, b"abc", 1, 2),)
    frame = frame_of(
        api_key, version, whole(api_key, version, (topic(api_key, version, "t", partitions),), (1, 2))
    )
    for end in range(9, len(frame)):
        cut = frame[:end]
        with pytest.raises(MalformedMessage):
            EndpointRewriter(api_key, version, told).rewrite(
                Piece(cut, first=True, last=True, frame_size=end)
            )


def test_acquired_records_of_many_batches_are_walked_through_once():
    many = share_fetch_partition(schema(ApiKey.SHARE_FETCH, 2), 0, b"", 20_000, -1)
    topics = (topic(ApiKey.SHARE_FETCH, 2, "t", (many,)),)
    frame = frame_of(ApiKey.SHARE_FETCH, 2, whole(ApiKey.SHARE_FETCH, 2, topics, (2,)))
    editor = EndpointRewriter(ApiKey.SHARE_FETCH, 2, told)
    passed = len(editor.rewrite(Piece(frame[:200_000], first=True, last=False, frame_size=len(frame))))
    for start in range(200_000, 360_000, 10_000):
        data = frame[start : start + 10_000]
        passed += len(editor.rewrite(Piece(data, first=False, last=False, frame_size=len(frame))))
        assert start + len(data) - passed < 20, "what is held back is walked through again"


def test_the_versions_before_carry_no_addresses():
    for api_key, first in FIRST_VERSION.items():
        if api_key in IN_AN_ARRAY:
            continue  # the version before was never released
        assert not hasattr(schema(ApiKey(api_key), first - 1), "NodeEndpoint")
        assert hasattr(schema(ApiKey(api_key), first), "NodeEndpoint")
