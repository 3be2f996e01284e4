"""Calls of the translation and calls for it, as bytes in and bytes out (docs/reference/protocol-contracts.md)."""

from itertools import count

import pytest

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from proxy.session.errors import UpstreamError
from proxy.wire.frame_splitter import STREAM_ABOVE
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.talk import (
    Talk,
    broker_sends,
    client_sends,
    heartbeat_response,
    negotiated,
    plain_response,
    session,
    taken,
)
from translation.actions import Call, CallId, ConnectionId

_call_ids = count(1)


def a_call(member_id: str = "m") -> Call:
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=1)
    api_key = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    return Call(api_key, 1, message, "a-client", ConnectionId(1), CallId(next(_call_ids)))


def call_response(request_frame: bytes, epoch: int = 5) -> bytes:
    message = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=epoch)
    return wire.response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, wire.correlation_id(request_frame), message)


# -- the translation -------------------------------------------------------------------------------------------


def test_a_group_call_is_decoded_and_holds_up_what_follows_until_it_is_answered():
    talk = negotiated(session())
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
    talk = negotiated(session())
    client_sends(talk, messages.heartbeat(2))
    talk.forward(talk.request.id)
    assert taken(talk.to_upstream) == messages.heartbeat(2)
    assert broker_sends(talk, heartbeat_response(2, error=25)) == heartbeat_response(2, error=25)


def test_a_large_group_call_is_gathered_before_it_is_decoded():
    talk = negotiated(session())
    client_sends(talk, messages.plain(0))
    broker_sends(talk, plain_response(0))
    protocols = (JoinGroupRequestProtocol(name="range", metadata=bytes(3 * STREAM_ABOVE)),)
    frame = wire.request(ApiKey.JOIN_GROUP, 5, 1, JoinGroupRequest(group_id="g", protocols=protocols))
    assert client_sends(talk, frame[: 2 * STREAM_ABOVE]) == b""
    assert talk.request is None
    assert client_sends(talk, frame[2 * STREAM_ABOVE :]) == b""
    assert talk.request.message.protocols == protocols
    talk.forward(talk.request.id)
    assert taken(talk.to_upstream) == frame


def test_only_the_request_under_way_can_be_answered():
    talk = negotiated(session())
    with pytest.raises(LookupError):
        talk.answer(1, HeartbeatResponse())
    client_sends(talk, messages.heartbeat(2))
    talk.forward(talk.request.id)
    with pytest.raises(LookupError):
        talk.forward(talk.request.id)


def test_the_proxy_asks_for_versions_where_the_client_never_did():
    talk = session()
    asked = client_sends(talk, messages.plain(1), messages.heartbeat(2))
    relayed, own = wire.frames(asked)
    assert relayed == messages.plain(1)
    assert wire.api_of(own) == (ApiKey.API_VERSIONS, 0)
    assert talk.request is None
    answer = wire.response(ApiKey.API_VERSIONS, 0, wire.correlation_id(own), messages.api_versions_response())
    assert broker_sends(talk, plain_response(1), answer) == plain_response(1)
    assert talk.request.message.group_id == "g"
    assert talk.connection.versions[ApiKey.JOIN_GROUP] == (0, 9)


# -- injected calls --------------------------------------------------------------------------------------------


def ready_for_calls() -> Talk:
    """A session whose client has made a group call."""
    talk = negotiated(session())
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
