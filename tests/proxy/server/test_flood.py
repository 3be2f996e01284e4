"""Too many connections, and connections that are no use: each is counted and logged, and the others are served."""

import errno
import resource
import socket
import struct
from collections import Counter
from contextlib import ExitStack

import pytest
import structlog
import trio

from proxy.config.schema import Limits
from proxy.runtime.fd_limits import connection_limit, pipe_limit
from proxy.transport.listeners import client_host
from proxy.transport.tcp_stream import TcpStream
from tests.proxy.fakes import messages
from tests.proxy.fakes.broker import a_cluster, connect
from tests.proxy.fakes.serving import config_for, serving
from tests.skips import not_here

MANY = 5000
DESCRIPTORS = 2 * MANY + 1000
PATIENCE_S = 10_000.0


async def until_counted(proxy, name: str, count: int, **labels: str) -> None:
    with trio.fail_after(300):
        while proxy.count(name, **labels) < count:  # noqa: ASYNC110  a metric has no event
            await trio.sleep(0.02)


async def test_connections_beyond_the_limit_are_refused_and_the_others_served():
    limits = Limits(max_connections=3)
    with structlog.testing.capture_logs() as lines:
        async with a_cluster(1) as brokers, serving(config_for(brokers, limits=limits)) as proxy:
            good = [await connect(proxy.port()) for _ in range(3)]
            for n, stream in enumerate(good):
                assert await proxy.ask(stream, messages.plain(n)) is not None
            for _ in range(5):
                async with await connect(proxy.port()) as refused:
                    assert await closed(refused)
            assert proxy.count("client_to_proxy_connections_refused_total", reason="total") == 5
            assert await proxy.ask(good[0], messages.plain(9)) is not None
            await good[1].aclose()
            with trio.fail_after(60):
                # Its place is free once its upstream side has ended.
                while len(proxy.server._parts.connections) == 3:  # noqa: ASYNC110  a place has no event
                    await trio.sleep(0.02)
            async with await connect(proxy.port()) as taken:
                assert await proxy.ask(taken, messages.plain(10)) is not None
            for stream in good:
                await stream.aclose()
    said = [line for line in lines if line["event"] == "connection refused"]
    assert said
    assert said[0]["reason"] == "there are 3 connections"


async def test_one_address_can_not_take_all_connections():
    limits = Limits(max_connections_per_address=2)
    async with a_cluster(1) as brokers, serving(config_for(brokers, limits=limits)) as proxy:
        greedy = [await connect(proxy.port()) for _ in range(2)]
        for n, stream in enumerate(greedy):
            assert await proxy.ask(stream, messages.plain(n)) is not None
        async with await connect(proxy.port()) as refused:
            assert await closed(refused)
        assert proxy.count("client_to_proxy_connections_refused_total", reason="per_address") == 1
        other = socket.create_connection(("127.0.0.1", proxy.port()), source_address=("127.0.0.9", 0))
        async with TcpStream(other) as stream:
            assert await proxy.ask(stream, messages.plain(3)) is not None
        for stream in greedy:
            await stream.aclose()


async def closed(stream: TcpStream) -> bool:
    """Whether the proxy closes the connection; refused ones are closed before they have said anything."""
    with trio.fail_after(10):
        try:
            return await stream.receive_some() == b""
        except trio.BrokenResourceError:
            return True


@pytest.fixture
def many_descriptors():
    """Descriptors for both ends of so many connections: they are all in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        not_here(f"the system allows {hard} descriptors, {DESCRIPTORS} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_five_thousand_connections_open_at_once_do_not_keep_others_from_being_served(
    mock_clock, many_descriptors
):
    """All are there before the first one's time is over: it is over for all in one moment, when the clock jumps."""
    mock_clock.rate = 1.0
    limits = Limits(first_request_timeout_s=PATIENCE_S, idle_timeout_s=10 * PATIENCE_S)
    with ExitStack() as flood, structlog.testing.capture_logs() as lines:
        async with a_cluster(1) as brokers, serving(config_for(brokers, limits=limits)) as proxy:
            good = await connect(proxy.port())
            assert await proxy.ask(good, messages.plain(0)) is not None
            for n in range(MANY):
                sock = flood.enter_context(socket.socket())
                sock.settimeout(0)
                sock.connect_ex(("127.0.0.1", proxy.port()))
                if (
                    n + 1
                ) % 1000 == 0:  # more that wait to be accepted would be lost in the kernel: it keeps 4096
                    assert await proxy.ask(good, messages.plain(n)) is not None
                    await until_counted(
                        proxy, "client_to_proxy_connections_total", n + 2, node_id="bootstrap"
                    )
            assert proxy.count("client_to_proxy_active_connections", node_id="bootstrap") == MANY + 1
            assert proxy.count("client_to_proxy_disconnects_total", cause="idle_timeout") == 0
            assert await proxy.ask(good, messages.plain(1)) is not None
            mock_clock.jump(PATIENCE_S)
            await until_counted(proxy, "client_to_proxy_disconnects_total", MANY, cause="idle_timeout")
            assert await proxy.ask(good, messages.plain(2)) is not None
            await good.aclose()
    ended = Counter(line["cause"] for line in lines if line["event"] == "connection closed")
    assert ended["idle_timeout"] == MANY


async def test_half_open_connections_end():
    """One side closed, reset in mid-request, and gone without a word."""
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        brokers[1].holds_back = trio.Event()
        waits = await connect(proxy.port())
        await waits.send_all(messages.plain(1))
        await brokers[1].got(messages.plain(1))
        await waits.send_eof()
        await until_counted(proxy, "client_to_proxy_disconnects_total", 1, cause="client_closed")
        brokers[1].holds_back = None

        reset = await connect(proxy.port())
        await reset.send_all(messages.plain(2)[:10])
        reset.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await reset.aclose()
        await until_counted(proxy, "client_to_proxy_disconnects_total", 2, cause="client_closed")

        silent = await connect(proxy.port())
        assert await proxy.ask(silent, messages.plain(3)) is not None
        (connection,) = (c for c in proxy.server._parts.connections if c.is_serving)
        sock = connection._client.socket
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [sock.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [60, 10, 6]
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        vanish(silent.socket)
        await until_counted(proxy, "client_to_proxy_disconnects_total", 3, cause="client_closed")
        await waits.aclose()


TCP_REPAIR = 19


def vanish(sock: socket.socket) -> None:
    """Close a socket so that its peer hears nothing of it, as when a machine loses its power."""
    try:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    except PermissionError:
        not_here("only root can let a connection vanish (TCP_REPAIR)")
    sock.close()


@pytest.mark.parametrize("descriptors", [256, 1024, 20_000, 1 << 20])
def test_connections_are_never_more_than_descriptors_allow(monkeypatch, descriptors):
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (descriptors, descriptors))
    ports, others = 22, 100
    connections = connection_limit(Limits(), ports)
    assert descriptors * 0.2 < 2 * connections
    assert 2 * connections + 2 * pipe_limit() + ports + others < descriptors
    assert connection_limit(Limits(max_connections=7), ports) == 7


async def test_connections_that_can_not_be_accepted_wait_and_are_counted(monkeypatch):
    accept = socket.socket.accept
    left = 3

    def accept_later(sock: socket.socket) -> tuple[socket.socket, object]:
        nonlocal left
        if left:
            left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(sock)

    with structlog.testing.capture_logs() as lines:
        async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
            monkeypatch.setattr(socket.socket, "accept", accept_later)
            async with await connect(proxy.port()) as stream:
                assert await proxy.ask(stream, messages.plain(1)) is not None
            assert proxy.count("client_to_proxy_accept_failures_total") == 3
    said = [line for line in lines if line["event"] == "can't accept a connection"]
    assert [line["reason"] for line in said] == ["Too many open files"], "once a second, not at each attempt"


@pytest.mark.parametrize(
    ("address", "host"), [("::ffff:10.0.0.7", "10.0.0.7"), ("10.0.0.7", "10.0.0.7"), ("fe80::7", "fe80::7")]
)
def test_an_ipv4_client_is_the_same_on_a_port_that_takes_ipv6_too(address, host):
    assert client_host(address) == host
