"""SASL that passes through: what is relayed as it is, when requests may be added, and what is too much."""

import pytest

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from proxy.config.schema import Limits
from proxy.session.errors import ClientError
from proxy.wire.frame_splitter import STREAM_ABOVE
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.talk import (
    Talk,
    broker_sends,
    client_sends,
    negotiated,
    plain_response,
    session,
    taken,
)
from translation.actions import Call, CallId, ConnectionId

PLAIN_TOKEN = wire.framed(b"\0Alice\0Alice-secret")  # read as a header, it would be API 65 and a version
GSSAPI_TOKEN = wire.framed(b"\x60\x82\x02\x6d" + bytes(600))
WRAP_TOKEN = wire.framed(b"\x05\x04\x04\xff" + bytes(28))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def handshake(correlation_id: int, mechanism: str, version: int = 1) -> bytes:
    return wire.request(
        ApiKey.SASL_HANDSHAKE, version, correlation_id, SaslHandshakeRequest(mechanism=mechanism)
    )


def handshake_answer(correlation_id: int, version: int = 1) -> bytes:
    return wire.response(ApiKey.SASL_HANDSHAKE, version, correlation_id, SaslHandshakeResponse())


def authenticate(correlation_id: int, version: int = 2, token: bytes = b"token") -> bytes:
    return wire.request(
        ApiKey.SASL_AUTHENTICATE, version, correlation_id, SaslAuthenticateRequest(auth_bytes=token)
    )


def authenticated(correlation_id: int, lifetime_ms: int = 0, version: int = 2, error: int = 0) -> bytes:
    answer = SaslAuthenticateResponse(
        error_code=error, auth_bytes=b"answer", session_lifetime_ms=lifetime_ms if version else 0
    )
    return wire.response(ApiKey.SASL_AUTHENTICATE, version, correlation_id, answer)


def a_call() -> Call:
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    return Call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, message, "a-client", ConnectionId(1), CallId(1))


def in_a_session(clock: Clock, lifetime_ms: int = 60_000, limits: Limits | None = None) -> Talk:
    """A client that has authenticated; the session began at the clock's time."""
    talk = negotiated(session(limits, clock=clock))
    for request, answer in (
        (handshake(1, "SCRAM-SHA-256"), handshake_answer(1)),
        (authenticate(2), authenticated(2)),
        (authenticate(3), authenticated(3, lifetime_ms)),
    ):
        assert client_sends(talk, request) == request
        assert broker_sends(talk, answer) == answer
    return talk


# -- SaslHandshake v1 and KIP-368 ----------------------------------------------------------------------------


def test_a_lifetime_in_the_answer_ends_authentication():
    talk = in_a_session(Clock())
    talk.call(a_call())
    assert wire.api_of(taken(talk.to_upstream)) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)


def test_without_a_lifetime_the_next_ordinary_request_ends_authentication():
    talk = in_a_session(Clock(), lifetime_ms=0)
    talk.call(a_call())
    assert not talk.to_upstream, "there may be more tokens to come"
    assert len(wire.frames(client_sends(talk, messages.plain(4)))) == 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_sasl_authenticate_passes_as_it_is(version):
    talk = negotiated(session())
    client_sends(talk, handshake(1, "PLAIN"))
    broker_sends(talk, handshake_answer(1))
    assert client_sends(talk, authenticate(2, version)) == authenticate(2, version)
    assert broker_sends(talk, authenticated(2, 0, version)) == authenticated(2, 0, version)
    assert client_sends(talk, messages.plain(3)) == messages.plain(3)


def test_calls_wait_while_the_client_authenticates_again_and_go_out_after_it():
    clock = Clock()
    talk = in_a_session(clock)
    client_sends(talk, messages.plain(4))
    broker_sends(talk, plain_response(4))
    clock.now += 55
    client_sends(talk, handshake(5, "SCRAM-SHA-256"))
    talk.call(a_call())
    broker_sends(talk, handshake_answer(5))
    client_sends(talk, authenticate(6))
    broker_sends(talk, authenticated(6))
    client_sends(talk, authenticate(7))
    assert not talk.to_upstream
    talk.responses.receive(authenticated(7, 60_000))
    assert wire.api_of(taken(talk.to_upstream)) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
    clock.now += 50
    assert not talk.expired


def test_a_call_on_the_way_when_the_client_authenticates_again_is_answered_in_order():
    talk = in_a_session(Clock())
    talk.call(a_call())
    (sent,) = wire.frames(taken(talk.to_upstream))
    client_sends(talk, handshake(5, "SCRAM-SHA-256"))
    reply = wire.response(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, wire.correlation_id(sent), ConsumerGroupHeartbeatResponse()
    )
    assert broker_sends(talk, reply, handshake_answer(5)) == handshake_answer(5)
    assert len(talk.replies) == 1


@pytest.mark.parametrize(("at_s", "goes_out"), [(58.9, True), (59.1, False), (61.0, False)])
def test_no_call_is_made_after_the_sessions_lifetime_or_shortly_before(at_s, goes_out):
    clock = Clock()
    talk = in_a_session(clock, lifetime_ms=60_000)
    clock.now += at_s
    talk.call(a_call())
    assert bool(talk.to_upstream) is goes_out


@pytest.mark.parametrize(("at_s", "goes_out"), [(59.9, True), (60.1, False)])
def test_a_call_that_the_client_waits_for_goes_out_as_long_as_its_request_could(at_s, goes_out):
    clock = Clock()
    talk = in_a_session(clock, lifetime_ms=60_000)
    clock.now += at_s
    client_sends(talk, messages.heartbeat(5))
    talk.call(a_call())
    assert bool(talk.to_upstream) is goes_out
    assert talk.expired is not goes_out


def test_the_lifetime_counts_from_the_request_because_the_broker_counts_before_its_answer_arrives():
    clock = Clock()
    talk = negotiated(session(clock=clock))
    client_sends(talk, handshake(1, "PLAIN"))
    broker_sends(talk, handshake_answer(1))
    client_sends(talk, authenticate(2))
    clock.now += 9.6  # a slow network
    broker_sends(talk, authenticated(2, 10_000))
    talk.call(a_call())
    assert not talk.to_upstream


def test_a_client_that_authenticates_after_the_lifetime_gets_its_calls_going_again():
    clock = Clock()
    talk = in_a_session(clock, lifetime_ms=10_000)
    clock.now += 12
    talk.call(a_call())
    assert not talk.expired, "nobody waits: the client may authenticate again"
    client_sends(talk, handshake(5, "PLAIN"))
    broker_sends(talk, handshake_answer(5))
    client_sends(talk, authenticate(6))
    talk.responses.receive(authenticated(6, 10_000))
    assert wire.api_of(taken(talk.to_upstream)) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)


def test_a_failed_authentication_gives_no_session():
    talk = negotiated(session())
    client_sends(talk, handshake(1, "PLAIN"))
    broker_sends(talk, handshake_answer(1))
    client_sends(talk, authenticate(2))
    failed = authenticated(2, 60_000, error=58)
    assert broker_sends(talk, failed) == failed
    talk.call(a_call())
    assert not talk.to_upstream


def test_a_request_that_needs_a_call_after_the_lifetime_can_not_be_answered():
    """A broker closes the connection at the first request after the lifetime; so must the shell."""
    clock = Clock()
    talk = in_a_session(clock, lifetime_ms=10_000)
    clock.now += 12
    client_sends(talk, messages.heartbeat(5))
    assert talk.request is not None
    assert not talk.expired
    talk.call(a_call())
    assert talk.expired


def test_a_client_that_is_gone_can_not_authenticate_again():
    clock = Clock()
    talk = in_a_session(clock, lifetime_ms=10_000)
    talk.client_closed()
    talk.call(a_call())
    assert not talk.expired, "this one could still be sent"
    clock.now += 12
    (sent,) = wire.frames(taken(talk.to_upstream))
    broker_sends(
        talk,
        wire.response(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, wire.correlation_id(sent), ConsumerGroupHeartbeatResponse()
        ),
    )
    talk.call(a_call())
    assert talk.expired


# -- bare tokens ---------------------------------------------------------------------------------------------


def test_plain_after_sasl_handshake_v0_is_relayed_as_it_is():
    """kroxylicious 2988: refused there."""
    talk = session()
    assert client_sends(talk, handshake(1, "PLAIN", 0)) == handshake(1, "PLAIN", 0)
    assert broker_sends(talk, handshake_answer(1, 0)) == handshake_answer(1, 0)
    assert client_sends(talk, PLAIN_TOKEN) == PLAIN_TOKEN
    talk.call(a_call())
    assert not talk.to_upstream
    assert broker_sends(talk, wire.framed(b"")) == wire.framed(b"")
    assert client_sends(talk, messages.plain(2)).startswith(messages.plain(2))
    assert broker_sends(talk, plain_response(2)) == plain_response(2)


def test_a_client_that_does_not_wait_for_answers_is_served_in_order():
    talk = session()
    sent = (handshake(1, "PLAIN", 0), PLAIN_TOKEN, messages.plain(2))
    assert client_sends(talk, *sent) == b"".join(sent)
    answers = (handshake_answer(1, 0), wire.framed(b""), plain_response(2))
    assert broker_sends(talk, *answers) == b"".join(answers)


def test_scram_after_sasl_handshake_v0():
    talk = session()
    client_sends(talk, handshake(1, "SCRAM-SHA-512", 0))
    broker_sends(talk, handshake_answer(1, 0))
    for asked, answered in (
        (b"n,,n=alice,r=4d3b", b"r=4d3b91,s=c2FsdA==,i=4096"),
        (b"c=biws,r=4d3b91,p=cHJvb2Y=", b"v=c2lnbmF0dXJl"),
    ):
        assert client_sends(talk, wire.framed(asked)) == wire.framed(asked)
        assert broker_sends(talk, wire.framed(answered)) == wire.framed(answered)
    assert client_sends(talk, messages.plain(2)) == messages.plain(2)


def test_oauthbearer_that_fails_after_sasl_handshake_v0():
    talk = session()
    client_sends(talk, handshake(1, "OAUTHBEARER", 0))
    broker_sends(talk, handshake_answer(1, 0))
    client_sends(talk, wire.framed(b"n,,\x01auth=Bearer x\x01\x01"))
    broker_sends(talk, wire.framed(b'{"status":"invalid_token"}'))
    assert client_sends(talk, wire.framed(b"\x01")) == wire.framed(b"\x01"), "the client gives up, in form"


@pytest.mark.parametrize("handshake_first", [True, False])
def test_gssapi_is_relayed_until_the_first_request(handshake_first):
    """The last token of a client is not answered by every broker. Clients of Kafka 0.9 begin with a token."""
    talk = session()
    if handshake_first:
        client_sends(talk, handshake(1, "GSSAPI", 0))
        broker_sends(talk, handshake_answer(1, 0))
    assert client_sends(talk, GSSAPI_TOKEN) == GSSAPI_TOKEN
    assert broker_sends(talk, wire.framed(b"\x60" * 100)) == wire.framed(b"\x60" * 100)
    assert client_sends(talk, wire.framed(b"")) == wire.framed(b"")
    assert broker_sends(talk, WRAP_TOKEN) == WRAP_TOKEN
    assert client_sends(talk, WRAP_TOKEN, messages.plain(7)) == WRAP_TOKEN + messages.plain(7)
    assert broker_sends(talk, plain_response(7)) == plain_response(7)
    assert client_sends(talk, messages.metadata(8)) == messages.metadata(8)


def test_a_first_token_waits_for_the_upstream_connection():
    talk = session(opened=False)
    client_sends(talk, GSSAPI_TOKEN)
    assert talk.wants_upstream
    talk.upstream_opened()
    talk.process()
    assert taken(talk.to_upstream) == GSSAPI_TOKEN


def test_a_large_token_passes_in_pieces():
    talk = session()
    client_sends(talk, handshake(1, "GSSAPI", 0))
    broker_sends(talk, handshake_answer(1, 0))
    token = wire.framed(b"\x60" + bytes(2 * STREAM_ABOVE))
    halves = token[:STREAM_ABOVE], token[STREAM_ABOVE:]
    assert b"".join(client_sends(talk, half) for half in halves) == token
    assert b"".join(broker_sends(talk, half) for half in halves) == token


# -- before authentication -----------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [authenticate(2, token=bytes(3000)), handshake(2, "x" * 3000)])
def test_a_frame_of_authentication_may_only_be_small(frame):
    talk = negotiated(session(Limits(sasl_max_bytes=2048)))
    with pytest.raises(ClientError, match="2048 are allowed") as caught:
        client_sends(talk, frame)
    assert caught.value.kind == "oversized"


def test_a_bare_token_may_only_be_small():
    talk = session(Limits(sasl_max_bytes=2048))
    client_sends(talk, handshake(1, "SCRAM-SHA-256", 0))
    with pytest.raises(ClientError, match="2048 are allowed"):
        client_sends(talk, wire.framed(bytes(3000)))
