import pytest

from protocol_codecs import ApiKey, encode
from protocol_codecs.messages.headers import RequestHeader, ResponseHeader
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from proxy.wire.framing import request_frame, response_body_offset, response_frame
from proxy.wire.request_header import (
    HeaderError,
    body_offset,
    client_id_of,
    expects_response,
    group_id_of,
    read_header,
)
from tests.proxy.fakes import messages, wire


@pytest.mark.parametrize("client_id", [None, "", "consumer-ä"])
@pytest.mark.parametrize("version", [3, 4])
def test_the_header_is_read_as_the_codecs_write_it(version, client_id):
    body = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    frame = wire.request(ApiKey.HEARTBEAT, version, -7, body, client_id)
    header = read_header(frame)
    assert (header.api_key, header.version, header.correlation_id) == (ApiKey.HEARTBEAT, version, -7)
    assert client_id_of(frame, header) == client_id
    assert frame[body_offset(frame, header) :] == encode(body, version)


def test_tagged_fields_of_the_header_are_skipped():
    header = encode(
        RequestHeader(request_api_key=12, request_api_version=4, correlation_id=1, client_id="c"), 2
    )
    frame = wire.framed(header[:-1] + b"\x02\x00\x03abc\x81\x01\x00" + b"body")
    assert frame[body_offset(frame, read_header(frame)) :] == b"body"


@pytest.mark.parametrize("version", [3, 4])
def test_what_the_proxy_writes_is_what_the_codecs_write(version):
    body = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    expected = wire.request(ApiKey.HEARTBEAT, version, 5, body, "ä")
    assert request_frame(ApiKey.HEARTBEAT, version, 5, "ä", body) == expected
    answer = HeartbeatResponse(error_code=27)
    frame = response_frame(ApiKey.HEARTBEAT, version, 5, answer)
    assert frame == wire.response(ApiKey.HEARTBEAT, version, 5, answer)
    assert frame[response_body_offset(ApiKey.HEARTBEAT, version, frame) :] == encode(answer, version)


def test_tagged_fields_of_a_response_header_are_skipped():
    header = encode(ResponseHeader(correlation_id=1), 1)[:-1] + b"\x01\x05\x02ab"
    frame = wire.framed(header + b"body")
    assert frame[response_body_offset(ApiKey.HEARTBEAT, 4, frame) :] == b"body"


@pytest.mark.parametrize("frame", [b"\0\0\0\x02ab", wire.framed(b"\0\x12\0\x03\0\0\0\x01\0\x05abc")])
def test_a_header_that_does_not_fit_is_refused(frame):
    with pytest.raises(HeaderError):
        read_header(frame)


def test_a_client_id_that_is_no_text_is_read_as_the_broker_reads_it():
    frame = wire.framed(b"\0\x0c\0\x03\0\0\0\x01\0\x03a\xff\xfe")
    assert client_id_of(frame, read_header(frame)) == "a\ufffd\ufffd"


def test_a_group_id_that_is_no_text_is_read_as_the_broker_reads_it():
    frame = wire.framed(b"\0\x0c\0\x03\0\0\0\x01\0\x01c" + b"\0\x03g\xc3\x28")
    assert group_id_of(frame, read_header(frame)) == "g\ufffd("


@pytest.mark.parametrize("version", [0, 2, 3, 8, 9, 13])
@pytest.mark.parametrize("transactional_id", [None, "", "tx"])
@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("client_id", [None, "", "producer"])
def test_produce_without_acks_expects_no_response(version, transactional_id, acks, client_id):
    frame = messages.produce(1, acks, version, transactional_id, client_id=client_id)
    assert expects_response(frame, read_header(frame)) == (acks != 0)


@pytest.mark.parametrize("version", [0, 3, 9])
def test_produce_that_ends_before_its_acks_is_refused(version):
    frame = wire.request(ApiKey.PRODUCE, version, 1, b"")
    with pytest.raises(HeaderError, match="ends before its acks"):
        expects_response(frame, read_header(frame))
