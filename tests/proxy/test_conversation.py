"""What a connection promises, as bytes in and bytes out (docs/protocol-contracts.md)."""

from itertools import count

import pytest
from fakes import messages, wire

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol_codecs.messages.metadata import MetadataResponse, MetadataResponseBroker
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from proxy.api_versions import OfferBook
from proxy.config import Address, Limits
from proxy.conversation import ClientError, Conversation, Terms, UpstreamError
from proxy.frames import STREAM_ABOVE
from proxy.meter import Meter
from proxy.metrics import Metrics
from translation.actions import Call, CallId, ConnectionId


def told(node_id: int, _host: str, _port: int) -> Address | None:
    return Address("proxy", 9100 + node_id) if node_id < 10 else None


def conversation(
    limits: Limits | None = None, *, allow_unknown_apis: bool = False, opened: bool = True
) -> Conversation:
    offers = OfferBook(allow_unknown_apis=allow_unknown_apis)
    terms = Terms(told, offers, limits or Limits(), Meter(Metrics()), lambda: 0.0)
    talk = Conversation(ConnectionId(1), "client-host", terms)
    if opened:
        talk.opened()
    return talk


def taken(pieces: list[bytes]) -> bytes:
    """What the shell would write now."""
    data = b"".join(pieces)
    pieces.clear()
    return data


def client_sends(talk: Conversation, *data: bytes) -> bytes:
    """The client sends; what goes upstream."""
    talk.receive_from_client(b"".join(data))
    talk.process()
    return taken(talk.to_upstream)


def broker_sends(talk: Conversation, *data: bytes) -> bytes:
    """The broker sends; what goes to the client."""
    talk.receive_from_upstream(b"".join(data))
    talk.process()
    return taken(talk.to_client)


def plain_response(correlation_id: int, size: int = 4) -> bytes:
    return wire.response(ApiKey.DELETE_RECORDS, 0, correlation_id, bytes(size))


def heartbeat_response(correlation_id: int, version: int = 3, error: int = 0) -> bytes:
    return wire.response(ApiKey.HEARTBEAT, version, correlation_id, HeartbeatResponse(error_code=error))


def negotiated(talk: Conversation, versions=messages.BROKER_VERSIONS) -> Conversation:
    """The client has asked for the broker's versions."""
    client_sends(talk, messages.ask_versions(0))
    broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 3, 0, messages.api_versions_response(versions)))
    return talk


_call_ids = count(1)


def a_call(member_id: str = "m") -> Call:
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=1)
    api_key = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    return Call(ConnectionId(1), CallId(next(_call_ids)), api_key, 1, "a-client", message)


def call_response(request_frame: bytes, epoch: int = 5) -> bytes:
    message = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=epoch)
    return wire.response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, wire.correlation_id(request_frame), message)


# -- relay ---------------------------------------------------------------------------------------------------


def test_requests_are_relayed_as_they_are_without_waiting_for_responses():
    talk = conversation()
    requests = [messages.plain(1), messages.plain(2, padding=100), messages.plain(1)]
    assert client_sends(talk, *requests) == b"".join(requests)
    responses = [plain_response(1), plain_response(2), plain_response(1, 50)]
    assert broker_sends(talk, *responses) == b"".join(responses)
    assert talk.idle


def test_a_large_request_and_a_large_response_pass_in_pieces():
    talk = conversation()
    request = messages.produce(1, acks=1, size=3 * STREAM_ABOVE)
    assert client_sends(talk, request[:STREAM_ABOVE]) == request[:STREAM_ABOVE]
    assert not talk.can_inject
    assert client_sends(talk, request[STREAM_ABOVE:]) == request[STREAM_ABOVE:]
    response = wire.response(ApiKey.PRODUCE, 9, 1, bytes(2 * STREAM_ABOVE))
    assert broker_sends(talk, response[:-1]) == response[:-1]
    assert broker_sends(talk, response[-1:]) == response[-1:]
    assert talk.idle


@pytest.mark.parametrize("version", [2, 3, 9, 13])
def test_produce_without_acks_is_answered_by_nobody(version):
    talk = conversation()
    silent = messages.produce(1, acks=0, version=version, client_id=None)
    asked = messages.plain(2)
    assert client_sends(talk, silent, asked) == silent + asked
    assert broker_sends(talk, plain_response(2)) == plain_response(2)
    assert talk.idle


def test_reading_ahead_stops_at_the_allowed_number_of_requests_in_flight():
    talk = conversation(limits=Limits(in_flight_requests=2))
    requests = [messages.plain(n) for n in range(4)]
    assert client_sends(talk, *requests) == b"".join(requests[:2])
    assert talk.held_back == len(requests[2]) + len(requests[3])
    assert broker_sends(talk, plain_response(0)) == plain_response(0)
    assert taken(talk.to_upstream) == requests[2]


def test_nothing_is_held_back_while_a_frame_is_incomplete():
    """A reader that took the beginning of a frame for a backlog would wait for ever."""
    talk = conversation()
    client_sends(talk, messages.produce(1, acks=1, size=2 * STREAM_ABOVE)[: STREAM_ABOVE - 1])
    assert talk.held_back == 0


def test_the_upstream_connection_is_wanted_at_the_first_request_only():
    talk = conversation(opened=False)
    request = messages.plain(1)
    assert client_sends(talk, request[:-1]) == b""
    assert not talk.wants_upstream
    assert client_sends(talk, request[-1:], messages.plain(2)) == b""
    assert talk.wants_upstream
    talk.opened()
    talk.process()
    assert taken(talk.to_upstream) == request + messages.plain(2)


# -- bad input -----------------------------------------------------------------------------------------------


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
    talk = conversation()
    with pytest.raises(ClientError) as caught:
        client_sends(talk, data)
    assert caught.value.kind == kind


def test_surplus_bytes_behind_a_message_are_ignored_as_brokers_do():
    talk = negotiated(conversation())
    client_sends(talk, wire.framed(messages.heartbeat(1)[4:] + b"\0\0"))
    assert talk.request is not None
    assert talk.request.message.group_id == "g"


def test_the_limit_is_tighter_until_the_first_valid_request():
    limits = Limits(first_frame_max_bytes=2000, frame_max_bytes=10_000)
    talk = conversation(limits=limits)
    client_sends(talk, messages.plain(1), messages.plain(2, padding=8000))
    with pytest.raises(ClientError, match="2000"):
        client_sends(conversation(limits=limits), messages.plain(1, padding=8000))


def test_a_request_to_be_decoded_may_not_be_larger_than_its_own_limit():
    talk = conversation(limits=Limits(decoded_max_bytes=STREAM_ABOVE))
    huge = messages.heartbeat(1, group_id="g" * 30_000)
    huge = wire.framed(huge[4:] + bytes(2 * STREAM_ABOVE))
    with pytest.raises(ClientError, match="decoded"):
        client_sends(talk, huge)


def test_requests_before_the_bad_one_are_relayed():
    talk = conversation()
    with pytest.raises(ClientError):
        client_sends(talk, messages.plain(1), b"\xff\xff\xff\xff")
    assert taken(talk.to_upstream) == messages.plain(1)


# -- responses that are not as asked -------------------------------------------------------------------------


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
    talk = conversation()
    client_sends(talk, messages.plain(7))
    with pytest.raises(UpstreamError) as caught:
        broker_sends(talk, data)
    assert caught.value.kind == kind


def test_a_response_to_no_request_ends_the_connection():
    with pytest.raises(UpstreamError, match="to no request"):
        broker_sends(conversation(), plain_response(1))


def test_an_address_response_that_can_not_be_decoded_is_not_passed_on():
    talk = conversation()
    client_sends(talk, messages.metadata(1))
    with pytest.raises(UpstreamError):
        broker_sends(talk, wire.response(ApiKey.METADATA, 9, 1, b"\0\0\0\0\x05"))
    assert not talk.to_client


# -- versions ------------------------------------------------------------------------------------------------


def test_the_offer_is_cut_to_what_was_reviewed():
    talk = conversation()
    client_sends(talk, messages.ask_versions(1))
    broker = {
        **messages.BROKER_VERSIONS,
        ApiKey.METADATA: (0, 99),
        ApiKey.SHARE_FETCH: (0, 2),
        ApiKey.VOTE: (0, 1),
    }
    answer = broker_sends(
        talk, wire.response(ApiKey.API_VERSIONS, 3, 1, messages.api_versions_response(broker))
    )
    offered = {key.api_key: key.max_version for key in wire.body_of(answer, ApiKey.API_VERSIONS, 3).api_keys}
    assert offered[ApiKey.METADATA] == 13
    assert not offered.keys() & {ApiKey.SHARE_FETCH, ApiKey.VOTE}


def test_a_newer_api_versions_request_than_known_is_answered_here_in_v0():
    talk = conversation(opened=False)
    assert client_sends(talk, messages.ask_versions(9, version=5)) == b""
    answer = wire.body_of(taken(talk.to_client), ApiKey.API_VERSIONS, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [(18, 0, 4)]
    assert not talk.wants_upstream


def test_an_api_versions_request_of_the_far_future_is_answered_whatever_its_body():
    talk = conversation()
    frame = wire.framed(b"\0\x12\x7f\xff\0\0\0\x09\xff\xffgarbage")
    client_sends(talk, messages.plain(1), frame)
    answers = broker_sends(talk, plain_response(1))
    first, second = wire.frames(answers)
    assert first == plain_response(1), "the answer waits for its turn"
    assert wire.answered_id(second) == 9


def test_an_error_from_the_broker_in_v0_form_is_passed_on():
    talk = conversation()
    client_sends(talk, messages.ask_versions(1, version=4))
    error = messages.api_versions_response({ApiKey.API_VERSIONS: (0, 3)})
    body = type(error)(error_code=35, api_keys=error.api_keys)
    answer = broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 0, 1, body))
    assert answer == wire.response(ApiKey.API_VERSIONS, 0, 1, body)
    assert client_sends(talk, messages.ask_versions(2)) == messages.ask_versions(2)


@pytest.mark.parametrize(
    "request_frame",
    [
        wire.request(ApiKey.METADATA, 14, 1, b""),
        wire.request(ApiKey.SHARE_FETCH, 1, 1, b""),
        wire.framed(b"\x03\xe8\0\0\0\0\0\x01\xff\xff"),
        wire.framed(b"\0\x03\xff\xff\0\0\0\x01\xff\xff"),
    ],
)
@pytest.mark.parametrize("asked", [True, False])
def test_a_request_outside_the_offer_is_refused(request_frame, asked):
    talk = negotiated(conversation()) if asked else conversation()
    with pytest.raises(ClientError) as caught:
        client_sends(talk, request_frame)
    assert caught.value.kind == "not_offered"


def test_a_version_that_the_broker_lacks_is_refused_once_that_is_known():
    versions = {**messages.BROKER_VERSIONS, ApiKey.METADATA: (5, 8)}
    with pytest.raises(ClientError, match="METADATA v9, which is offered in versions 5 to 8"):
        client_sends(negotiated(conversation(), versions), messages.metadata(1, version=9))


def test_unknown_apis_pass_where_the_configuration_allows_it():
    talk = conversation(allow_unknown_apis=True)
    frame = wire.framed(b"\x03\xe8\0\0\0\0\0\x01\xff\xff")
    assert client_sends(talk, frame) == frame


# -- addresses -----------------------------------------------------------------------------------------------


def test_addresses_in_metadata_are_those_of_the_proxy():
    talk = conversation()
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


# -- the translation -----------------------------------------------------------------------------------------


def test_a_group_call_is_decoded_and_holds_up_what_follows_until_it_is_answered():
    talk = negotiated(conversation())
    assert client_sends(talk, messages.plain(1), messages.heartbeat(2), messages.plain(3)) == messages.plain(
        1
    )
    request = talk.request
    assert request is not None
    assert (request.api_key, request.version, request.client_id) == (ApiKey.HEARTBEAT, 3, "a-client")
    assert request.message.group_id == "g"
    assert talk.connection.client_host == "client-host"
    assert talk.connection.versions[ApiKey.CONSUMER_GROUP_HEARTBEAT] == (0, 1)

    talk.answer(request.id, HeartbeatResponse(error_code=27))
    assert not talk.to_client, "the response of request 1 comes first"
    talk.process()
    assert taken(talk.to_upstream) == messages.plain(3)
    assert broker_sends(talk, plain_response(1)) == plain_response(1) + heartbeat_response(2, error=27)
    assert broker_sends(talk, plain_response(3)) == plain_response(3)
    assert talk.idle


def test_a_forwarded_group_call_is_relayed_unchanged():
    talk = negotiated(conversation())
    client_sends(talk, messages.heartbeat(2))
    talk.forward(talk.request.id)
    assert taken(talk.to_upstream) == messages.heartbeat(2)
    assert broker_sends(talk, heartbeat_response(2, error=25)) == heartbeat_response(2, error=25)


def test_a_large_group_call_is_gathered_before_it_is_decoded():
    talk = negotiated(conversation())
    protocols = (JoinGroupRequestProtocol(name="range", metadata=bytes(3 * STREAM_ABOVE)),)
    frame = wire.request(ApiKey.JOIN_GROUP, 5, 1, JoinGroupRequest(group_id="g", protocols=protocols))
    assert client_sends(talk, frame[: 2 * STREAM_ABOVE]) == b""
    assert talk.request is None
    assert client_sends(talk, frame[2 * STREAM_ABOVE :]) == b""
    assert talk.request.message.protocols == protocols
    talk.forward(talk.request.id)
    assert taken(talk.to_upstream) == frame


def test_only_the_request_under_way_can_be_answered():
    talk = negotiated(conversation())
    with pytest.raises(LookupError):
        talk.answer(1, HeartbeatResponse())
    client_sends(talk, messages.heartbeat(2))
    talk.forward(talk.request.id)
    with pytest.raises(LookupError):
        talk.forward(talk.request.id)


def test_the_proxy_asks_for_versions_where_the_client_never_did():
    talk = conversation()
    asked = client_sends(talk, messages.plain(1), messages.heartbeat(2))
    relayed, own = wire.frames(asked)
    assert relayed == messages.plain(1)
    assert wire.api_of(own) == (ApiKey.API_VERSIONS, 0)
    assert talk.request is None
    answer = wire.response(ApiKey.API_VERSIONS, 0, wire.correlation_id(own), messages.api_versions_response())
    assert broker_sends(talk, plain_response(1), answer) == plain_response(1)
    assert talk.request.message.group_id == "g"
    assert talk.connection.versions[ApiKey.JOIN_GROUP] == (0, 9)


def test_join_group_is_raised_for_a_broker_that_lacks_the_version():
    talk = negotiated(conversation(), {**messages.BROKER_VERSIONS, ApiKey.JOIN_GROUP: (2, 9)})
    protocols = (JoinGroupRequestProtocol(name="range", metadata=b"abc"),)
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=9000, protocol_type="consumer", protocols=protocols
    )
    client_sends(talk, wire.request(ApiKey.JOIN_GROUP, 0, 4, request))
    talk.forward(talk.request.id)
    raised = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=9000,
        rebalance_timeout_ms=9000,
        protocol_type="consumer",
        protocols=protocols,
    )
    assert taken(talk.to_upstream) == wire.request(ApiKey.JOIN_GROUP, 2, 4, raised)
    answer = JoinGroupResponse(
        generation_id=3, protocol_name="range", leader="m", member_id="m", throttle_time_ms=7
    )
    lowered = JoinGroupResponse(generation_id=3, protocol_name="range", leader="m", member_id="m")
    assert broker_sends(talk, wire.response(ApiKey.JOIN_GROUP, 2, 4, answer)) == wire.response(
        ApiKey.JOIN_GROUP, 0, 4, lowered
    )


# -- injected calls ------------------------------------------------------------------------------------------


def ready_for_calls() -> Conversation:
    """A conversation whose client has made a group call."""
    talk = negotiated(conversation())
    client_sends(talk, messages.heartbeat(1))
    talk.forward(talk.request.id)
    talk.request = None
    taken(talk.to_upstream)
    broker_sends(talk, heartbeat_response(1))
    return talk


def test_a_call_travels_between_the_clients_requests_under_an_id_of_the_proxy():
    talk = ready_for_calls()
    client_sends(talk, messages.plain(5))
    call = a_call()
    talk.call(call)
    sent = taken(talk.to_upstream)
    assert wire.api_of(sent) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
    assert b"a-client" in sent
    assert client_sends(talk, messages.plain(6)) == messages.plain(6)
    answers = broker_sends(talk, plain_response(5), call_response(sent), plain_response(6))
    assert answers == plain_response(5) + plain_response(6)
    call_id, message = talk.replies.popleft()
    assert (call_id, message.member_epoch) == (call.call_id, 5)


def test_calls_go_out_one_at_a_time_in_their_order():
    talk = ready_for_calls()
    calls = [a_call(f"m{n}") for n in range(3)]
    for call in calls:
        talk.call(call)
    for call in calls:
        (sent,) = wire.frames(taken(talk.to_upstream))
        assert call.message.member_id.encode() in sent
        broker_sends(talk, call_response(sent))
        assert talk.replies.popleft()[0] == call.call_id
    assert talk.idle


def test_a_call_waits_for_the_end_of_a_request_that_passes_in_pieces():
    talk = ready_for_calls()
    request = messages.produce(2, acks=1, size=2 * STREAM_ABOVE)
    client_sends(talk, request[:STREAM_ABOVE])
    talk.call(a_call())
    assert not talk.to_upstream
    sent = client_sends(talk, request[STREAM_ABOVE:])
    assert sent.startswith(request[STREAM_ABOVE:])
    assert wire.api_of(sent[len(request) - STREAM_ABOVE :]) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)


def test_no_call_is_made_during_authentication():
    talk = ready_for_calls()
    handshake = wire.request(ApiKey.SASL_HANDSHAKE, 1, 2, SaslHandshakeRequest(mechanism="PLAIN"))
    assert client_sends(talk, handshake) == handshake
    talk.call(a_call())
    assert not talk.to_upstream
    answer = wire.response(ApiKey.SASL_HANDSHAKE, 1, 2, SaslHandshakeResponse(mechanisms=("PLAIN",)))
    assert broker_sends(talk, answer) == answer
    assert not talk.to_upstream
    sent = client_sends(talk, messages.plain(3))
    assert sent.startswith(messages.plain(3))
    assert len(wire.frames(sent)) == 2


def test_the_correlation_id_of_a_call_is_verified():
    talk = ready_for_calls()
    talk.call(a_call())
    (sent,) = wire.frames(taken(talk.to_upstream))
    wrong = wire.response(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, wire.correlation_id(sent) + 1, ConsumerGroupHeartbeatResponse()
    )
    with pytest.raises(UpstreamError):
        broker_sends(talk, wrong)


def test_calls_go_on_after_the_client_is_gone():
    talk = ready_for_calls()
    client_sends(talk, messages.plain(2))
    talk.client_closed()
    talk.call(a_call())
    (sent,) = wire.frames(taken(talk.to_upstream))
    assert broker_sends(talk, plain_response(2), call_response(sent)) == b"", "nobody is there to read"
    assert talk.replies


# -- drain ---------------------------------------------------------------------------------------------------


def test_after_stop_taking_what_is_under_way_is_finished_and_nothing_else():
    talk = conversation()
    request = messages.produce(1, acks=1, size=2 * STREAM_ABOVE)
    client_sends(talk, request[:STREAM_ABOVE])
    talk.stop_taking()
    assert client_sends(talk, request[STREAM_ABOVE:], messages.plain(2)) == request[STREAM_ABOVE:]
    assert not talk.idle
    broker_sends(talk, wire.response(ApiKey.PRODUCE, 9, 1, b"1234"))
    assert talk.idle
