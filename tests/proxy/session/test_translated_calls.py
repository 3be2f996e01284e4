"""A repeated Heartbeat that is sure to pass through is relayed without the translation, and observed afterwards."""

import pytest
from msgspec.structs import replace

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.bench import Bench, a_bench
from translation.actions import Connection, ConnectionId, Request, RequestId
from translation.passthrough.observer import Observer
from translation.passthrough.topic_names import TopicNames


async def pass_a_heartbeat(bench: Bench, correlation_id: int, code: ErrorCode = ErrorCode.NONE) -> None:
    request = messages.heartbeat(correlation_id)
    await bench.client.send_all(request)
    assert await bench.at_broker.frame() == request
    response = wire.response(ApiKey.HEARTBEAT, 3, correlation_id, HeartbeatResponse(error_code=code))
    await bench.broker.send_all(response)
    assert await bench.from_proxy.frame() == response


async def test_the_translation_sees_the_first_one_only():
    async with a_bench() as bench:
        bench.translator.heartbeats_pass_through = True
        await bench.negotiate()
        for correlation_id in range(1, 4):
            await pass_a_heartbeat(bench, correlation_id)
        assert bench.translator.kinds() == ["request"]
        assert (
            bench.count("client_to_proxy_request_total", api_key="HEARTBEAT", api_version="3", decoded="true")
            == 3
        )


async def test_the_translation_sees_one_that_may_not_pass_through():
    async with a_bench() as bench:
        bench.translator.heartbeats_pass_through = True
        await bench.negotiate()
        await pass_a_heartbeat(bench, 1)
        await pass_a_heartbeat(bench, 2)
        bench.translator.heartbeats_pass_through = False
        await pass_a_heartbeat(bench, 3)
        assert bench.translator.kinds() == ["request", "request"]


async def test_refusals_of_those_relayed_unseen_are_observed():
    async with a_bench() as bench:
        bench.translator.heartbeats_pass_through = True
        await bench.negotiate()
        await pass_a_heartbeat(bench, 1)
        await pass_a_heartbeat(bench, 2, ErrorCode.REBALANCE_IN_PROGRESS)
        await pass_a_heartbeat(bench, 3, ErrorCode.UNKNOWN_MEMBER_ID)
        assert bench.translator.kinds() == ["request"]
        assert bench.count("events_total", kind="adopted") == 1
        assert bench.count("events_total", kind="fenced") == 1


async def test_requests_around_it_keep_their_order():
    async with a_bench() as bench:
        bench.translator.heartbeats_pass_through = True
        await bench.negotiate()
        await pass_a_heartbeat(bench, 1)
        frames = [messages.plain(2), messages.heartbeat(3), messages.plain(4), messages.heartbeat(5)]
        await bench.client.send_all(b"".join(frames))
        assert [await bench.at_broker.frame() for _ in frames] == frames


def an_observed_member(now: float) -> tuple[Observer, Connection, Request]:
    observer, connection = Observer(TopicNames()), Connection(ConnectionId(1), "host", {})
    request = a_heartbeat(1, connection)
    observer.response_received(now, request, HeartbeatResponse())
    return observer, connection, request


def a_heartbeat(number: int, connection: Connection) -> Request:
    message = messages.heartbeat_message()
    return Request(RequestId(number), connection, ApiKey.HEARTBEAT, 3, "c", message)


def as_known(observer: Observer) -> list[object]:
    (member,) = observer._by_id.values()
    return [member.connection_id, member.alive_until, member.state, member.generation, member.owned]


@pytest.mark.parametrize("later_s", [0.0, 1.0, 44.0])
def test_a_success_does_to_a_known_member_what_looking_at_it_would(later_s):
    by_looking, connection, request = an_observed_member(100.0)
    in_short, _, _ = an_observed_member(100.0)
    elsewhere = Connection(ConnectionId(2), connection.client_host, {})
    call = replace(request, connection=elsewhere)
    assert by_looking.response_received(100.0 + later_s, call, HeartbeatResponse()) == []
    assert in_short.kept_alive(100.0 + later_s, elsewhere.id, request.message)
    assert as_known(in_short) == as_known(by_looking)


def test_a_success_of_an_unknown_member_is_to_be_looked_at():
    assert not Observer(TopicNames()).kept_alive(1.0, ConnectionId(1), messages.heartbeat_message())
