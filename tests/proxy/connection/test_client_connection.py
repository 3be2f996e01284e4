"""How a connection lives and ends: tasks, time, backpressure (docs/reference/protocol-contracts.md)."""

import gc
import weakref
from contextlib import suppress

import pytest
import structlog
import trio
import trio.testing

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from proxy.config.schema import Limits
from proxy.connection.disconnect_cause import DisconnectCause
from proxy.transport.write_buffer import HIGH_WATER
from proxy.wire.frame_splitter import STREAM_ABOVE
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.bench import Bench, a_bench
from translation.actions import Action, Answer, Call, CallId, Close, ConnectionId, Release

HERE = ConnectionId(1)


def plain_response(correlation_id: int, size: int = 4) -> bytes:
    return wire.response(ApiKey.DELETE_RECORDS, 0, correlation_id, bytes(size))


def a_call(call_id: int = 1) -> Call:
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    return Call(int(ApiKey.CONSUMER_GROUP_HEARTBEAT), 1, message, "a-client", HERE, CallId(call_id))


def bug() -> list[Action]:
    raise RuntimeError("a bug")


async def answer_call(bench: Bench, epoch: int = 5) -> bytes:
    """The broker reads a call and answers it; the request."""
    request = await bench.at_broker.frame()
    assert request is not None
    assert wire.api_of(request) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
    response = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=epoch)
    frame = wire.response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, wire.correlation_id(request), response)
    await bench.broker.send_all(frame)
    return request


async def known_to_the_translation(bench: Bench) -> None:
    """The client makes a group call, which is forwarded."""
    await bench.negotiate()
    await bench.client.send_all(messages.heartbeat(1))
    assert await bench.at_broker.frame() == messages.heartbeat(1)
    response = wire.response(ApiKey.HEARTBEAT, 3, 1, HeartbeatResponse())
    await bench.broker.send_all(response)
    assert await bench.from_proxy.frame() == response


# -- serving -------------------------------------------------------------------------------------------------


async def test_requests_and_responses_pass():
    async with a_bench(node_id=3) as bench:
        await bench.client.send_all(messages.plain(1) + messages.plain(2))
        assert await bench.at_broker.frame() == messages.plain(1)
        assert await bench.at_broker.frame() == messages.plain(2)
        await bench.broker.send_all(plain_response(1) + plain_response(2))
        assert await bench.from_proxy.frame() == plain_response(1)
        assert await bench.from_proxy.frame() == plain_response(2)
        assert bench.dialed == [3]
        assert bench.count("request_duration_seconds_count", api_key="DELETE_RECORDS") == 2


async def test_a_connection_that_says_nothing_opens_nothing(autojump_clock):
    async with a_bench(limits=Limits(first_request_timeout_s=30)) as bench:
        await bench.ended.wait()
        assert trio.current_time() == pytest.approx(30)
        assert not bench.dialed
        assert bench.count("client_to_proxy_disconnects_total", cause="idle_timeout") == 1


async def test_a_connection_that_has_spoken_may_be_silent(autojump_clock):
    async with a_bench(limits=Limits(first_request_timeout_s=30)) as bench:
        await bench.client.send_all(messages.plain(1))
        await trio.sleep(3600)
        assert not bench.ended.is_set()


async def test_an_answer_of_the_translation_lets_the_next_request_through():
    async with a_bench() as bench:
        await bench.negotiate()
        bench.translator.on_request = lambda request: [Answer(request.id, HeartbeatResponse(error_code=27))]
        await bench.client.send_all(messages.heartbeat(1) + messages.heartbeat(2) + messages.plain(3))
        for n in (1, 2):
            expected = wire.response(ApiKey.HEARTBEAT, 3, n, HeartbeatResponse(error_code=27))
            assert await bench.from_proxy.frame() == expected
        assert await bench.at_broker.frame() == messages.plain(3)


async def test_an_answer_that_needs_the_broker_first():
    async with a_bench() as bench:
        await bench.negotiate()
        requests = []
        bench.translator.on_request = lambda request: [requests.append(request), a_call()][1:]
        bench.translator.on_reply = lambda _call, reply: [
            Answer(requests[0].id, HeartbeatResponse(error_code=reply.member_epoch))
        ]
        await bench.client.send_all(messages.heartbeat(1) + messages.plain(2))
        await answer_call(bench, epoch=27)
        expected = wire.response(ApiKey.HEARTBEAT, 3, 1, HeartbeatResponse(error_code=27))
        assert await bench.from_proxy.frame() == expected
        assert await bench.at_broker.frame() == messages.plain(2)


async def test_the_translation_is_called_when_its_time_comes(autojump_clock):
    async with a_bench() as bench:
        await bench.negotiate()

        def later(request):
            bench.translator.deadline = trio.current_time() + 7
            bench.translator.on_time = lambda _now: [Answer(request.id, HeartbeatResponse())]
            return []

        bench.translator.on_request = later
        started = trio.current_time()
        await bench.client.send_all(messages.heartbeat(1))
        assert await bench.from_proxy.frame() is not None
        assert trio.current_time() - started == pytest.approx(7)


# -- the client ends -----------------------------------------------------------------------------------------


async def test_what_was_read_reaches_the_broker_after_the_client_is_gone():
    async with a_bench() as bench:
        silent = messages.produce(1, acks=0, size=1000)
        await bench.client.send_all(silent)
        await bench.client.aclose()
        assert await bench.at_broker.frame() == silent
        assert await bench.at_broker.frame() is None, "then the connection to the broker is closed"


async def test_a_client_that_vanishes_in_mid_frame_ends_only_its_connection():
    async with a_bench() as bench:
        await bench.client.send_all(messages.plain(1) + messages.plain(2)[:9])
        assert await bench.at_broker.frame() == messages.plain(1)
        with structlog.testing.capture_logs() as logs:
            await bench.client.aclose()
            while not bench.count("client_to_proxy_disconnects_total", cause="client_closed"):
                await trio.lowlevel.checkpoint()  # the broker must not be the first to go
            await bench.broker.aclose()
            await bench.ended.wait()
        assert any("middle of a request" in entry.get("reason", "") for entry in logs)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS ClientHello"),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
        (b"\xff\xff\xff\xff", "negative"),
        (b"\x7f\xff\xff\xff", "more than"),
        (bytes(range(200, 20, -3)), "negative"),
    ],
)
async def test_garbage_is_named_in_one_line_and_ends_the_connection(data, said):
    async with a_bench() as bench:
        with structlog.testing.capture_logs() as logs:
            await bench.client.send_all(data)
            assert await bench.from_proxy.frame() is None
            await bench.ended.wait()
        (line,) = [entry for entry in logs if entry["log_level"] == "warning"]
        assert said in line["reason"]
        assert bench.count("client_to_proxy_disconnects_total", cause="client_error") == 1
        assert not bench.dialed


async def test_the_upstream_connection_outlives_the_client_until_it_is_released():
    async with a_bench() as bench:
        await known_to_the_translation(bench)
        bench.translator.on_client_disconnected = lambda _id: [a_call()]
        await bench.client.aclose()
        await answer_call(bench)
        await trio.testing.wait_all_tasks_blocked()
        assert bench.translator.kinds()[-2:] == ["client gone", "reply"]
        assert bench.count("lingering_upstream_connections") == 1
        assert not bench.ended.is_set()

        bench.connection._shell.release()
        assert await bench.at_broker.frame() is None
        await bench.broker.aclose()
        await bench.ended.wait()
        assert bench.translator.kinds()[-1] == "reply", "after Release nothing more is told"
        assert bench.count("lingering_upstream_connections") == 0


async def test_a_lingering_connection_that_the_broker_closes_is_lost():
    async with a_bench() as bench:
        await known_to_the_translation(bench)
        bench.translator.on_client_disconnected = lambda _id: [a_call()]
        await bench.client.aclose()
        assert await bench.at_broker.frame() is not None
        await bench.broker.aclose()
        await bench.ended.wait()
        assert bench.translator.kinds()[-2:] == ["client gone", "upstream lost"]
        assert bench.count("upstream_calls_in_flight") == 0


async def test_a_connection_on_which_the_broker_owes_a_join_group_does_not_outlive_its_client():
    """A broker never answers a JoinGroup that a later one has overtaken; whatever was asked behind it would wait."""
    async with a_bench() as bench:
        await known_to_the_translation(bench)
        await bench.client.send_all(messages.join_group(2))
        assert await bench.at_broker.frame() == messages.join_group(2)
        await bench.client.aclose()
        assert await bench.at_broker.frame() is None
        await bench.broker.aclose()
        await bench.ended.wait()
        assert bench.translator.kinds()[-1] == "upstream lost"
        assert "client gone" not in bench.translator.kinds()


async def test_a_session_that_is_over_ends_the_connection_of_a_client_that_waits():
    async with a_bench() as bench:
        await bench.negotiate()
        sent, done = (
            SaslAuthenticateRequest(auth_bytes=b"t"),
            SaslAuthenticateResponse(session_lifetime_ms=60_000),
        )
        await bench.client.send_all(wire.request(ApiKey.SASL_AUTHENTICATE, 2, 5, sent))
        await bench.at_broker.frame()
        await bench.broker.send_all(wire.response(ApiKey.SASL_AUTHENTICATE, 2, 5, done))
        assert await bench.from_proxy.frame() is not None
        bench.translator.on_request = lambda _request: [a_call()]
        bench.ahead_s += 70
        await bench.client.send_all(messages.heartbeat(6))
        assert await bench.from_proxy.frame() is None
        await bench.client.aclose()
        await bench.broker.aclose()
        await bench.ended.wait()
        assert bench.count("client_to_proxy_disconnects_total", cause="session_expired") == 1


async def test_an_unanswered_request_of_a_client_that_is_gone_is_dropped():
    async with a_bench() as bench:
        await bench.negotiate()
        requests = []
        bench.translator.on_request = lambda request: [requests.append(request), a_call()][1:]
        bench.translator.on_client_disconnected = lambda _id: []
        bench.translator.on_reply = lambda _call, _reply: [
            Answer(requests[0].id, HeartbeatResponse()),
            Release(HERE),
        ]
        await bench.client.send_all(messages.heartbeat(1))
        await trio.testing.wait_all_tasks_blocked()
        await bench.client.aclose()
        await answer_call(bench)
        assert await bench.at_broker.frame() is None
        await bench.broker.aclose()
        await bench.ended.wait()
        assert bench.count("internal_errors_total", where="translation") == 0


async def test_a_request_cut_short_on_its_way_upstream_leaves_no_connection_for_calls():
    async with a_bench() as bench:
        await known_to_the_translation(bench)
        await bench.client.send_all(messages.produce(2, acks=1, size=2 * STREAM_ABOVE)[:STREAM_ABOVE])
        await trio.testing.wait_all_tasks_blocked()
        await bench.client.aclose()
        await bench.broker.aclose()
        await bench.ended.wait()
        assert bench.translator.kinds()[-1] == "upstream lost"
        assert "client gone" not in bench.translator.kinds()


# -- the broker ends -----------------------------------------------------------------------------------------


async def test_when_the_broker_is_lost_in_mid_call_the_client_is_closed():
    async with a_bench() as bench:
        await bench.negotiate()
        bench.translator.on_request = lambda _request: [a_call()]
        await bench.client.send_all(messages.heartbeat(1))
        assert await bench.at_broker.frame() is not None
        await bench.broker.aclose()
        assert await bench.from_proxy.frame() is None
        await bench.client.aclose()
        await bench.ended.wait()
        assert bench.translator.kinds()[-1] == "upstream lost"
        assert bench.count("client_to_proxy_disconnects_total", cause="server_closed") == 1
        assert bench.checked == [None]


async def test_what_the_broker_answered_before_it_was_lost_reaches_the_client():
    async with a_bench() as bench:
        await bench.client.send_all(messages.plain(1) + messages.plain(2))
        await bench.at_broker.frame()
        await bench.broker.send_all(plain_response(1))
        await bench.broker.aclose()
        assert await bench.from_proxy.frame() == plain_response(1)
        assert await bench.from_proxy.frame() is None


async def test_a_response_with_another_correlation_id_closes_both_sides():
    async with a_bench() as bench:
        await bench.client.send_all(messages.plain(1))
        await bench.at_broker.frame()
        with structlog.testing.capture_logs() as logs:
            await bench.broker.send_all(plain_response(2))
            assert await bench.from_proxy.frame() is None
            await bench.client.aclose()
            assert await bench.at_broker.frame() is None
        assert any("correlation id 2 where 1 is next" in entry.get("reason", "") for entry in logs)
        assert bench.count("proxy_to_server_errors_total", kind="correlation") == 1


async def test_a_broker_that_can_not_be_reached_closes_the_client():
    async with a_bench() as bench:
        bench.reachable = False
        await bench.client.send_all(messages.plain(1))
        assert await bench.from_proxy.frame() is None
        await bench.client.aclose()
        await bench.ended.wait()
        assert bench.count("client_to_proxy_disconnects_total", cause="server_unreachable") == 1
        assert bench.unreachable == [None]


# -- the proxy ends ------------------------------------------------------------------------------------------


async def test_the_translation_closes_a_connection_after_what_it_answered():
    async with a_bench() as bench:
        await bench.negotiate()
        bench.translator.on_request = lambda request: [
            Answer(request.id, HeartbeatResponse(error_code=25)),
            Close(HERE, "enough"),
        ]
        await bench.client.send_all(messages.heartbeat(1) + messages.plain(2))
        expected = wire.response(ApiKey.HEARTBEAT, 3, 1, HeartbeatResponse(error_code=25))
        assert await bench.from_proxy.frame() == expected
        assert await bench.from_proxy.frame() is None
        await bench.client.aclose()
        await bench.ended.wait()
        assert bench.count("client_to_proxy_disconnects_total", cause="translation") == 1
        assert bench.translator.kinds()[-1] == "upstream lost"


async def test_a_bug_in_the_translation_ends_that_connection_and_is_counted():
    async with a_bench() as bench:
        await bench.negotiate()
        bench.translator.on_request = lambda _request: bug()
        with structlog.testing.capture_logs() as logs:
            await bench.client.send_all(messages.heartbeat(1))
            assert await bench.from_proxy.frame() is None
        assert any("exc_info" in entry for entry in logs)
        assert bench.count("internal_errors_total", where="translation") == 1


async def test_a_bug_in_the_connection_ends_that_connection_and_is_counted():
    async with a_bench() as bench:
        bench.connection._session.process = bug
        with structlog.testing.capture_logs() as logs:
            await bench.client.send_all(messages.plain(1))
            assert await bench.from_proxy.frame() is None
        assert any("exc_info" in entry for entry in logs)
        assert bench.count("internal_errors_total", where="connection") == 1


async def test_a_bug_at_a_deadline_does_not_spin(autojump_clock):
    async with a_bench() as bench:
        bench.translator.on_time = lambda _now: bug()
        bench.translator.next_deadline = lambda: 0.0
        bench.driver.set_policy(None)
        await trio.sleep(10)
        assert 5 <= bench.translator.kinds().count("time") <= 11


async def test_a_drained_connection_finishes_what_is_under_way():
    async with a_bench() as bench:
        await bench.client.send_all(messages.plain(1))
        assert await bench.at_broker.frame() == messages.plain(1)
        bench.connection.close_when_idle(DisconnectCause.DRAIN)
        await bench.client.send_all(messages.plain(2))
        await bench.broker.send_all(plain_response(1))
        assert await bench.from_proxy.frame() == plain_response(1)
        assert await bench.from_proxy.frame() is None
        await bench.client.aclose()
        assert await bench.at_broker.frame() is None
        assert bench.count("client_to_proxy_disconnects_total", cause="drain") == 1


async def test_a_lingering_connection_ends_with_the_drain():
    async with a_bench() as bench:
        await known_to_the_translation(bench)
        bench.translator.on_client_disconnected = lambda _id: []
        await bench.client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        bench.connection.close_when_idle(DisconnectCause.DRAIN)
        assert await bench.at_broker.frame() is None
        await bench.broker.aclose()
        await bench.ended.wait()
        assert bench.translator.kinds()[-1] == "upstream lost"


async def test_a_connection_with_a_share_session_does_not_linger():
    """Its broker would go on holding the records of a client that is gone."""
    async with a_bench() as bench:
        await bench.acquire_records()
        request, response = messages.heartbeat(2), wire.response(ApiKey.HEARTBEAT, 3, 2, HeartbeatResponse())
        await bench.exchange(request, response)
        bench.translator.on_client_disconnected = lambda _id: []
        await bench.client.aclose()
        with trio.fail_after(5):
            assert await bench.at_broker.frame() is None
        assert "client disconnected" not in bench.translator.kinds()
        assert not bench.count("share_sessions_cut_total", cause="client_closed"), "it was not us"


async def test_a_share_session_that_is_cut_is_counted_by_its_cause():
    with structlog.testing.capture_logs() as logs:
        async with a_bench() as bench:
            await bench.acquire_records()
            assert bench.count("share_sessions_open") == 1
            bench.connection.end(DisconnectCause.MISROUTED)
            await bench.client.aclose()
            await bench.broker.aclose()
            await bench.ended.wait()
            assert bench.count("share_sessions_open") == 0
            assert bench.count("share_sessions_cut_total", cause="misrouted") == 1
    (said,) = [entry for entry in logs if "share session" in entry["event"]]
    assert (said["group"], said["cause"]) == ("g", "misrouted")


async def test_a_client_that_never_reads_does_not_keep_an_ended_connection(autojump_clock):
    async with a_bench(trio.testing.lockstep_stream_pair) as bench:
        await bench.client.send_all(messages.plain(1))
        await bench.at_broker.frame()
        await bench.broker.send_all(plain_response(1))
        await bench.broker.aclose()
        await bench.ended.wait()
        assert trio.current_time() < 30


# -- backpressure --------------------------------------------------------------------------------------------


async def sent_until_stuck(stream: trio.abc.Stream, frame: bytes, most: int) -> int:
    """How many bytes a peer can send before the proxy stops taking them."""
    sent = 0
    while sent < most:
        with trio.move_on_after(5) as scope:
            await stream.send_all(frame)
        if scope.cancelled_caught:
            break
        sent += len(frame)
    return sent


async def test_a_broker_that_does_not_read_stops_the_client(autojump_clock):
    limits = Limits(in_flight_requests=10**9)
    async with a_bench(trio.testing.lockstep_stream_pair, limits=limits) as bench:
        sent = await sent_until_stuck(bench.client, messages.produce(1, acks=0, size=10_000), 50 * HIGH_WATER)
        assert HIGH_WATER < sent < 2 * HIGH_WATER
        assert bench.connection._upstream.buffer.size < 2 * HIGH_WATER


async def test_a_client_that_does_not_read_stops_the_broker(autojump_clock):
    async with a_bench(trio.testing.lockstep_stream_pair) as bench:
        await bench.client.send_all(messages.plain(1))
        await bench.at_broker.frame()
        head = plain_response(1, 100 * HIGH_WATER)[:12]
        await bench.broker.send_all(head)
        sent = await sent_until_stuck(bench.broker, bytes(10_000), 50 * HIGH_WATER)
        assert HIGH_WATER < sent < 2 * HIGH_WATER + STREAM_ABOVE
        assert bench.connection._shell.to_client.size < 2 * HIGH_WATER + STREAM_ABOVE


async def test_a_client_that_pipelines_behind_a_waiting_call_is_stopped(autojump_clock):
    async with a_bench(trio.testing.lockstep_stream_pair) as bench:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.negotiate)
        bench.translator.on_request = lambda _request: []
        await bench.client.send_all(messages.heartbeat(1))
        sent = await sent_until_stuck(bench.client, messages.plain(2, padding=1000), 50 * HIGH_WATER)
        assert 60_000 < sent < 2 * HIGH_WATER


async def test_a_client_that_vanishes_while_its_call_waits_is_noticed():
    async with a_bench() as bench:
        await bench.negotiate()
        bench.translator.on_request = lambda _request: []
        bench.translator.on_client_disconnected = lambda _id: []
        await bench.client.send_all(messages.heartbeat(1) + messages.plain(2))
        await trio.testing.wait_all_tasks_blocked()
        await bench.client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert bench.translator.kinds()[-1] == "client gone"
        with suppress(trio.BrokenResourceError):
            await bench.broker.aclose()


@pytest.mark.parametrize("who_ends_it", ["client", "broker"])
async def test_what_has_ended_is_freed_without_the_garbage_collector(who_ends_it: str):
    """The collector comes by rarely: what waits for it would grow with the clients that come and go."""
    gc.disable()
    try:
        async with a_bench() as bench:
            await known_to_the_translation(bench)
            connection = bench.connection
            parts = [connection, connection._session, connection._shell, connection._from_client]
            gone = [weakref.ref(part) for part in parts]
            await (bench.client if who_ends_it == "client" else bench.broker).aclose()
            await bench.ended.wait()
            del connection, parts, bench.connection
            await trio.testing.wait_all_tasks_blocked()
            assert [part() for part in gone] == [None] * 4
    finally:
        gc.enable()
