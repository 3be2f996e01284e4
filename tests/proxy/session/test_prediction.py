"""The request that a Heartbeat is certain to become is sent before the translation calls for it, and only once."""

from itertools import count
from typing import Any

import pytest

from protocol_codecs import ApiKey, Message
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.bench import a_bench
from tests.proxy.fakes.talk import (
    Talk,
    broker_sends,
    client_sends,
    heartbeat_response,
    negotiated,
    session,
    taken,
)
from translation.actions import Answer, Call, CallId, ConnectionId, RequestId

QUESTION = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
NOTHING_NEW = HeartbeatResponse()

_call_ids = count(1)


class Predicted:
    """A prediction that says what the test says."""

    def __init__(self, upstream_request: Message, answer: Answer | None = None) -> None:
        self.upstream_request = upstream_request
        self._answer = answer

    def answer_to(self, reply: Any) -> Answer | None:
        return self._answer


def a_call(message: ConsumerGroupHeartbeatRequest = QUESTION) -> Call:
    api_key = int(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    return Call(api_key, 1, message, "a-client", ConnectionId(1), CallId(next(_call_ids)))


def replied(question: bytes) -> bytes:
    message = ConsumerGroupHeartbeatResponse(member_epoch=1)
    return wire.response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, wire.correlation_id(question), message)


def with_a_heartbeat() -> Talk:
    """The translation works on a Heartbeat."""
    talk = negotiated(session())
    client_sends(talk, messages.heartbeat(1), messages.plain(2))
    return talk


def test_a_question_that_was_sent_ahead_is_not_sent_again():
    talk, call = with_a_heartbeat(), a_call()
    talk.send_predicted("a-client", Predicted(QUESTION))
    question = taken(talk.to_upstream)
    assert wire.api_of(question) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
    talk.call(call)
    assert not talk.to_upstream
    broker_sends(talk, replied(question))
    ((call_id, message),) = talk.replies
    assert call_id == call.call_id
    assert message.member_epoch == 1


def test_the_question_is_the_same_as_without():
    ahead, after = with_a_heartbeat(), with_a_heartbeat()
    ahead.send_predicted("a-client", Predicted(QUESTION))
    after.call(a_call())
    assert taken(ahead.to_upstream) == taken(after.to_upstream)


def test_nothing_overtakes_a_call_that_is_under_way():
    talk, first, second = with_a_heartbeat(), a_call(), a_call()
    talk.call(first)
    under_way = taken(talk.to_upstream)
    talk.send_predicted("a-client", Predicted(QUESTION))
    assert not talk.to_upstream
    talk.call(second)
    assert not talk.to_upstream
    broker_sends(talk, replied(under_way))
    question = taken(talk.to_upstream)
    broker_sends(talk, replied(question))
    assert [call_id for call_id, _ in talk.replies] == [first.call_id, second.call_id]


def test_another_call_than_the_one_sent_is_an_error():
    talk = with_a_heartbeat()
    talk.send_predicted("a-client", Predicted(QUESTION))
    with pytest.raises(LookupError):
        talk.call(a_call(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2)))


def test_an_answer_that_was_given_ahead_is_not_given_again_and_holds_up_what_follows_until_then():
    talk = with_a_heartbeat()
    assert talk.request is not None
    talk.send_predicted("a-client", Predicted(QUESTION, Answer(talk.request.id, NOTHING_NEW)))
    talk.call(a_call())
    assert broker_sends(talk, replied(taken(talk.to_upstream))) == heartbeat_response(1)
    assert not talk.to_upstream
    talk.answer(talk.request.id, NOTHING_NEW)
    talk.process()
    assert not talk.to_client
    assert taken(talk.to_upstream) == messages.plain(2)


def test_an_answer_to_another_request_is_not_given_ahead():
    talk = with_a_heartbeat()
    assert talk.request is not None
    talk.send_predicted("a-client", Predicted(QUESTION, Answer(RequestId(talk.request.id + 1), NOTHING_NEW)))
    talk.call(a_call())
    assert not broker_sends(talk, replied(taken(talk.to_upstream)))
    talk.answer(talk.request.id, NOTHING_NEW)
    assert taken(talk.to_client) == heartbeat_response(1)


def test_without_a_certain_answer_the_translation_gives_it():
    talk = with_a_heartbeat()
    assert talk.request is not None
    talk.send_predicted("a-client", Predicted(QUESTION))
    talk.call(a_call())
    assert not broker_sends(talk, replied(taken(talk.to_upstream)))
    talk.answer(talk.request.id, NOTHING_NEW)
    assert taken(talk.to_client) == heartbeat_response(1)


async def test_the_question_is_sent_before_the_translation_acts_and_both_come_once():
    async with a_bench() as bench:
        await bench.negotiate()
        translator, question = bench.translator, ConsumerGroupHeartbeatRequest(group_id="g")
        requests: list[RequestId] = []
        before: list[float] = []

        def asked(request):
            requests.append(request.id)
            sent = {"api_key": "CONSUMER_GROUP_HEARTBEAT", "api_version": "1", "injected": "true"}
            before.append(bench.count("proxy_to_server_request_total", **sent))
            return [a_call(question)]

        translator.predicted = lambda request: Predicted(question, Answer(request.id, NOTHING_NEW))
        translator.on_request = asked
        translator.on_reply = lambda _call_id, _message: [Answer(requests[-1], NOTHING_NEW)]
        for n in (1, 2):
            await bench.client.send_all(messages.heartbeat(n))
            sent = await bench.at_broker.frame()
            assert wire.api_of(sent) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
            await bench.broker.send_all(replied(sent))
            assert await bench.from_proxy.frame() == heartbeat_response(n)
        assert before == [1, 2]
        await bench.client.send_all(messages.plain(3))
        assert await bench.at_broker.frame() == messages.plain(3)


async def test_a_translation_that_does_not_do_what_it_foresaw_ends_the_connection(autojump_clock):
    async with a_bench() as bench:
        await bench.negotiate()
        bench.translator.predicted = lambda _request: Predicted(QUESTION)
        other = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=2)
        bench.translator.on_request = lambda _request: [a_call(other)]
        await bench.client.send_all(messages.heartbeat(1))
        await bench.ended.wait()
        assert bench.count("internal_errors_total", where="translation") == 1


async def test_one_that_calls_for_nothing_in_the_end_ends_it_with_the_brokers_answer(autojump_clock):
    async with a_bench() as bench:
        await bench.negotiate()
        bench.translator.predicted = lambda _request: Predicted(QUESTION)
        bench.translator.on_request = lambda request: [Answer(request.id, NOTHING_NEW)]
        await bench.client.send_all(messages.heartbeat(1))
        sent = await bench.at_broker.frame()
        await bench.broker.send_all(replied(sent))
        await bench.ended.wait()
        assert bench.count("internal_errors_total", where="connection") == 1
