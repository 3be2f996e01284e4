"""What passes through is looked at on its way, and brokers can be asked on a client's connection."""

import pytest
import trio

from protocol_codecs import ApiKey, ErrorCode, MalformedMessage
from protocol_codecs.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from proxy.groups.broker_queries import BrokerQuery
from proxy.session.response_tap import ResponseTap, is_plain_success
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.bench import Bench, a_bench


async def pass_a_heartbeat(bench: Bench, code: ErrorCode = ErrorCode.NONE, correlation_id: int = 1) -> None:
    request = messages.heartbeat(correlation_id)
    await bench.client.send_all(request)
    assert await bench.at_broker.frame() == request
    response = wire.response(ApiKey.HEARTBEAT, 3, correlation_id, HeartbeatResponse(error_code=code))
    await bench.broker.send_all(response)
    assert await bench.from_proxy.frame() == response


def ask(bench: Bench, told: list[object]) -> bool:
    question = BrokerQuery(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=("g",)))
    return bench.driver.ask("g", lambda _connection: question, told.append)


async def test_the_members_of_a_group_that_passes_through_are_seen():
    async with a_bench() as bench:
        await bench.negotiate()
        await pass_a_heartbeat(bench)
        assert bench.count("events_total", kind="adopted") == 1
        await pass_a_heartbeat(bench, ErrorCode.REBALANCE_IN_PROGRESS, 2)
        reason = "REBALANCE_IN_PROGRESS"
        assert bench.count("rebalances_total", reason=reason, protocol="classic") == 1
        await pass_a_heartbeat(bench, ErrorCode.UNKNOWN_MEMBER_ID, 3)
        assert bench.count("events_total", kind="fenced") == 1


async def test_the_client_tells_its_software():
    async with a_bench() as bench:
        await bench.negotiate()
        await pass_a_heartbeat(bench)
        (told,) = [entry for entry in bench.translator.told if entry[0] == "request"]
        assert told[1].software == "a/1"


async def test_a_broker_is_asked_on_the_connection_of_a_member():
    async with a_bench() as bench:
        await bench.negotiate()
        told: list[object] = []
        assert not ask(bench, told), "nobody of this group was heard"
        await pass_a_heartbeat(bench)
        assert ask(bench, told)
        request = await bench.at_broker.frame()
        assert wire.api_of(request) == (ApiKey.DESCRIBE_GROUPS, 5)
        assert bench.count("upstream_calls_in_flight") == 1
        answer = DescribeGroupsResponse()
        await bench.broker.send_all(
            wire.response(ApiKey.DESCRIBE_GROUPS, 5, wire.correlation_id(request), answer)
        )
        await pass_a_heartbeat(bench, correlation_id=2)
        assert told == [answer]
        assert bench.count("upstream_calls_in_flight") == 0


async def test_a_question_ends_with_its_connection():
    async with a_bench() as bench:
        await bench.negotiate()
        await pass_a_heartbeat(bench)
        told: list[object] = []
        assert ask(bench, told)
        await bench.at_broker.frame()
        await bench.broker.aclose()
        await bench.client.aclose()
        with trio.fail_after(5):
            await bench.ended.wait()
        assert told == []
        assert bench.count("upstream_calls_in_flight") == 0
        assert not ask(bench, told)


@pytest.mark.parametrize("pieces", [[b"abc"], [b"a", b"b", b"c"]])
def test_a_response_is_looked_at_as_a_whole(pieces):
    seen: list[bytes] = []
    watched = ResponseTap(seen.append)
    for number, piece in enumerate(pieces, 1):
        watched.take(piece, last=number == len(pieces))
    assert seen == [b"abc"]


def test_a_response_that_cannot_be_decoded_disturbs_nobody():
    def look(frame: bytes) -> None:
        raise MalformedMessage("X", 0, "x", 0, repr(frame))

    ResponseTap(look).take(b"abc", last=True)


def test_a_very_large_response_is_not_held():
    seen: list[bytes] = []
    watched = ResponseTap(seen.append)
    for _ in range(20):
        watched.take(bytes(100_000), last=False)
    watched.take(b"", last=True)
    assert seen == []


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(
    "code", [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_SERVER_ERROR]
)
@pytest.mark.parametrize("throttle_ms", [0, 7])
def test_a_heartbeat_that_went_well_is_known_without_decoding(version, code, throttle_ms):
    response = HeartbeatResponse(error_code=code, throttle_time_ms=throttle_ms if version else 0)
    frame = wire.response(ApiKey.HEARTBEAT, version, 1, response)
    assert is_plain_success(frame, version) is (code == ErrorCode.NONE)
    assert not is_plain_success(frame + b"\0", version)
