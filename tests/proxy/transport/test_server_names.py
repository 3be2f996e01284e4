"""One port for all nodes: the server name of the TLS handshake decides where a connection leads, if anywhere."""

import datetime as dt
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import structlog
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID

from protocol_codecs import ApiKey
from proxy.config.identity import IdentityMode
from proxy.config.proxy_protocol import ProxyProtocol
from proxy.config.schema import Config, Limits, Listener
from proxy.config.tls import ClientAuth, ListenerTls
from proxy.transport.certificate_names import check_names
from proxy.transport.tcp_stream import TcpStream
from proxy.transport.tls_context import file_problems, listener_material
from proxy.transport.tls_errors import TlsFilesError
from proxy.transport.tls_stream import TlsStream
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.broker import FakeBroker, a_cluster, connect
from tests.proxy.fakes.certificates import LOCAL, Authority, connect_tls
from tests.proxy.fakes.hellos import extension, hello_of, message, record, server_name
from tests.proxy.fakes.proxy_headers import binary, line
from tests.proxy.fakes.serving import Running, config_for, serving
from tests.proxy.transport.test_revocation import Resuming, a_client, see_principals

BOOTSTRAP = "kafka.example"
UNRECOGNIZED_NAME = b"\x15\x03\x03\x00\x02\x02\x70"
DECODE_ERROR = b"\x15\x03\x03\x00\x02\x02\x32"
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def name_of(node_id: int) -> str:
    return f"b{node_id}.kafka.example"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


def a_listener(tls: ListenerTls, **keys) -> Listener:
    return Listener(
        **{
            "bind": LOCAL,
            "port": 0,
            "nodes_by_name": "b{node}.kafka.example",
            "bootstrap_name": BOOTSTRAP,
            "node_ids": ("0-3",),
            "tls": tls,
            "identity": IdentityMode.NONE,
        }
        | keys
    )


def tls_for(authority: Authority, *names: str, **keys) -> ListenerTls:
    """A certificate for these names, by default for all of the listener."""
    return authority.listener_tls(hosts=names or (BOOTSTRAP, "*.kafka.example"), **keys)


def by_name(brokers: dict[int, FakeBroker], tls: ListenerTls, **sections) -> Config:
    return config_for(brokers, listeners=(a_listener(tls),), **sections)


@asynccontextmanager
async def one_port(authority: Authority, *nodes: int, **sections) -> AsyncIterator[tuple[dict, Running]]:
    async with (
        a_cluster(*nodes) as brokers,
        serving(by_name(brokers, tls_for(authority), **sections)) as proxy,
    ):
        yield brokers, proxy


async def node_that_answers(
    proxy: Running, brokers: dict[int, FakeBroker], context: ssl.SSLContext, name: str, marker: int
) -> int:
    """The broker that a request arrives at, by the name of the handshake."""
    client = await connect_tls(proxy.port(), context, name)
    assert await proxy.ask(client, messages.plain(marker)) is not None
    await client.aclose()
    (found,) = [node for node, one in brokers.items() if messages.plain(marker) in one.requests]
    return found


async def answer_to(proxy: Running, data: bytes) -> bytes:
    """All that the proxy sends to a client of these first bytes, until it closes."""
    async with await connect(proxy.port()) as client:
        await client.send_all(data)
        answer = b""
        with (
            trio.fail_after(10),
            suppress(trio.BrokenResourceError),
        ):  # it may close before it has read everything
            while more := await client.receive_some():
                answer += more
        return answer


class HeaderFirst(TcpStream):
    """A connection whose first packet begins with a PROXY header."""

    def __init__(self, port: int, header: bytes) -> None:
        super().__init__(socket.create_connection((LOCAL, port)))
        self._header = header

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        header, self._header = self._header, b""
        await super().send_all(header + bytes(data))


# -- where a name leads --------------------------------------------------------------------------------------


async def test_each_name_leads_to_its_node(authority: Authority) -> None:
    async with one_port(authority, 1, 2) as (brokers, proxy):
        context = authority.client_context()
        for marker, (name, node) in enumerate(((name_of(1), 1), (name_of(2), 2), (name_of(1), 1))):
            assert await node_that_answers(proxy, brokers, context, name, marker) == node
        assert proxy.count("client_to_proxy_connections_total", node_id="1") == 2
        client = await connect_tls(proxy.port(), context, BOOTSTRAP)
        answer = await proxy.ask(client, messages.metadata(1))
        told = {b.node_id: (b.host, b.port) for b in wire.body_of(answer, ApiKey.METADATA, 9).brokers}
        assert told == {node: (name_of(node), proxy.port()) for node in (1, 2)}
        assert proxy.count("client_to_proxy_active_connections", node_id="bootstrap") == 1
        await client.aclose()


async def test_clients_are_told_the_advertised_port(authority: Authority) -> None:
    async with a_cluster(1) as brokers:
        listener = a_listener(tls_for(authority), advertised_port=443)
        async with serving(config_for(brokers, listeners=(listener,))) as proxy:
            client = await connect_tls(proxy.port(), authority.client_context(), BOOTSTRAP)
            answer = await proxy.ask(client, messages.metadata(1))
            (told,) = wire.body_of(answer, ApiKey.METADATA, 9).brokers
            assert (told.host, told.port) == (name_of(1), 443)
            await client.aclose()


@pytest.mark.parametrize("name", ["B1.Kafka.EXAMPLE", "b1.kafka.example."])
async def test_capitals_and_a_dot_at_the_end_make_no_other_name(authority: Authority, name: str) -> None:
    context = authority.client_context()
    context.check_hostname = False
    async with one_port(authority, 1, 2) as (brokers, proxy):
        assert await node_that_answers(proxy, brokers, context, name, 5) == 1


async def test_a_node_that_joins_later_is_reached_as_soon_as_it_is_known(authority: Authority) -> None:
    """Its name is served before, by a bootstrap broker, as its port would be."""
    async with one_port(authority, 1) as (brokers, proxy):
        context = authority.client_context()
        assert await node_that_answers(proxy, brokers, context, name_of(3), 1) == 1
        brokers[3] = FakeBroker(3, brokers[1].nodes)
        brokers[3].nursery = brokers[1].nursery
        await brokers[3].start()
        client = await connect_tls(proxy.port(), context, BOOTSTRAP)
        await proxy.ask(client, messages.metadata(2))
        await client.aclose()
        assert await node_that_answers(proxy, brokers, context, name_of(3), 3) == 3


async def test_a_hello_of_single_bytes(authority: Authority) -> None:
    async with one_port(authority, 1) as (_, proxy):
        plain = await trio.open_tcp_stream(LOCAL, proxy.port())
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        class Slow(trio.abc.HalfCloseableStream):
            async def send_all(self, data: bytes) -> None:
                for byte in bytes(data):
                    await plain.send_all(bytes([byte]))

            async def wait_send_all_might_not_block(self) -> None:
                await plain.wait_send_all_might_not_block()

            async def send_eof(self) -> None:
                await plain.send_eof()

            async def receive_some(self, max_bytes: int | None = None) -> bytes:
                return await plain.receive_some(max_bytes)

            async def aclose(self) -> None:
                await plain.aclose()

        client = trio.SSLStream(Slow(), authority.client_context(), server_hostname=name_of(1))
        assert await proxy.ask(client, messages.plain(1)) is not None
        await trio.aclose_forcefully(client)


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, "names no server"),
        ("b4.kafka.example", "'b4.kafka.example'"),
        ("b01.kafka.example", "'b01.kafka.example'"),
        ("b1.kafka.example..", "'b1.kafka.example..'"),
        ("b-1.kafka.example", "'b-1.kafka.example'"),
        ("b{node}.kafka.example", "'b{node}.kafka.example'"),
        ("x.b1.kafka.example", "'x.b1.kafka.example'"),
        ("example", "'example'"),
        ("127.0.0.1", "'127.0.0.1'"),
        ("b1\n\x1b[31m.kafka\xff", r"'b1\n\x1b[31m.kafka\xff'".replace(r"\xff", "\xff")),
        ("a" * 60_00, f"'{'a' * 100}…'"),
    ],
    ids=lambda one: str(one)[:20],
)
async def test_another_name_is_refused_before_anything_is_sent_to_a_broker(
    authority: Authority, name: str | None, said: str
) -> None:
    hello = record(
        message(
            extension(43, b"\x02\x03\x04") + (b"" if name is None else server_name(name.encode("latin-1")))
        )
    )
    async with one_port(authority, 1) as (brokers, proxy):
        before = brokers[1].connections
        with structlog.testing.capture_logs() as logs:
            assert await answer_to(proxy, hello) == UNRECOGNIZED_NAME
        assert brokers[1].connections == before
        assert proxy.count("client_to_proxy_errors_total", kind="unknown_name") == 1
        (line,) = [one for one in logs if one["log_level"] == "warning"]
        assert said in line["reason"]
        assert len(line["reason"]) < 250


async def test_a_real_client_with_another_name_learns_why(authority: Authority) -> None:
    async with one_port(authority, 1) as (_, proxy):
        with pytest.raises(trio.BrokenResourceError) as caught:
            await connect_tls(proxy.port(), authority.client_context(), "kafka-0.example")
        assert "UNRECOGNIZED_NAME" in str(caught.value.__cause__).upper().replace(" ", "_")


async def test_what_is_no_hello_is_refused(authority: Authority) -> None:
    name = server_name(name_of(1).encode())
    hostile = {
        "two names": record(message(name + name)),
        "no hello": record(b"\x02\x00\x00\x00"),
        "too long": record(b"\x01\x00\xff\xff" + bytes(16_000))
        + record(bytes(16_000))
        + record(bytes(16_000)),
        "no record": b"\x16\x03\x01\xff\xff" + bytes(100),
    }
    async with one_port(authority, 1) as (brokers, proxy):
        before = brokers[1].connections
        for what, data in hostile.items():
            assert await answer_to(proxy, data) in (DECODE_ERROR, b""), what
        assert await answer_to(proxy, messages.plain(1)) == b""
        assert brokers[1].connections == before
        assert proxy.count("client_to_proxy_errors_total", kind="tls_handshake") == len(hostile)
        assert proxy.count("client_to_proxy_errors_total", kind="plaintext") == 1


async def test_a_hello_that_does_not_end_is_waited_for_as_long_as_for_a_first_request(
    authority: Authority,
) -> None:
    async with one_port(authority, 1, limits=Limits(first_request_timeout_s=0.3)) as (brokers, proxy):
        before = brokers[1].connections
        assert await answer_to(proxy, hello_of(name_of(1))[:-1]) == b""
        assert proxy.count("client_to_proxy_disconnects_total", cause="idle_timeout") == 1
        assert brokers[1].connections == before


async def test_the_name_of_a_node_that_can_not_be_reached_is_no_mistake_of_the_client(
    authority: Authority,
) -> None:
    """No alert: clients would take that for a mistake in their settings. The other names are served."""
    async with one_port(authority, 1, 2) as (brokers, proxy):
        context = authority.client_context()
        assert await node_that_answers(proxy, brokers, context, name_of(2), 1) == 2
        brokers[2].stop()
        client = await connect_tls(proxy.port(), context, name_of(2))
        await client.send_all(messages.plain(2))
        assert await client.receive_some() == b""
        await trio.aclose_forcefully(client)
        assert await answer_to(proxy, hello_of(name_of(2))) == b""
        assert proxy.count("client_to_proxy_connections_refused_total", reason="node_unreachable") == 1
        assert await node_that_answers(proxy, brokers, context, name_of(1), 3) == 1
        await brokers[2].start()
        with trio.fail_after(10):
            while proxy.count("unreachable_nodes"):  # noqa: ASYNC110  another task changes it
                await trio.sleep(0.05)
        assert await node_that_answers(proxy, brokers, context, name_of(2), 4) == 2


async def test_behind_a_load_balancer_the_name_selects_the_node_and_the_header_names_the_client(
    authority: Authority,
) -> None:
    """With header and ClientHello in one packet, and without a header to trust."""
    keys = {"client_ca": str(authority.file), "client_auth": ClientAuth.REQUIRED}
    listener = a_listener(tls_for(authority, **keys), proxy_protocol=ProxyProtocol(trusted=(LOCAL,)))
    context, seen = a_client(authority, "alice", ssl.TLSVersion.TLSv1_3), list[str]()
    async with a_cluster(1, 2) as brokers, serving(config_for(brokers, listeners=(listener,))) as proxy:
        see_principals(proxy.server, seen)
        for node, header in ((1, line), (2, binary)):
            stream = TlsStream(
                HeaderFirst(proxy.port(), header("192.0.2.7")), context, server_side=False,
                server_name=name_of(node),
            )  # fmt: skip
            await stream.handshake()
            assert await proxy.ask(stream, messages.plain(node)) is not None
            assert brokers[node].requests[-1] == messages.plain(node)
            assert {one._client_host for one in proxy.server._parts.connections} == {"192.0.2.7"}
            await stream.aclose()
            with trio.fail_after(10):
                while len(proxy.server._parts.connections):  # noqa: ASYNC110  another task changes it
                    await trio.sleep(0.01)
        assert seen == ["alice"] * 2
        assert await answer_to(proxy, binary("192.0.2.7") + hello_of("x.kafka.example")) == UNRECOGNIZED_NAME
        assert await answer_to(proxy, hello_of(name_of(1))) == b""
        assert proxy.count("client_to_proxy_proxy_headers_total", result="invalid") == 1


# -- resumed sessions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_that_is_resumed_under_another_name_leads_to_that_names_node(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    """OpenSSL itself would give the name of the first handshake, with TLS 1.2."""
    context = authority.client_context()
    context.maximum_version = version
    client = Resuming(context)
    async with one_port(authority, 1, 2) as (brokers, proxy):
        reused: list[bool] = []
        for node in (1, 1, 2, 1):
            before = {one: len(brokers[one].requests) for one in brokers}
            resumed, answer = await trio.to_thread.run_sync(client.connect, proxy.port(), name_of(node))
            assert answer
            reused.append(resumed)
            assert {one for one in brokers if len(brokers[one].requests) > before[one]} == {node}
        assert reused[:2] == [False, True], "sessions are resumed at all"


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_resumed_session_keeps_its_certificates_principal_under_every_name(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    clients = [Resuming(a_client(authority, name, version)) for name in ("alice", "bob")]
    seen: list[str] = []
    tls = tls_for(authority, client_ca=str(authority.file), client_auth=ClientAuth.REQUIRED)
    async with a_cluster(1, 2) as brokers, serving(by_name(brokers, tls)) as proxy:
        see_principals(proxy.server, seen)
        for node in (1, 1, 2, 1):
            for client in clients:
                _, answer = await trio.to_thread.run_sync(client.connect, proxy.port(), name_of(node))
                assert answer
    assert seen == ["alice", "bob"] * 4


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_of_another_listener_is_not_resumed(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    """One listener wants certificates, the other does not: a session of the second counts nothing at the first."""
    open_to_all = a_listener(tls_for(authority))
    demanding = a_listener(tls_for(authority, client_ca=str(authority.file), client_auth=ClientAuth.REQUIRED))
    context = authority.client_context()
    context.maximum_version = version
    client = Resuming(context)
    async with (
        a_cluster(1) as brokers,
        serving(config_for(brokers, listeners=(open_to_all, demanding))) as proxy,
    ):
        _, answer = await trio.to_thread.run_sync(client.connect, proxy.port(), name_of(1))
        assert answer
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await trio.to_thread.run_sync(client.connect, proxy.port(listener=1), name_of(1))


# -- the certificate -----------------------------------------------------------------------------------------


def test_a_certificate_that_is_not_for_all_names_is_refused(authority: Authority) -> None:
    good = (
        (BOOTSTRAP, "*.kafka.example"),
        ("Kafka.Example", *(name_of(node) for node in range(4))),
    )
    for names in good:
        tls = tls_for(authority, *names)
        listener_material(tls, names=a_listener(tls).server_names)
    for names, said in (
        (("*.kafka.example",), "is not for kafka.example of the listener"),
        ((BOOTSTRAP, "b0.kafka.example"), "is not for b1.kafka.example and 2 more names"),
        ((BOOTSTRAP, "*.example"), "is not for b0.kafka.example and 3 more names"),
        ((LOCAL,), "is not for b0.kafka.example and 4 more names"),
    ):
        tls = tls_for(authority, *names)
        with pytest.raises(TlsFilesError, match=said):
            listener_material(tls, names=a_listener(tls).server_names)
        ((key, text),) = file_problems(tls, a_listener(tls).server_names)
        assert key == "certificate"
        assert said in text


def test_a_certificate_whose_names_are_of_an_unknown_kind_is_refused() -> None:
    """Not with another error: at a reload that would end the process."""
    key, subject, now = ec.generate_private_key(ec.SECP256R1()), x509.Name([]), dt.datetime.now(dt.UTC)
    x400_address = x509.UnrecognizedExtension(
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"\x30\x04\xa3\x02\x30\x00"
    )
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, now, now + dt.timedelta(days=1))
    own = builder.add_extension(x400_address, critical=False).sign(key, hashes.SHA256())
    with pytest.raises(TlsFilesError, match=f"is not for {BOOTSTRAP}"):
        check_names("file", own.public_bytes(serialization.Encoding.PEM), [BOOTSTRAP])


async def test_a_new_certificate_without_a_name_is_refused_and_the_one_before_stays(
    authority: Authority,
) -> None:
    async with one_port(authority, 1) as (brokers, proxy):
        tls_for(authority, BOOTSTRAP)
        proxy.server.certificates[0].reload("a test")
        assert proxy.count("tls_is_current", where=f"listener {LOCAL}:0") == 0
        assert await node_that_answers(proxy, brokers, authority.client_context(), name_of(1), 1) == 1
