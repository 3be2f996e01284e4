"""A session for which the proxy has authenticated: what its client may not do, and how it authenticates again."""

import pytest

from protocol_codecs import ApiKey, ErrorCode, decode
from protocol_codecs.messages.api_versions import ApiVersionsResponse
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol_codecs.messages.sasl_handshake import SaslHandshakeResponse
from proxy.config.schema import Limits
from proxy.session.errors import ClientError, UpstreamError
from proxy.session.held_calls_budget import HeldCallsBudget
from proxy.session.session_state import RequestState
from proxy.wire.frame_splitter import STREAM_ABOVE
from proxy.wire.sasl_login import login
from proxy.wire.supported_versions import AUTHENTICATION_APIS
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.scram import ScramServer
from tests.proxy.fakes.talk import (
    Talk,
    broker_sends,
    client_sends,
    negotiated,
    plain_response,
    session,
    taken,
)
from tests.proxy.session.test_group_calls import TOO_LONG, join_of, let_in, metadata_answer
from tests.proxy.session.test_sasl import Clock, a_call
from translation.policy.policy import Mode, Policy

MECHANISM = "SCRAM-SHA-256"
_HEADER_BYTES = 4 + 2 + 2 + 4 + 2
"""Of a request without a client id: size, API, version, correlation id, no text."""


def spoken_for(clock: Clock | None = None, **options) -> Talk:
    talk = session(clock=clock or Clock(), **options)
    talk.authenticated()
    return talk


class Again:
    """The second authentication, with the broker's part played by the test."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.done: list[tuple[float | None, float]] = []
        self.server = ScramServer(lambda _user, *, by_token: "secret" if by_token else None)
        talk.reauthenticate(
            MECHANISM,
            login(MECHANISM, "token-id", "secret", by_token=True),
            lambda lifetime_s, pause_s: self.done.append((lifetime_s, pause_s)),
        )
        talk.process()

    def sent(self) -> bytes:
        (frame,) = wire.frames(taken(self.talk.to_upstream))
        return frame

    def answer(self, frame: bytes, error: int = 0, lifetime_ms: int = 60_000) -> None:
        """Answer what was sent last as a broker would."""
        key, version = wire.api_of(frame)
        number = wire.correlation_id(frame)
        if key == ApiKey.SASL_HANDSHAKE:
            told = SaslHandshakeResponse(error_code=error)
        else:
            assert key == ApiKey.SASL_AUTHENTICATE
            asked = decode(SaslAuthenticateRequest, version, frame, _HEADER_BYTES)
            token = self.server.answer(asked.auth_bytes)
            code = error or (0 if token else ErrorCode.SASL_AUTHENTICATION_FAILED)
            told = SaslAuthenticateResponse(
                error_code=code, auth_bytes=token or b"", session_lifetime_ms=lifetime_ms
            )
        self.talk.responses.receive(wire.response(key, version, number, told))
        self.talk.process()

    def finish(self, lifetime_ms: int = 60_000) -> None:
        for _ in range(3):
            self.answer(self.sent(), lifetime_ms=lifetime_ms)


# -- what its client may do ----------------------------------------------------------------------------------


@pytest.mark.parametrize("api_key", sorted(AUTHENTICATION_APIS))
@pytest.mark.parametrize("allow_unknown_apis", [False, True])
def test_the_client_is_not_offered_to_authenticate_and_is_refused(api_key, allow_unknown_apis):
    for first in (False, True):
        talk = spoken_for(allow_unknown_apis=allow_unknown_apis)
        if not first:
            versions = {**messages.BROKER_VERSIONS, **dict.fromkeys(map(ApiKey, AUTHENTICATION_APIS), (0, 1))}
            asked = messages.ask_versions(0)
            client_sends(talk, asked)
            answer = messages.api_versions_response(versions)
            frame = broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 3, 0, answer))
            offered = {one.api_key for one in decode(ApiVersionsResponse, 3, frame, 8).api_keys}
            assert not offered & AUTHENTICATION_APIS
            assert offered >= {ApiKey.PRODUCE, ApiKey.FETCH}
        with pytest.raises(ClientError, match="not offered"):
            client_sends(talk, wire.request(ApiKey(api_key), 0, 1, b"\0\4GATE"))
        assert not taken(talk.to_upstream), "nothing of it reaches the broker"


def test_a_token_without_a_header_is_refused():
    talk = spoken_for()
    with pytest.raises(ClientError):
        client_sends(talk, wire.framed(b"\x60\x82\x02\x6d" + bytes(600)))
    assert not taken(talk.to_upstream)


def test_calls_of_the_translation_go_out_from_the_start():
    talk = spoken_for()
    talk.call(a_call())
    assert wire.api_of(taken(talk.to_upstream)) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)


# -- once again ----------------------------------------------------------------------------------------------


def test_requests_wait_while_the_proxy_authenticates_again_and_go_out_after_it():
    clock = Clock()
    talk = negotiated(spoken_for(clock))
    again = Again(talk)
    frame = again.sent()
    assert wire.api_of(frame) == (ApiKey.SASL_HANDSHAKE, 1)
    assert client_sends(talk, messages.plain(7)) == b""
    talk.call(a_call())
    again.answer(frame)
    again.answer(again.sent())
    clock.now += 0.25
    frame = again.sent()
    assert again.done == []
    again.answer(frame)
    assert again.done == [(60.0, 0.25)]
    first, second = wire.frames(taken(talk.to_upstream))
    assert wire.api_of(first) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
    assert second == messages.plain(7)


def test_the_session_says_what_waits_only_for_the_authentication():
    talk = negotiated(spoken_for())
    again = Again(talk)
    frame = again.sent()
    assert not talk.awaits_authentication, "nothing was read"
    client_sends(talk, messages.produce(7, acks=0), messages.plain(8))
    assert talk.awaits_authentication
    again.answer(frame)
    again.answer(again.sent())
    again.answer(again.sent())
    assert not talk.awaits_authentication
    assert taken(talk.to_upstream) == messages.produce(7, acks=0) + messages.plain(8)


def test_what_is_never_to_begin_does_not_wait_for_the_authentication():
    talk = negotiated(spoken_for())
    Again(talk)
    client_sends(talk, messages.plain(7))
    talk.stop_accepting()
    assert not talk.awaits_authentication


def test_what_the_broker_owes_is_answered_first():
    talk = negotiated(spoken_for())
    client_sends(talk, messages.plain(4))
    again = Again(talk)
    frame = again.sent()
    assert broker_sends(talk, plain_response(4)) == plain_response(4)
    again.answer(frame)
    again.answer(again.sent())
    again.answer(again.sent())
    assert len(again.done) == 1


def test_a_request_that_is_half_relayed_is_completed_first():
    talk = negotiated(spoken_for())
    big = messages.produce(5, acks=1, size=400_000)
    sent = client_sends(talk, big[:200_000])
    assert sent
    again = Again(talk)
    assert not talk.to_upstream
    rest = client_sends(talk, big[200_000:] + messages.plain(6))
    assert (sent + rest).startswith(big)
    (frame,) = wire.frames((sent + rest)[len(big) :])
    assert wire.api_of(frame) == (ApiKey.SASL_HANDSHAKE, 1), "before the next request"
    broker_sends(talk, wire.response(ApiKey.PRODUCE, 9, 5, bytes(4)))
    again.answer(frame)
    again.answer(again.sent())
    again.answer(again.sent())
    assert taken(talk.to_upstream) == messages.plain(6)


# -- while a request is under way of which the broker has nothing ---------------------------------------------


LARGE = join_of(bytes(STREAM_ABOVE // 2))


def finished(again: Again, handshake: bytes) -> bytes:
    """Authenticate; what goes out afterwards."""
    again.answer(handshake)
    again.answer(again.sent())
    again.answer(again.sent())
    assert len(again.done) == 1
    return taken(again.talk.to_upstream)


def in_state(talk: Talk, state: RequestState) -> tuple[Again, bytes]:
    """Authenticate in this state; SaslHandshake has to go out at once."""
    assert talk._state.request is state
    again = Again(talk)
    frame = again.sent()
    assert wire.api_of(frame) == (ApiKey.SASL_HANDSHAKE, 1)
    return again, frame


def test_a_call_that_is_collected_is_looked_at_afterwards():
    talk = negotiated(spoken_for())
    let_in(talk)
    assert client_sends(talk, LARGE[:STREAM_ABOVE]) == b""
    again, handshake = in_state(talk, RequestState.COLLECTING)
    assert client_sends(talk, LARGE[STREAM_ABOVE:], messages.plain(6)) == b""
    assert talk.request is None
    assert finished(again, handshake) == b""
    assert talk.request is not None
    talk.forward(talk.request.id)
    talk.process()
    assert taken(talk.to_upstream) == LARGE + messages.plain(6)


def test_a_call_that_is_collected_and_then_relayed_goes_out_afterwards():
    talk = negotiated(spoken_for(limits=Limits(group_call_max_elements=1)))
    let_in(talk)
    assert client_sends(talk, LARGE[:STREAM_ABOVE]) == b""
    again, handshake = in_state(talk, RequestState.COLLECTING)
    assert client_sends(talk, LARGE[STREAM_ABOVE:]) == b""
    assert finished(again, handshake) == LARGE


def test_a_call_that_is_discarded_delays_nothing():
    limits = Limits(group_call_max_bytes=2 * STREAM_ABOVE)
    talk = negotiated(spoken_for(limits=limits, rule_for=Policy(default=Mode.REJECT).rule_for))
    frame = TOO_LONG["JoinGroup"]
    assert client_sends(talk, frame[:STREAM_ABOVE]) == b""
    again, handshake = in_state(talk, RequestState.DISCARDING)
    assert client_sends(talk, frame[STREAM_ABOVE:], messages.plain(6)) == b""
    assert finished(again, handshake) == messages.plain(6)


def test_a_call_that_waits_for_a_probe_of_the_broker_goes_on_afterwards():
    talk = negotiated(spoken_for(limits=Limits(first_group_call_max_bytes=2000)))
    frame = join_of(bytes(1000))
    probe = client_sends(talk, frame)
    assert wire.api_of(probe)[0] == ApiKey.METADATA
    again, handshake = in_state(talk, RequestState.PROBING_BROKER)
    broker_sends(talk, metadata_answer(probe))
    assert talk.request is None
    assert finished(again, handshake) == b""
    assert talk.request is not None


def test_a_call_that_waits_for_memory_goes_on_afterwards():
    budget = HeldCallsBudget(3 * STREAM_ABOVE)
    other = budget.reserve(3 * STREAM_ABOVE, lambda: None)
    talk = negotiated(spoken_for(held_calls=budget))
    let_in(talk)
    assert client_sends(talk, LARGE) == b""
    again, handshake = in_state(talk, RequestState.AWAITING_MEMORY)
    budget.release(other)
    talk.process()
    assert talk.request is None
    assert finished(again, handshake) == b""
    assert talk.request is not None


def test_what_the_translation_lets_pass_meanwhile_goes_out_afterwards():
    talk = negotiated(spoken_for())
    assert client_sends(talk, messages.join_group(5)) == b""
    request = talk.request
    assert request is not None
    again = Again(talk)
    frame = again.sent()
    talk.forward(request.id)
    assert not talk.to_upstream
    again.answer(frame)
    again.answer(again.sent())
    again.answer(again.sent())
    assert wire.api_of(taken(talk.to_upstream))[0] == ApiKey.JOIN_GROUP


def test_without_a_lifetime_the_session_has_no_end():
    talk = negotiated(spoken_for())
    again = Again(talk)
    again.finish(lifetime_ms=0)
    assert again.done == [(None, 0.0)]
    talk.call(a_call())
    assert talk.to_upstream


def test_without_a_lifetime_the_end_of_the_session_before_counts_no_more():
    clock = Clock()
    talk = negotiated(spoken_for(clock))
    Again(talk).finish(lifetime_ms=60_000)
    Again(talk).finish(lifetime_ms=0)
    clock.now += 61
    talk.call(a_call())
    assert talk.to_upstream


def test_what_the_broker_answers_to_the_proxy_itself_is_counted():
    talk = negotiated(spoken_for())
    assert talk.authentication_answers == 0
    Again(talk).finish()
    assert talk.authentication_answers == 3


def test_the_first_session_has_an_end_too():
    clock = Clock()
    talk = session(clock=clock, opened=False)
    talk.authenticated()
    talk.upstream_opened(60.0)
    negotiated(talk)
    clock.now += 59.5
    talk.call(a_call())
    assert not talk.to_upstream, "it could be late"
    Again(talk).finish()
    assert wire.api_of(taken(talk.to_upstream)) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_refusal_ends_the_connection(step):
    again = Again(negotiated(spoken_for()))
    for _ in range(step):
        again.answer(again.sent())
    with pytest.raises(UpstreamError, match="refuses to authenticate again"):
        again.answer(again.sent(), error=ErrorCode.SASL_AUTHENTICATION_FAILED)


def test_a_broker_that_does_not_know_the_token_ends_the_connection():
    again = Again(negotiated(spoken_for()))
    again.answer(again.sent())
    again.answer(again.sent())
    frame = again.sent()
    lie = SaslAuthenticateResponse(auth_bytes=b"v=AAAA")
    with pytest.raises(UpstreamError, match="does not prove"):
        again.talk.responses.receive(
            wire.response(ApiKey.SASL_AUTHENTICATE, 1, wire.correlation_id(frame), lie)
        )
