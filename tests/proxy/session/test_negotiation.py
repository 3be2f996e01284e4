"""What a connection offers and refuses (docs/reference/protocol-contracts.md)."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.experimental_keys import ExperimentalApiKey
from protocol_codecs.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from proxy.session.errors import ClientError, UpstreamError
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.talk import broker_sends, client_sends, negotiated, plain_response, session, taken

# -- versions --------------------------------------------------------------------------------------------------


def test_the_offer_is_cut_to_what_was_reviewed():
    talk = session()
    client_sends(talk, messages.ask_versions(1))
    broker = {
        **messages.BROKER_VERSIONS,
        ApiKey.METADATA: (0, 99),
        ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1),
        ApiKey.VOTE: (0, 1),
    }
    answer = broker_sends(
        talk, wire.response(ApiKey.API_VERSIONS, 3, 1, messages.api_versions_response(broker))
    )
    offered = {key.api_key: key.max_version for key in wire.body_of(answer, ApiKey.API_VERSIONS, 3).api_keys}
    assert offered[ApiKey.METADATA] == 13
    assert not offered.keys() & {ApiKey.WRITE_SHARE_GROUP_STATE, ApiKey.VOTE}


def test_a_newer_api_versions_request_than_known_is_answered_here_in_v0():
    talk = session(opened=False)
    newer = wire.framed(b"\0\x12\0\x06" + messages.ask_versions(9, version=5)[8:])
    assert client_sends(talk, newer) == b""
    answer = wire.body_of(taken(talk.to_client), ApiKey.API_VERSIONS, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [(18, 0, 5)]
    assert not talk.wants_upstream


def test_a_newer_api_versions_request_than_the_broker_has_is_answered_in_v0_after_the_first_one_too():
    talk = session()
    client_sends(talk, messages.ask_versions(1))
    broker = {**messages.BROKER_VERSIONS, ApiKey.API_VERSIONS: (0, 4)}
    broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 3, 1, messages.api_versions_response(broker)))

    sent = client_sends(talk, messages.ask_versions(2, version=5))

    assert sent == b"", "Java asks in its newest version once more when it has authenticated"
    answer = wire.body_of(taken(talk.to_client), ApiKey.API_VERSIONS, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [(18, 0, 4)]


def test_an_api_versions_request_of_the_far_future_is_answered_whatever_its_body():
    talk = session()
    frame = wire.framed(b"\0\x12\x7f\xff\0\0\0\x09\xff\xffgarbage")
    client_sends(talk, messages.plain(1), frame)
    answers = broker_sends(talk, plain_response(1))
    first, second = wire.frames(answers)
    assert first == plain_response(1), "the answer waits for its turn"
    assert wire.answered_id(second) == 9


# -- the node that the client means (KIP-1242) -------------------------------------------------------------------


def ask_node(correlation_id: int, cluster_id: str | None, node_id: int) -> bytes:
    message = ApiVersionsRequest(
        client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    return wire.request(ApiKey.API_VERSIONS, 5, correlation_id, message)


def test_the_broker_itself_checks_which_node_the_client_means():
    talk = session()
    assert client_sends(talk, ask_node(1, "c", 2)) == ask_node(1, "c", 2)
    refused = ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    answer = wire.response(ApiKey.API_VERSIONS, 5, 1, refused)
    assert broker_sends(talk, answer) == answer


def test_a_bootstrap_broker_in_the_place_of_a_node_does_not_check_which_one_the_client_means():
    talk = session(opened=False)
    client_sends(talk, ask_node(1, "c", 2))
    talk.upstream_opened(stand_in=True)
    talk.process()
    assert taken(talk.to_upstream) == ask_node(1, None, -1)
    broker = {**messages.BROKER_VERSIONS, ApiKey.API_VERSIONS: (0, 5)}
    answer = broker_sends(
        talk, wire.response(ApiKey.API_VERSIONS, 5, 1, messages.api_versions_response(broker))
    )
    assert wire.body_of(answer, ApiKey.API_VERSIONS, 5).error_code == ErrorCode.NONE


def test_an_error_from_the_broker_in_v0_form_is_passed_on():
    talk = session()
    client_sends(talk, messages.ask_versions(1, version=4))
    error = messages.api_versions_response({ApiKey.API_VERSIONS: (0, 3)})
    body = type(error)(error_code=35, api_keys=error.api_keys)
    answer = broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 0, 1, body))
    assert answer == wire.response(ApiKey.API_VERSIONS, 0, 1, body)
    assert client_sends(talk, messages.ask_versions(2)) == messages.ask_versions(2)


UNREADABLE = {
    "librdkafka's mock cluster": bytes.fromhex("0023 01 0012 0000 0002 00 00000000"),
    "without an error": bytes.fromhex("0000 05 0012 0000"),
    "an error alone": bytes.fromhex("0023"),
    "empty": b"",
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_answer_that_can_not_be_read_is_told_as_by_a_broker_that_knows_v0_only(body):
    talk = session()
    client_sends(talk, messages.ask_versions(1, version=3))
    told = broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 0, 1, body))
    answer = wire.body_of(told, ApiKey.API_VERSIONS, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [(18, 0, 0)]

    assert client_sends(talk, messages.ask_versions(2, version=0)) == messages.ask_versions(2, version=0)
    told = broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 0, 2, messages.api_versions_response()))
    assert wire.body_of(told, ApiKey.API_VERSIONS, 0).error_code == ErrorCode.NONE


def test_an_error_in_the_form_of_the_version_asked_for_is_told_in_v0_form():
    talk = session()
    client_sends(talk, messages.ask_versions(1, version=3))
    error = messages.api_versions_response({ApiKey.API_VERSIONS: (0, 2)})
    body = type(error)(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=error.api_keys)
    told = broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 3, 1, body))
    assert told == wire.response(ApiKey.API_VERSIONS, 0, 1, body)


def test_an_answer_in_v0_that_can_not_be_read_ends_the_connection():
    talk = session()
    client_sends(talk, messages.ask_versions(1, version=0))
    with pytest.raises(UpstreamError, match="ApiVersionsResponse"):
        broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 0, 1, bytes.fromhex("0000 000005")))


@pytest.mark.parametrize(
    "request_frame",
    [
        wire.request(ApiKey.METADATA, 14, 1, b""),
        wire.request(ApiKey.SHARE_FETCH, 3, 1, b""),
        wire.request(ApiKey.WRITE_SHARE_GROUP_STATE, 0, 1, b""),
        wire.framed(b"\x03\xe8\0\0\0\0\0\x01\xff\xff"),
        wire.framed(b"\0\x03\xff\xff\0\0\0\x01\xff\xff"),
    ],
)
@pytest.mark.parametrize("asked", [True, False])
def test_a_request_outside_the_offer_is_refused(request_frame, asked):
    talk = negotiated(session()) if asked else session()
    with pytest.raises(ClientError) as caught:
        client_sends(talk, request_frame)
    assert caught.value.kind == "not_offered"


def test_a_version_that_the_broker_lacks_is_refused_once_that_is_known():
    versions = {**messages.BROKER_VERSIONS, ApiKey.METADATA: (5, 8)}
    with pytest.raises(ClientError, match="METADATA v9, which is offered in versions 5 to 8"):
        client_sends(negotiated(session(), versions), messages.metadata(1, version=9))


@pytest.mark.parametrize("allow_unknown_apis", [False, True])
@pytest.mark.parametrize(
    "api_key",
    [
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
    ],
)
def test_the_preview_of_share_groups_is_refused_to_a_client_that_never_asked(api_key, allow_unknown_apis):
    with pytest.raises(ClientError) as caught:
        client_sends(session(allow_unknown_apis=allow_unknown_apis), wire.request(api_key, 0, 1, b""))
    assert caught.value.kind == "not_offered"
    asked = wire.request(api_key, 1, 1, b"\x02g")
    assert client_sends(session(allow_unknown_apis=allow_unknown_apis), asked) == asked


@pytest.mark.parametrize("allow_unknown_apis", [False, True])
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("api_key", ExperimentalApiKey)
def test_calls_of_experiments_reach_no_broker_even_one_that_says_it_has_them(
    api_key, asked, allow_unknown_apis
):
    talk = session(allow_unknown_apis=allow_unknown_apis)
    if asked:
        negotiated(talk, {**messages.BROKER_VERSIONS, api_key: (0, 0)})
    header = int(api_key).to_bytes(2, "big") + b"\0\0" + b"\0\0\0\x01" + b"\xff\xff" + b"\0"
    with pytest.raises(ClientError) as caught:
        client_sends(talk, wire.framed(header + b"\x02g\x02m\0\0\0\x01\0"))
    assert caught.value.kind == "not_offered"


def test_unknown_apis_pass_where_the_configuration_allows_it():
    talk = session(allow_unknown_apis=True)
    frame = wire.framed(b"\x03\xe8\0\0\0\0\0\x01\xff\xff")
    assert client_sends(talk, frame) == frame


@pytest.mark.parametrize(
    "request_frame", [wire.request(ApiKey.FETCH, 19, 1, b""), wire.request(ApiKey.SHARE_FETCH, 3, 1, b"")]
)
def test_what_may_name_brokers_does_not_pass_even_where_unknown_apis_do(request_frame):
    with pytest.raises(ClientError) as caught:
        client_sends(session(allow_unknown_apis=True), request_frame)
    assert caught.value.kind == "not_offered"
