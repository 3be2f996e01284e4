"""Ports behind load balancers: who counts as the client, and what slow, silent and forged headers come to."""

import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing

import pytest
import structlog
import trio
import trio.testing
from msgspec.structs import replace

from proxy.config.proxy_protocol import ProxyProtocol
from proxy.config.schema import Config, Limits
from proxy.config.tls import ListenerTls
from proxy.metrics.registry import Metrics
from proxy.runtime.fd_limits import header_limit
from proxy.transport import proxied_port
from proxy.transport.listeners import Port
from proxy.transport.proxied_port import PendingHeaders, ProxyHeaders
from proxy.transport.tcp_stream import TcpStream
from proxy.transport.tls_stream import TlsStream
from tests.proxy.fakes import messages
from tests.proxy.fakes.broker import a_cluster, connect
from tests.proxy.fakes.certificates import LOCAL as CERTIFIED
from tests.proxy.fakes.certificates import Authority
from tests.proxy.fakes.proxy_headers import LOCAL, UNKNOWN, binary, line
from tests.proxy.fakes.serving import Running, config_for, serving

BALANCER = "127.0.0.1"
STRANGER = "127.0.0.66"
CLIENT, OTHER = "192.0.2.7", "192.0.2.8"


def behind_a_balancer(
    config: Config, *trusted: str, timeout_s: float = 5.0, tls: ListenerTls | None = None
) -> Config:
    (listener,) = config.listeners
    settings = ProxyProtocol(trusted=trusted or (BALANCER,), timeout_s=timeout_s)
    return replace(config, listeners=(replace(listener, proxy_protocol=settings, tls=tls),))


def connect_from(host: str, port: int) -> TcpStream:
    return TcpStream(socket.create_connection((BALANCER, port), source_address=(host, 0)))


async def until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(10):
        while not is_so():
            await trio.testing.wait_all_tasks_blocked(0.01)


async def ends(stream: TcpStream) -> bool:
    """Whether the proxy closes the connection without a byte."""
    with trio.fail_after(10):
        try:
            return await stream.receive_some() == b""
        except trio.BrokenResourceError:
            return True


def clients(proxy: Running) -> set[str]:
    """The addresses that connections are known by."""
    return {one._client_host for one in proxy.server._parts.connections}


def headers(proxy: Running, result: str) -> float:
    return proxy.count("client_to_proxy_proxy_headers_total", result=result)


# -- through the whole proxy ----------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [line, binary], ids=["v1", "v2"])
async def test_the_client_is_the_one_that_the_header_names(header):
    """Also for the limit of connections by address, which else is that of the balancer."""
    config = {"limits": Limits(max_connections_per_address=1)}
    async with (
        a_cluster(1) as brokers,
        serving(behind_a_balancer(config_for(brokers, **config))) as proxy,
    ):
        streams = [await connect(proxy.port()) for _ in range(2)]
        for n, (host, stream) in enumerate(zip((CLIENT, OTHER), streams, strict=True)):
            await stream.send_all(header(host))
            assert await proxy.ask(stream, messages.plain(n)) is not None
        assert clients(proxy) == {CLIENT, OTHER}
        async with await connect(proxy.port()) as third:
            await third.send_all(header(CLIENT))
            assert await ends(third)
        assert proxy.count("client_to_proxy_connections_refused_total", reason="per_address") == 1
        assert headers(proxy, "client") == 3
        for stream in streams:
            await stream.aclose()


async def test_header_and_request_may_come_in_one_packet_and_in_single_bytes():
    async with a_cluster(1) as brokers, serving(behind_a_balancer(config_for(brokers))) as proxy:
        async with await connect(proxy.port(1)) as stream:
            assert await proxy.ask(stream, binary(CLIENT) + messages.plain(1)) is not None
        for header in (line(OTHER), binary(OTHER)):
            async with await connect(proxy.port(1)) as stream:
                for at in range(len(header)):
                    await stream.send_all(header[at : at + 1])
                    await trio.testing.wait_all_tasks_blocked()
                assert await proxy.ask(stream, messages.plain(2)) is not None
                assert OTHER in clients(proxy)


@pytest.mark.parametrize("header", [line, binary], ids=["v1", "v2"])
async def test_tls_begins_right_behind_the_header(tmp_path, header):
    authority = Authority(tmp_path)
    async with a_cluster(1) as brokers:
        config = behind_a_balancer(config_for(brokers), tls=authority.listener_tls())
        async with serving(config) as proxy:
            plain = await connect(proxy.port(1))
            await plain.send_all(header(CLIENT))
            stream = TlsStream(plain, authority.client_context(), server_side=False, server_name=CERTIFIED)
            await stream.handshake()
            assert await proxy.ask(stream, messages.plain(1)) is not None
            assert clients(proxy) == {CLIENT}
            await stream.aclose()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("header", [line, binary], ids=["v1", "v2"])
async def test_a_forged_header_from_elsewhere_changes_nothing(tmp_path, header, *, tls: bool):
    authority = Authority(tmp_path)
    async with a_cluster(1) as brokers:
        config = behind_a_balancer(config_for(brokers), tls=authority.listener_tls() if tls else None)
        async with serving(config) as proxy:
            before = list(brokers[1].requests)
            with structlog.testing.capture_logs() as lines:
                forger = connect_from(STRANGER, proxy.port())
                await forger.send_all(header(CLIENT) + messages.plain(1))
                assert await ends(forger)
                await forger.aclose()
                await until(lambda: proxy.count("client_to_proxy_errors_total", kind="proxy_header") == 1)
            (said,) = [entry for entry in lines if entry["event"] == "connection closed"]
            assert said["client"] == STRANGER
            assert "not in `proxy_protocol.trusted`" in said["reason"]
            assert brokers[1].requests == before
            if not tls:
                async with connect_from(STRANGER, proxy.port()) as stream:
                    assert await proxy.ask(stream, messages.plain(2)) is not None
                    assert clients(proxy) == {STRANGER}
            assert headers(proxy, "client") == headers(proxy, "invalid") == 0


async def test_a_header_where_none_is_expected_is_named():
    async with a_cluster(1) as brokers, serving(config_for(brokers)) as proxy:
        with structlog.testing.capture_logs() as lines:
            async with await connect(proxy.port()) as stream:
                await stream.send_all(line(CLIENT))
                assert await ends(stream)
        (said,) = [entry for entry in lines if entry["event"] == "connection closed"]
        assert "a PROXY header" in said["reason"]


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (messages.plain(1), "no PROXY header"),
        (b"\x16\x03\x01\x02\0", "no PROXY header"),
        (b"PROXY TCP4 192.0.2.7\r\n", "no line of the PROXY protocol"),
        (binary(CLIENT)[:-1], "closed in the middle of its PROXY header"),
    ],
    ids=["Kafka", "TLS", "invalid", "cut short"],
)
async def test_a_trusted_address_has_to_send_a_header(first, reason):
    async with a_cluster(1) as brokers, serving(behind_a_balancer(config_for(brokers))) as proxy:
        before = list(brokers[1].requests)
        with structlog.testing.capture_logs() as lines:
            async with await connect(proxy.port()) as stream:
                await stream.send_all(first)
                await stream.send_eof()
                assert await ends(stream)
            await until(lambda: headers(proxy, "invalid") == 1)
        (said,) = [entry for entry in lines if entry["event"] == "connection refused"]
        assert said["load_balancer"] == BALANCER
        assert reason in said["reason"]
        assert brokers[1].requests == before
        assert proxy.count("client_to_proxy_connections_total", node_id="bootstrap") == 0


@pytest.mark.parametrize(
    "sent",
    [LOCAL, UNKNOWN, line(BALANCER), binary(BALANCER), b""],
    ids=["LOCAL", "UNKNOWN", "itself-v1", "itself-v2", "nothing"],
)
@pytest.mark.parametrize("resets", [False, True], ids=["close", "reset"])
async def test_a_health_check_is_quiet(sent, *, resets: bool):
    async with a_cluster(1) as brokers, serving(behind_a_balancer(config_for(brokers))) as proxy:
        with structlog.testing.capture_logs() as lines:
            stream = await connect(proxy.port(1))
            await stream.send_all(sent)
            if resets:
                stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await stream.aclose()
            await until(lambda: headers(proxy, "health_check") == 1)
        assert lines == []
        assert proxy.count("client_to_proxy_connections_total", node_id="1") == 0


@pytest.mark.parametrize("header", [LOCAL, UNKNOWN, line(BALANCER)], ids=["LOCAL", "UNKNOWN", "itself"])
async def test_a_connection_of_the_balancers_own_has_its_address(header):
    async with a_cluster(1) as brokers, serving(behind_a_balancer(config_for(brokers))) as proxy:
        async with await connect(proxy.port(1)) as stream:
            await stream.send_all(header)
            assert await proxy.ask(stream, messages.plain(1)) is not None
            assert clients(proxy) == {BALANCER}
        assert headers(proxy, "peer") == 1


async def test_a_drain_does_not_wait_for_headers():
    async with a_cluster(1) as brokers:
        with trio.fail_after(4):
            config = behind_a_balancer(config_for(brokers), timeout_s=60.0)
            async with serving(config) as proxy:
                stream = await connect(proxy.port())
                await stream.send_all(line(CLIENT)[:10])
                await until(lambda: len(proxy.server.ports.listeners[0].ports[None].headers._pending) == 1)
        assert await ends(stream)
        await stream.aclose()


async def test_descriptors_for_headers_are_kept_free():
    async with a_cluster(1) as brokers, serving(behind_a_balancer(config_for(brokers))) as proxy:
        (bound,) = proxy.server.ports.listeners
        assert bound.descriptors == len(bound.ports) + header_limit()


# -- one port, in virtual time ---------------------------------------------------------------------------------


class Accepting:
    """A port on its own; ``taken`` are the connections that it gave away, with the address of each."""

    def __init__(self, limit: int = 10, timeout_s: float = 5.0) -> None:
        self.metrics = Metrics()
        settings = ProxyProtocol(trusted=("127.0.0.0/30", "::1"), timeout_s=timeout_s)
        self.port = Port(BALANCER, 0, self.metrics.accept_failures)
        self.pending = PendingHeaders(limit)
        self.port.headers = ProxyHeaders(self.port.number, settings, self.pending, self.metrics)
        self.taken: list[tuple[socket.socket, str]] = []

    def accepted(self, connection: socket.socket, host: str) -> None:
        self.taken.append((connection, host))

    def count(self, result: str) -> float:
        name = "epochgate_client_to_proxy_proxy_headers_total"
        return self.metrics.registry.get_sample_value(name, {"result": result}) or 0.0

    def hosts(self) -> list[str]:
        return [host for _, host in self.taken]


@asynccontextmanager
async def accepting(**options) -> AsyncIterator[Accepting]:
    one = Accepting(**options)
    one.port.listen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.port.accept, one.accepted)
        yield one
        one.port.close()
    for connection, _ in one.taken:
        connection.close()


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)


async def test_a_slow_header_has_its_time_and_delays_nobody(mock_clock):
    header = line(CLIENT)
    async with accepting() as proxy:
        with (
            closing(connect_from("127.0.0.1", proxy.port.number).socket) as slow,
            closing(connect_from("127.0.0.2", proxy.port.number).socket) as silent,
            closing(connect_from("127.0.0.3", proxy.port.number).socket) as good,
            structlog.testing.capture_logs() as lines,
        ):
            for second in range(5):
                slow.send(header[second : second + 1])
                await settled()
                mock_clock.jump(0.999)
            good.send(header)
            await settled()
            assert proxy.hosts() == [CLIENT], "while the others wait"
            assert proxy.count("timeout") == 0
            mock_clock.jump(0.01)
            await settled()
            assert proxy.count("timeout") == 2
            assert slow.recv(1) == silent.recv(1) == b""
        assert proxy.hosts() == [CLIENT]
    said = [entry["reason"] for entry in lines if entry["event"] == "connection refused"]
    assert said == ["no whole PROXY header within 5 s"], "one line a second"


async def test_a_health_check_that_stays_ends_in_time_and_quietly(mock_clock):
    async with accepting() as proxy:
        with (
            closing(connect_from("127.0.0.1", proxy.port.number).socket) as check,
            structlog.testing.capture_logs() as lines,
        ):
            check.send(LOCAL)
            await settled()
            mock_clock.jump(5.0)
            await settled()
            assert check.recv(1) == b""
            assert proxy.count("health_check") == 1
    assert lines == []


async def test_silent_connections_make_room_for_new_ones(mock_clock):
    async with accepting(limit=3) as proxy:
        silent = []
        for _ in range(3):
            silent.append(connect_from("127.0.0.1", proxy.port.number).socket)
            await settled()
        assert len(proxy.pending) == 3
        with closing(connect_from("127.0.0.2", proxy.port.number).socket) as good:
            good.send(binary(CLIENT))
            await settled()
            assert proxy.hosts() == [CLIENT]
        assert proxy.count("crowded_out") == 1
        assert silent[0].recv(1) == b"", "the oldest"
        silent[1].send(binary(OTHER))
        await settled()
        assert proxy.hosts() == [CLIENT, OTHER]
        assert len(proxy.pending) == 1
        for sock in silent:
            sock.close()


async def test_a_flood_of_silent_connections_keeps_no_client_from_being_served(mock_clock):
    async with accepting(limit=50) as proxy:
        flood = []
        for n in range(500):
            flood.append(connect_from("127.0.0.1", proxy.port.number).socket)
            if n % 50 == 49:
                with closing(connect_from("127.0.0.2", proxy.port.number).socket) as good:
                    good.send(line(f"192.0.2.{n // 50}"))
                    await settled()
        assert proxy.hosts() == [f"192.0.2.{n}" for n in range(10)]
        assert len(proxy.pending) <= 50
        for sock in flood:
            sock.close()


async def test_an_ipv4_client_is_the_same_in_an_ipv6_header(mock_clock):
    async with accepting() as proxy:
        with closing(connect_from("127.0.0.1", proxy.port.number).socket) as sock:
            sock.send(b"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n")
            await settled()
        assert proxy.hosts() == [CLIENT]


async def test_a_bug_in_reading_a_header_ends_one_connection(mock_clock, monkeypatch):
    async with accepting() as proxy:
        with monkeypatch.context() as patch:
            patch.setattr(proxied_port, "MAX_HEADER", "many")
            with closing(connect_from("127.0.0.1", proxy.port.number).socket) as sock:
                sock.send(line(CLIENT))
                await settled()
        with closing(connect_from("127.0.0.1", proxy.port.number).socket) as sock:
            sock.send(line(OTHER))
            await settled()
        assert proxy.hosts() == [OTHER]
        name, place = "epochgate_internal_errors_total", {"where": "connection"}
        assert proxy.metrics.registry.get_sample_value(name, place) == 1
