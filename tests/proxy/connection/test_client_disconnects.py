"""A Heartbeat and its client's hang-up wait in the socket together, because the process stood still meanwhile.

Of several processes none may let such a call count (docs/explanation/translation.md): the client may have joined at
another one. The sockets are real, and so is the translation.
"""

import select
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.leave_group import LeaveGroupRequest, MemberIdentity
from proxy.transport.tcp_stream import TcpStream
from proxy.transport.tls_stream import TlsStream
from tests.proxy.fakes import wire
from tests.proxy.fakes.bench import Bench, a_bench
from tests.proxy.fakes.certificates import LOCAL, Authority
from tests.translation import bench as translation
from translation.settings import TranslatorSettings

MEMBER = "member-a"

Client = TcpStream | TlsStream
TcpPair = Callable[[], tuple[TcpStream, TcpStream]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder: Path = tmp_path_factory.mktemp("tls")
    return Authority(folder)


@pytest.fixture(params=["plain", "tls"])
def pair(request: pytest.FixtureRequest, tcp_pair: TcpPair, authority: Authority) -> Callable[[], tuple]:
    """First both ends of the client's connection, then those of the broker's, which is plain."""
    made: list[str] = []

    def make() -> tuple[trio.abc.Stream, trio.abc.Stream]:
        made.append("")
        near, far = tcp_pair()
        if request.param == "plain" or len(made) > 1:
            return near, far
        client = TlsStream(near, authority.client_context(), server_side=False, server_name=LOCAL)
        return client, TlsStream(far, authority.server_context(), server_side=True)

    return make


def a_translator_with_a_member(*, sole_process: bool):
    history = translation.Bench(settings=TranslatorSettings(sole_process=sole_process))
    history.now = trio.current_time()
    served = history.connect()  # the number of the connection that the test serves
    history.stable_member(history.connect(), (0, 1), member_id=MEMBER)
    context = history.translator._context
    context.authorized_groups.add(served.id, translation.GROUP)  # its client has called there too, last
    context.registry.find(translation.GROUP, MEMBER).connection_id = served.id
    return history.translator


@asynccontextmanager
async def serving(pair: Callable[[], tuple], *, sole_process: bool) -> AsyncIterator[Bench]:
    """A connection that has asked for the broker's versions, and a member of the translation."""
    async with a_bench(pair, translator=a_translator_with_a_member(sole_process=sole_process)) as bench:
        if isinstance(bench.client, TlsStream):
            await bench.client.handshake()
        await bench.negotiate()
        yield bench


def heartbeat(correlation_id: int) -> bytes:
    message = HeartbeatRequest(group_id=translation.GROUP, generation_id=1, member_id=MEMBER)
    return wire.request(ApiKey.HEARTBEAT, 4, correlation_id, message)


def leave(correlation_id: int) -> bytes:
    message = LeaveGroupRequest(group_id=translation.GROUP, members=(MemberIdentity(member_id=MEMBER),))
    return wire.request(ApiKey.LEAVE_GROUP, 5, correlation_id, message)


def tcp(stream: trio.abc.Stream) -> socket.socket:
    assert isinstance(stream, Client)
    return (stream.transport if isinstance(stream, TlsStream) else stream).socket


def say_and_hang_up(bench: Bench, requests: bytes) -> None:
    """The proxy does not run while the client says this and closes its side, until its kernel knows both."""
    assert isinstance(bench.client, Client)
    assert bench.client.send_nowait(requests) == len(requests)
    tcp(bench.client).shutdown(socket.SHUT_WR)
    arrival = select.poll()
    arrival.register(tcp(bench.proxy_to_client), select.POLLRDHUP)
    assert arrival.poll(60_000)


async def test_of_several_processes_it_does_not_count(pair, mock_clock):
    async with serving(pair, sole_process=False) as bench:
        say_and_hang_up(bench, heartbeat(1))
        answer = await bench.from_proxy.frame()
        assert wire.body_of(answer, ApiKey.HEARTBEAT, 4).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await bench.from_proxy.frame() is None
        assert bench.count("events_total", kind="call_refused") == 1
        tcp(bench.broker).shutdown(socket.SHUT_WR)
        assert await bench.at_broker.frame() is None  # nothing was asked of it


async def test_of_several_processes_one_whose_client_is_there_counts(pair, mock_clock):
    async with serving(pair, sole_process=False) as bench:
        for n in (1, 2):  # the second is recognized as the first again, without being decoded
            await bench.client.send_all(heartbeat(n))
            asked = await bench.at_broker.frame()
            assert wire.api_of(asked) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
            response = translation.Bench.heartbeat_answer(1, orders=(0, 1))
            correlation_id = wire.correlation_id(asked)
            await bench.broker.send_all(
                wire.response(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, correlation_id, response)
            )
            answer = await bench.from_proxy.frame()
            assert wire.body_of(answer, ApiKey.HEARTBEAT, 4).error_code == ErrorCode.NONE
        say_and_hang_up(bench, heartbeat(3))
        answer = await bench.from_proxy.frame()
        assert wire.body_of(answer, ApiKey.HEARTBEAT, 4).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_of_the_only_process_it_counts(pair, mock_clock):
    async with serving(pair, sole_process=True) as bench:
        say_and_hang_up(bench, heartbeat(1))
        asked = await bench.at_broker.frame()
        assert wire.api_of(asked) == (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
        assert bench.count("events_total", kind="call_refused") == 0


async def test_a_leave_group_behind_it_counts(pair, mock_clock):
    """Clients send it and close behind it, and do not wait for the answer."""
    async with serving(pair, sole_process=False) as bench:
        say_and_hang_up(bench, heartbeat(1) + leave(2))
        asked = await bench.at_broker.frame()  # whether it is the last of the new protocol
        assert wire.api_of(asked) == (ApiKey.CONSUMER_GROUP_DESCRIBE, 1)
        nobody, correlation_id = translation.NO_CONSUMER_GROUP, wire.correlation_id(asked)
        await bench.broker.send_all(wire.response(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, correlation_id, nobody))
        asked = await bench.at_broker.frame()
        assert wire.api_of(asked)[0] == ApiKey.LEAVE_GROUP


async def test_an_end_is_known_before_what_was_sent_ahead_of_it_is_read(tcp_pair):
    near, far = tcp_pair()
    assert not far.peer_closed()
    await near.send_all(b"first")
    assert not far.peer_closed()
    await near.send_eof()
    select_end = select.poll()
    select_end.register(far.socket, select.POLLRDHUP)
    assert select_end.poll(60_000)
    assert far.peer_closed()
    assert not near.peer_closed()
    assert await far.receive_some() == b"first"
    assert far.peer_closed()


async def test_a_connection_that_was_reset_or_closed_here_has_ended(tcp_pair):
    near, far = tcp_pair()
    near.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    near.socket.close()
    reset = select.poll()
    reset.register(far.socket, 0)
    assert reset.poll(60_000)
    assert far.peer_closed()
    await far.aclose()
    assert far.peer_closed()
