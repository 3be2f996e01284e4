"""What is remembered of a heartbeat is what reading and writing it anew would give."""

import pytest

from protocol_codecs import ApiKey, MalformedMessage, Uuid
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from protocol_codecs.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from proxy.session import heartbeat_cache
from proxy.session.errors import ClientError
from proxy.session.heartbeat_cache import CachedHeartbeat, HeartbeatFrames, heartbeat_response_frame
from proxy.wire.framing import request_frame, response_frame
from proxy.wire.request_header import read_header
from tests.proxy.fakes.talk import broker_sends, client_sends, negotiated, session
from translation.actions import Call, CallId
from translation.engine.context import replaced

UPSTREAM = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)
BEAT = HeartbeatRequest(group_id="g", member_id="m", generation_id=3)


def a_beat(
    correlation_id: int, *, version: int = 3, client_id: str | None = "app", generation: int = 3
) -> bytes:
    message = HeartbeatRequest(group_id="g", member_id="m", generation_id=generation)
    return request_frame(ApiKey.HEARTBEAT, version, correlation_id, client_id, message)


def test_the_same_request_is_recognised_whatever_its_correlation_id():
    frame = a_beat(1)
    known = CachedHeartbeat(frame, read_header(frame), "app", BEAT)
    again = a_beat(2**31 - 1)
    assert known.repeated_in(again) == read_header(again)


@pytest.mark.parametrize(
    "other",
    [
        a_beat(2, generation=4),
        a_beat(2, client_id="apq"),
        a_beat(2, client_id=None),
        a_beat(2, version=2),
        a_beat(2)[:-1],
        a_beat(2) + b"\0",
        a_beat(2)[:4] + b"\0\x0e" + a_beat(2)[6:],
    ],
)
def test_any_other_difference_makes_it_another_request(other):
    frame = a_beat(1)
    assert CachedHeartbeat(frame, read_header(frame), "app", BEAT).repeated_in(other) is None


def test_the_request_upstream_is_written_as_if_it_were_the_first():
    kept = HeartbeatFrames()
    moved = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=4)
    rounds = [(1, 7, "app", UPSTREAM), (1, 8, "app", UPSTREAM), (1, 9, "app", moved), (1, 10, None, moved)]
    rounds += [(0, 11, None, moved), (0, 12, None, moved)]
    for version, correlation_id, client_id, message in rounds:
        expected = request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, correlation_id, client_id, message)
        assert kept.frame(version, correlation_id, client_id, message) == expected


def test_the_answer_from_upstream_is_read_as_if_it_were_the_first():
    kept = HeartbeatFrames()
    for correlation_id, epoch in ((1, 3), (2, 3), (3, 4), (4, 4)):
        message = ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=5000)
        frame = response_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, correlation_id, message)
        assert kept.read(1, frame) == message
        with pytest.raises(MalformedMessage):
            kept.read(1, frame[:-1])


def test_a_heartbeat_that_reports_and_those_in_between_are_both_kept(monkeypatch):
    """As in a fleet: one of several reports what the client owns, and is answered with its assignment."""
    kept = HeartbeatFrames()
    topic = {"topic_id": Uuid(bytes(16)), "partitions": (0,)}
    owned = ConsumerGroupHeartbeatRequestTopicPartitions(**topic)
    assigned = ConsumerGroupHeartbeatResponseTopicPartitions(**topic)
    reporting = replaced(UPSTREAM, topic_partitions=(owned,))
    unchanged = ConsumerGroupHeartbeatResponse(member_epoch=3)
    assignment = ConsumerGroupHeartbeatResponseAssignment(topic_partitions=(assigned,))
    pairs = [(UPSTREAM, unchanged), (reporting, replaced(unchanged, assignment=assignment))]

    def go(correlation_id):
        for request, response in pairs:
            expected = request_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, correlation_id, "app", request)
            assert kept.frame(1, correlation_id, "app", request) == expected
            frame = response_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, correlation_id, response)
            yield kept.read(1, frame)

    first = list(go(1))
    assert first == [response for _, response in pairs]
    for anew in ("request_frame", "decode"):
        monkeypatch.delattr(heartbeat_cache, anew)
    assert list(go(2)) == first


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("error_code", [0, 27])
def test_the_answer_to_the_client_is_written_as_if_it_were_the_first(version, error_code):
    message = HeartbeatResponse(error_code=error_code)
    for correlation_id in (1, 2):
        expected = response_frame(ApiKey.HEARTBEAT, version, correlation_id, message)
        assert heartbeat_response_frame(version, correlation_id, message) == expected


def test_heartbeats_that_repeat_go_the_whole_way():
    talk = negotiated(session())
    for n in range(1, 4):
        client_sends(talk, a_beat(n))
        request, talk.request = talk.request, None
        assert request is not None
        assert (request.message, request.client_id) == (BEAT, "app")
        talk.call(Call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, UPSTREAM, "app", talk.connection.id, CallId(n)))
        sent = client_sends(talk, b"")
        answer = ConsumerGroupHeartbeatResponse(member_epoch=3)
        sent_id = int.from_bytes(sent[8:12], "big")
        broker_sends(talk, response_frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, sent_id, answer))
        assert talk.replies.popleft() == (n, answer)
        talk.answer(request.id, HeartbeatResponse())
        assert client_sends(talk) == b""
        assert b"".join(talk.to_client) == response_frame(ApiKey.HEARTBEAT, 3, n, HeartbeatResponse())
        talk.to_client.clear()


def test_a_repeated_heartbeat_is_checked_against_what_is_offered_now():
    talk = negotiated(session())
    client_sends(talk, a_beat(1))
    assert talk.request is not None
    talk.answer(talk.request.id, HeartbeatResponse())
    talk.to_client.clear()
    negotiated(talk, {int(ApiKey.API_VERSIONS): (0, 3)})
    with pytest.raises(ClientError, match="not offered"):
        client_sends(talk, a_beat(2))
