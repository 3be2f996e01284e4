"""How a connection relays, as bytes in and bytes out (docs/reference/protocol-contracts.md)."""

import pytest

from protocol_codecs import ApiKey
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseBroker
from proxy.config.schema import Limits
from proxy.session.errors import ClientError, UpstreamError
from proxy.wire.frame_splitter import STREAM_ABOVE
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.talk import (
    broker_sends,
    client_sends,
    negotiated,
    plain_response,
    session,
    taken,
)

# -- relay -----------------------------------------------------------------------------------------------------


def test_requests_are_relayed_as_they_are_without_waiting_for_responses():
    talk = session()
    requests = [messages.plain(1), messages.plain(2, padding=100), messages.plain(1)]
    assert client_sends(talk, *requests) == b"".join(requests)
    responses = [plain_response(1), plain_response(2), plain_response(1, 50)]
    assert broker_sends(talk, *responses) == b"".join(responses)
    assert talk.idle


def test_a_large_request_and_a_large_response_pass_in_pieces():
    talk = session()
    request = messages.produce(1, acks=1, size=3 * STREAM_ABOVE)
    assert client_sends(talk, request[:STREAM_ABOVE]) == request[:STREAM_ABOVE]
    assert not talk.may_outlive_client
    assert client_sends(talk, request[STREAM_ABOVE:]) == request[STREAM_ABOVE:]
    response = wire.response(ApiKey.PRODUCE, 9, 1, bytes(2 * STREAM_ABOVE))
    assert broker_sends(talk, response[:-1]) == response[:-1]
    assert broker_sends(talk, response[-1:]) == response[-1:]
    assert talk.idle


@pytest.mark.parametrize("version", [2, 3, 9, 13])
@pytest.mark.parametrize("acks", [0, 1])
def test_a_large_produce_goes_on_as_soon_as_its_acks_are_read(version, acks):
    talk = session()
    request = messages.produce(1, acks=acks, version=version, size=2 * STREAM_ABOVE)
    gone = next(n for n in range(len(request)) if client_sends(talk, request[n : n + 1]))
    assert gone < 60
    assert client_sends(talk, request[gone + 1 :]) == request[gone + 1 :]
    assert talk.idle is (acks == 0)


@pytest.mark.parametrize("version", [2, 3, 9, 13])
def test_produce_without_acks_is_answered_by_nobody(version):
    talk = session()
    silent = messages.produce(1, acks=0, version=version, client_id=None)
    asked = messages.plain(2)
    assert client_sends(talk, silent, asked) == silent + asked
    assert broker_sends(talk, plain_response(2)) == plain_response(2)
    assert talk.idle


def test_reading_ahead_stops_at_the_allowed_number_of_requests_in_flight():
    talk = session(limits=Limits(in_flight_requests=2))
    requests = [messages.plain(n) for n in range(4)]
    assert client_sends(talk, *requests) == b"".join(requests[:2])
    assert talk.backlog_bytes == len(requests[2]) + len(requests[3])
    assert broker_sends(talk, plain_response(0)) == plain_response(0)
    assert taken(talk.to_upstream) == requests[2]


def test_nothing_is_held_back_while_a_frame_is_incomplete():
    """A reader that took the beginning of a frame for a backlog would wait for ever."""
    talk = session()
    client_sends(talk, messages.produce(1, acks=1, size=2 * STREAM_ABOVE)[: STREAM_ABOVE - 1])
    assert talk.backlog_bytes == 0


def test_the_upstream_connection_is_wanted_at_the_first_request_only():
    talk = session(opened=False)
    request = messages.plain(1)
    assert client_sends(talk, request[:-1]) == b""
    assert not talk.wants_upstream
    assert client_sends(talk, request[-1:], messages.plain(2)) == b""
    assert talk.wants_upstream
    talk.upstream_opened()
    talk.process()
    assert taken(talk.to_upstream) == request + messages.plain(2)


# -- bad input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "http"),
        (b"\x16\x03\x01\x00\xf4\x01", "tls"),
        (b"\x80\x00\x00\x00", "negative_size"),
        (b"\x7f\xff\xff\xff", "oversized"),
        (wire.framed(b"\0\x12"), "malformed_header"),
        (wire.framed(b"\0\x0c\0\x03\0\0\0\x01\0\x01cgarbage"), "malformed_request"),
        (wire.request(ApiKey.PRODUCE, 9, 1, b""), "malformed_header"),
    ],
)
def test_what_is_no_request_ends_the_connection(data, kind):
    talk = session()
    with pytest.raises(ClientError) as caught:
        client_sends(talk, data)
    assert caught.value.kind == kind


def test_surplus_bytes_behind_a_message_are_ignored_as_brokers_do():
    talk = negotiated(session())
    client_sends(talk, wire.framed(messages.heartbeat(1)[4:] + b"\0\0"))
    assert talk.request is not None
    assert talk.request.message.group_id == "g"


def test_the_limit_is_tighter_until_the_first_valid_request():
    limits = Limits(first_frame_max_bytes=2000, frame_max_bytes=10_000)
    talk = session(limits=limits)
    client_sends(talk, messages.plain(1), messages.plain(2, padding=8000))
    with pytest.raises(ClientError, match="2000"):
        client_sends(session(limits=limits), messages.plain(1, padding=8000))


def test_requests_before_the_bad_one_are_relayed():
    talk = session()
    with pytest.raises(ClientError):
        client_sends(talk, messages.plain(1), b"\xff\xff\xff\xff")
    assert taken(talk.to_upstream) == messages.plain(1)


# -- responses that are not as asked ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (plain_response(8), "correlation"),
        (wire.framed(b"ab"), "malformed_response"),
        (b"\xff\xff\xff\xff", "negative_size"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "tls"),
    ],
)
def test_a_response_that_was_not_asked_for_ends_the_connection(data, kind):
    talk = session()
    client_sends(talk, messages.plain(7))
    with pytest.raises(UpstreamError) as caught:
        broker_sends(talk, data)
    assert caught.value.kind == kind


def test_a_response_to_no_request_ends_the_connection():
    with pytest.raises(UpstreamError, match="to no request"):
        broker_sends(session(), plain_response(1))


def test_an_address_response_that_can_not_be_decoded_is_not_passed_on():
    talk = session()
    client_sends(talk, messages.metadata(1))
    with pytest.raises(UpstreamError):
        broker_sends(talk, wire.response(ApiKey.METADATA, 9, 1, b"\0\0\0\0\x05"))
    assert not talk.to_client


# -- addresses -------------------------------------------------------------------------------------------------


def test_addresses_in_metadata_are_those_of_the_proxy():
    talk = session()
    client_sends(talk, messages.metadata(1), messages.plain(2))
    brokers = (
        MetadataResponseBroker(node_id=0, host="kafka-0", port=9092),
        MetadataResponseBroker(node_id=77, host="kafka-77", port=9092),
    )
    response = MetadataResponse(brokers=brokers, cluster_id="c")
    answer, other = wire.frames(
        broker_sends(talk, wire.response(ApiKey.METADATA, 9, 1, response), plain_response(2))
    )
    told_brokers = wire.body_of(answer, ApiKey.METADATA, 9).brokers
    assert [(broker.node_id, broker.host, broker.port) for broker in told_brokers] == [(0, "proxy", 9100)]
    assert other == plain_response(2)


# -- drain -----------------------------------------------------------------------------------------------------


def test_after_stop_taking_what_is_under_way_is_finished_and_nothing_else():
    talk = session()
    request = messages.produce(1, acks=1, size=2 * STREAM_ABOVE)
    client_sends(talk, request[:STREAM_ABOVE])
    talk.stop_accepting()
    assert client_sends(talk, request[STREAM_ABOVE:], messages.plain(2)) == request[STREAM_ABOVE:]
    assert not talk.idle
    broker_sends(talk, wire.response(ApiKey.PRODUCE, 9, 1, b"1234"))
    assert talk.idle
