"""Commits that a client sends without waiting for their answers, as bytes in and bytes out."""

from itertools import count

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from proxy.session.translated_calls import MOST_COMMITS
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
from translation.actions import Call, CallId, ConnectionId, Request
from translation.engine.context import replaced

_VERSION, _VERSION_UPSTREAM = 7, 9
_call_ids = count(1)


def commit(correlation_id: int, group_id: str = "g", topics: int = 1) -> bytes:
    message = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=1,
        member_id="m",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=f"orders-{number}",
                partitions=(
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=correlation_id),
                ),
            )
            for number in range(topics)
        ),
    )
    return wire.request(ApiKey.OFFSET_COMMIT, _VERSION, correlation_id, message)


def answer(code: int = 0) -> OffsetCommitResponse:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name="orders-0", partitions=(partition,)),))


def response(correlation_id: int, code: int = 0, version: int = _VERSION) -> bytes:
    return wire.response(ApiKey.OFFSET_COMMIT, version, correlation_id, answer(code))


def next_request(talk: Talk) -> Request | None:
    """The request that is handed to the translation next, if there is one."""
    talk.process()
    request, talk.request = talk.request, None
    return request


def send(talk: Talk, request: Request) -> bytes:
    """The translation sends a commit to the broker; the frame of that."""
    message = replaced(request.message, generation_id_or_member_epoch=5)
    call = Call(
        request.api_key,
        _VERSION_UPSTREAM,
        message,
        request.client_id,
        ConnectionId(1),
        CallId(next(_call_ids)),
    )
    if talk.call(call):
        talk.process()
    return taken(talk.to_upstream)


def test_a_commit_is_handed_over_when_the_one_before_is_on_its_way_to_the_broker():
    talk = negotiated(session())
    client_sends(talk, commit(1), commit(2))
    first = next_request(talk)
    assert first is not None
    assert next_request(talk) is None  # it may have to ask the broker something first
    assert wire.api_of(send(talk, first)) == (ApiKey.OFFSET_COMMIT, _VERSION_UPSTREAM)
    second = next_request(talk)
    assert second is not None
    assert second.message.topics[0].partitions[0].committed_offset == 2
    assert send(talk, second), "it goes out at once, behind the first"


def test_a_commit_for_which_something_else_is_sent_first_holds_up_the_next():
    talk = negotiated(session())
    client_sends(talk, commit(1), commit(2))
    first = next_request(talk)
    question = Call(
        ApiKey.HEARTBEAT, 3, messages.heartbeat_message(), "c", ConnectionId(1), CallId(next(_call_ids))
    )
    assert not talk.call(question)
    assert next_request(talk) is None
    (asked,) = wire.frames(taken(talk.to_upstream))
    assert send(talk, first) == b"", "nothing goes out behind a question"
    broker_sends(
        talk, wire.response(ApiKey.HEARTBEAT, 3, wire.correlation_id(asked), HeartbeatResponse(error_code=25))
    )
    assert wire.api_of(taken(talk.to_upstream)) == (ApiKey.OFFSET_COMMIT, _VERSION_UPSTREAM)


def hand_over(talk: Talk, *correlation_ids: int) -> list[Request]:
    """The client sends these commits, and the translation sends each to the broker."""
    client_sends(talk, *map(commit, correlation_ids))
    requests = []
    for _ in correlation_ids:
        request = next_request(talk)
        assert request is not None
        requests.append(request)
        send(talk, request)
    return requests


def test_answers_reach_the_client_in_the_order_of_its_commits():
    talk = negotiated(session())
    first, second, third = hand_over(talk, 1, 2, 3)
    talk.answer(second.id, answer())
    assert taken(talk.to_client) == b""
    talk.answer(first.id, answer(ErrorCode.ILLEGAL_GENERATION))
    assert taken(talk.to_client) == response(1, ErrorCode.ILLEGAL_GENERATION) + response(2)
    talk.answer(third.id, answer())
    assert taken(talk.to_client) == response(3)


def test_whatever_else_the_client_sends_waits_for_the_answers():
    talk = negotiated(session())
    first, second = hand_over(talk, 1, 2)
    broker_sends(talk, *_answers(talk, 2))
    assert client_sends(talk, messages.plain(3), commit(4), messages.plain(5)) == b""
    talk.answer(first.id, answer())
    talk.process()
    assert taken(talk.to_upstream) == b""
    talk.answer(second.id, answer())
    talk.process()
    assert taken(talk.to_upstream) == messages.plain(3)
    fourth = next_request(talk)
    assert fourth is not None
    talk.answer(fourth.id, answer())
    talk.process()
    assert taken(talk.to_upstream) == messages.plain(5)
    expected = [response(1), response(2), plain_response(3), response(4)]
    assert broker_sends(talk, plain_response(3)) == b"".join(expected)


def test_there_are_so_many_commits_at_once_and_no_more():
    talk = negotiated(session())
    requests = hand_over(talk, *range(1, MOST_COMMITS + 1))
    client_sends(talk, commit(MOST_COMMITS + 1))
    assert next_request(talk) is None
    talk.answer(requests[0].id, answer())
    assert next_request(talk) is not None


def test_large_commits_wait_until_they_are_alone():
    talk = negotiated(session())
    (first,) = hand_over(talk, 1)
    broker_sends(talk, *_answers(talk, 1))  # so that it has let the client in
    large = commit(2, topics=2_500)
    assert len(large) > 64 * 1024
    client_sends(talk, large)
    assert next_request(talk) is None
    talk.answer(first.id, answer())
    assert next_request(talk) is not None


def test_a_commit_that_is_relayed_goes_behind_those_before_it():
    """Its group is not translated, or its member has become one of the broker's own meanwhile."""
    talk = negotiated(session())
    (first,) = hand_over(talk, 1)
    client_sends(talk, commit(2, "other"))
    second = next_request(talk)
    assert second is not None
    talk.forward(second.id)
    assert taken(talk.to_upstream) == b""
    talk.answer(first.id, answer())
    assert taken(talk.to_upstream) == commit(2, "other")
    assert taken(talk.to_client) == response(1)
    assert broker_sends(talk, *_answers(talk, 1), response(2)) == response(2)


def _answers(talk: Talk, calls: int) -> list[bytes]:
    """The broker's responses to so many calls of the translation that are under way."""
    entries = list(talk._core.in_flight.upstream)[:calls]
    return [response(entry.correlation_id, version=entry.version) for entry in entries]


def test_a_session_that_drains_ends_when_the_commits_under_way_are_answered():
    talk = negotiated(session())
    first, second = hand_over(talk, 1, 2)
    client_sends(talk, messages.plain(3))
    talk.stop_accepting()
    assert not talk.idle
    broker_sends(talk, *_answers(talk, 2))
    talk.answer(first.id, answer())
    assert not talk.idle
    talk.answer(second.id, answer())
    talk.process()
    assert taken(talk.to_upstream) == b""
    assert talk.idle


def test_the_client_goes_in_the_middle_of_its_commits():
    talk = negotiated(session())
    hand_over(talk, 1, 2)
    talk.client_closed()
    talk.forget_request()
    client_sends(talk, commit(3))
    assert next_request(talk) is None
    assert broker_sends(talk, *_answers(talk, 2)) == b""
    assert len(talk.replies) == 2, "the translation hears of both"
