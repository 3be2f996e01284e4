"""Group calls in versions that the broker lacks (proxy/wire/request_upgrades.py)."""

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol_codecs.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.talk import broker_sends, client_sends, negotiated, session, taken

SURPLUS = b"\0\0\0\0"


def forwarded(talk, frame: bytes) -> bytes:
    """What goes to the broker, when the translation passes this request on."""
    client_sends(talk, frame)
    talk.forward(talk.request.id)
    return taken(talk.to_upstream)


def test_join_group_is_raised_for_a_broker_that_lacks_the_version():
    talk = negotiated(session(), {**messages.BROKER_VERSIONS, ApiKey.JOIN_GROUP: (2, 9)})
    protocols = (JoinGroupRequestProtocol(name="range", metadata=b"abc"),)
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=9000, protocol_type="consumer", protocols=protocols
    )
    client_sends(talk, wire.request(ApiKey.JOIN_GROUP, 0, 4, request))
    talk.forward(talk.request.id)
    upgraded = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=9000,
        rebalance_timeout_ms=9000,
        protocol_type="consumer",
        protocols=protocols,
    )
    assert taken(talk.to_upstream) == wire.request(ApiKey.JOIN_GROUP, 2, 4, upgraded)
    answer = JoinGroupResponse(
        generation_id=3, protocol_name="range", leader="m", member_id="m", throttle_time_ms=7
    )
    downgraded = JoinGroupResponse(generation_id=3, protocol_name="range", leader="m", member_id="m")
    assert broker_sends(talk, wire.response(ApiKey.JOIN_GROUP, 2, 4, answer)) == wire.response(
        ApiKey.JOIN_GROUP, 0, 4, downgraded
    )


def test_a_version_that_can_not_be_raised_to_what_the_broker_has_is_the_brokers_to_refuse():
    """The client has not asked for versions."""
    talk = session()
    frame = wire.request(ApiKey.JOIN_GROUP, 0, 4, JoinGroupRequest(group_id="g", protocol_type="consumer"))
    (ours,) = wire.frames(client_sends(talk, frame))
    versions = messages.api_versions_response({**messages.BROKER_VERSIONS, ApiKey.JOIN_GROUP: (10, 12)})
    broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 0, wire.correlation_id(ours), versions))
    talk.forward(talk.request.id)
    assert taken(talk.to_upstream) == frame


def a_commit(commit_timestamp: int = -1) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=42, commit_timestamp=commit_timestamp, committed_metadata="here"
    )
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=3,
        member_id="m",
        topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),),
    )


def commit_answer(code: ErrorCode) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="t", partitions=(partition,)),))


def test_offset_commit_v1_is_raised_without_its_timestamps():
    talk = negotiated(session())
    frame = wire.request(ApiKey.OFFSET_COMMIT, 1, 4, a_commit(1_600_000_000_000))
    assert forwarded(talk, frame) == wire.request(ApiKey.OFFSET_COMMIT, 2, 4, a_commit())
    answer = commit_answer(ErrorCode.ILLEGAL_GENERATION)
    assert broker_sends(talk, wire.response(ApiKey.OFFSET_COMMIT, 2, 4, answer)) == wire.response(
        ApiKey.OFFSET_COMMIT, 1, 4, answer
    )


def test_offset_commit_v0_is_raised_to_the_commit_of_no_member():
    talk = negotiated(session(), {**messages.BROKER_VERSIONS, ApiKey.OFFSET_COMMIT: (8, 10)})
    sent = forwarded(talk, wire.request(ApiKey.OFFSET_COMMIT, 0, 4, a_commit()))
    of_no_member = OffsetCommitRequest(group_id="g", topics=a_commit().topics)
    assert sent == wire.request(ApiKey.OFFSET_COMMIT, 8, 4, of_no_member)
    answer = commit_answer(ErrorCode.NONE)
    assert broker_sends(talk, wire.response(ApiKey.OFFSET_COMMIT, 8, 4, answer)) == wire.response(
        ApiKey.OFFSET_COMMIT, 0, 4, answer
    )


def test_offset_fetch_v0_is_raised():
    talk = negotiated(session())
    asked = OffsetFetchRequest(
        group_id="g", topics=(OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)
    )
    frame = wire.request(ApiKey.OFFSET_FETCH, 0, 4, asked)
    assert forwarded(talk, frame) == wire.request(ApiKey.OFFSET_FETCH, 1, 4, asked)
    answer = OffsetFetchResponse(topics=())
    assert broker_sends(talk, wire.response(ApiKey.OFFSET_FETCH, 1, 4, answer)) == wire.response(
        ApiKey.OFFSET_FETCH, 0, 4, answer
    )


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "never asked"])
def test_an_old_commit_passes_whether_its_client_asked_for_versions_or_not(asked):
    talk = negotiated(session()) if asked else session()
    for correlation_id in (1, 2):
        sent = client_sends(talk, wire.request(ApiKey.OFFSET_COMMIT, 1, correlation_id, a_commit()))
        if sent:  # the proxy asks, on behalf of the client
            answer = messages.api_versions_response()
            broker_sends(talk, wire.response(ApiKey.API_VERSIONS, 0, wire.correlation_id(sent), answer))
        talk.forward(talk.request.id)
        assert wire.api_of(taken(talk.to_upstream)) == (ApiKey.OFFSET_COMMIT, 2)
        response = wire.response(ApiKey.OFFSET_COMMIT, 2, correlation_id, commit_answer(ErrorCode.NONE))
        assert broker_sends(talk, response)


def test_a_request_with_surplus_bytes_behind_is_raised_without_them():
    talk = negotiated(session())
    whole = wire.request(ApiKey.OFFSET_COMMIT, 1, 4, a_commit())
    assert forwarded(talk, wire.framed(whole[4:] + SURPLUS)) == wire.request(
        ApiKey.OFFSET_COMMIT, 2, 4, a_commit()
    )
