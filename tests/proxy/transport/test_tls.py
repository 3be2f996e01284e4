"""TLS on both sides of a running server: who gets in, who is named, and what happens when files change."""

import datetime as dt
import errno
import ssl
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
import structlog
import trio
import trio.testing
from cryptography.hazmat.primitives import serialization as to

from protocol_codecs import ApiKey
from proxy.config.identity import IdentityMode
from proxy.config.schema import Config, Limits, Listener, Upstream
from proxy.config.tls import ClientAuth, ListenerTls, TlsVersion, UpstreamTls
from proxy.runtime.file_watcher import FileWatcher
from proxy.server.server import Server
from proxy.transport.dialer import UnreachableError
from proxy.transport.tls_context import file_problems, listener_material, upstream_material
from proxy.transport.tls_errors import TlsFilesError
from tests.proxy.fakes import messages, wire
from tests.proxy.fakes.broker import a_cluster, connect
from tests.proxy.fakes.certificates import LOCAL, Authority, connect_tls
from tests.proxy.fakes.serving import Running, config_for, serving
from tests.proxy.fakes.translators import Scripted


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


def with_tls(config: Config, tls: ListenerTls | None = None, upstream: UpstreamTls | None = None) -> Config:
    listener = msgspec.structs.replace(config.listeners[0], tls=tls, identity=IdentityMode.NONE)
    return msgspec.structs.replace(
        config, listeners=(listener,), upstream=msgspec.structs.replace(config.upstream, tls=upstream)
    )


async def ask(stream: trio.abc.Stream, request: bytes) -> bytes | None:
    await stream.send_all(request)
    return await wire.FrameReader(stream).frame()


async def turned_away(proxy: Running, port: int, context: ssl.SSLContext) -> str:
    """What a client that is refused hears, at the handshake or (TLS 1.3) behind it."""

    async def attempt() -> None:
        stream = await connect_tls(port, context)
        try:
            await stream.send_all(messages.plain(1))
            assert await stream.receive_some() == b""
        finally:
            await trio.aclose_forcefully(stream)

    with pytest.raises(trio.BrokenResourceError) as caught:
        await attempt()
    return str(caught.value.__cause__ or caught.value)


# -- both sides ----------------------------------------------------------------------------------------------


async def test_tls_on_both_sides(authority: Authority) -> None:
    async with a_cluster(1, tls=authority.server_context()) as brokers:
        config = with_tls(config_for(brokers), authority.listener_tls(), authority.upstream_tls())
        async with serving(config) as proxy:
            assert proxy.count("known_nodes") == 1, "the first contact goes by TLS too"
            client = await connect_tls(proxy.port(1), authority.client_context())
            assert await ask(client, messages.plain(7)) is not None
            assert brokers[1].requests[-1] == messages.plain(7)
            await client.aclose()


async def test_large_frames_pass_by_tls(authority: Authority) -> None:
    async with a_cluster(1, tls=authority.server_context()) as brokers:
        config = with_tls(config_for(brokers), authority.listener_tls(), authority.upstream_tls())
        big = messages.produce(1, acks=1, size=4_000_000)
        async with serving(config) as proxy:
            brokers[1].answer = lambda request: wire.response(
                ApiKey.PRODUCE, 9, wire.correlation_id(request), bytes(4_000_000 if request == big else 4)
            )
            client = await connect_tls(proxy.port(1), authority.client_context())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.send_all, messages.plain(0) + big)
                reader = wire.FrameReader(client)
                assert await reader.frame() is not None
                assert len(await reader.frame()) == 4_000_009
            assert brokers[1].requests[-1] == big
            await client.aclose()


async def test_what_was_sent_before_a_goodbye_reaches_the_broker(authority: Authority) -> None:
    """A producer with acks=0 closes right after its last record (kroxylicious 4094)."""
    async with a_cluster(1, tls=authority.server_context()) as brokers:
        config = with_tls(config_for(brokers), authority.listener_tls(), authority.upstream_tls())
        async with serving(config) as proxy:
            client = await connect_tls(proxy.port(1), authority.client_context())
            await ask(client, messages.plain(1))  # with an answer unread, closing would reset the connection
            last = messages.produce(2, acks=0, size=500_000)
            await client.send_all(last)
            await client.aclose()
            await brokers[1].got(last)


async def test_each_listener_has_its_own_host_ports_and_tls(authority: Authority) -> None:
    async with a_cluster(1, 2) as brokers:
        inside = Listener(bind=LOCAL, port=0, advertised_host="inside.example", nodes={"0-3": 0})
        outside = Listener(
            bind=LOCAL,
            port=0,
            advertised_host="outside.example",
            nodes={"1": 0, "2": 0},
            tls=authority.listener_tls(),
        )
        async with serving(config_for(brokers, listeners=(inside, outside))) as proxy:
            plain = await connect(proxy.port())
            guarded = await connect_tls(proxy.port(listener=1), authority.client_context())
            for n, (client, host) in enumerate(((plain, "inside.example"), (guarded, "outside.example"))):
                answer = await ask(client, messages.metadata(1))
                told = {b.node_id: (b.host, b.port) for b in wire.body_of(answer, ApiKey.METADATA, 9).brokers}
                assert told == {node: (host, proxy.port(node, listener=n)) for node in (1, 2)}
                await client.aclose()


# -- who gets in ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client_auth", list(ClientAuth))
async def test_client_certificates(authority: Authority, tmp_path: Path, client_auth: ClientAuth) -> None:
    ca = None if client_auth is ClientAuth.NONE else str(authority.file)
    tls = authority.listener_tls(client_ca=ca, client_auth=client_auth)
    without = authority.client_context()
    with_one = authority.client_context()
    with_one.load_cert_chain(*authority.issue("client", "client.example"))
    stranger = authority.client_context()
    stranger.load_cert_chain(*Authority(tmp_path / "theirs").issue("stranger"))
    gets_in = {
        ClientAuth.NONE: (without, with_one, stranger),
        ClientAuth.OPTIONAL: (without, with_one),
        ClientAuth.REQUIRED: (with_one,),
    }[client_auth]
    async with a_cluster(1) as brokers, serving(with_tls(config_for(brokers), tls)) as proxy:
        for context in gets_in:
            client = await connect_tls(proxy.port(1), context)
            assert await ask(client, messages.plain(1)) is not None
            await client.aclose()
        refused = [context for context in (without, with_one, stranger) if context not in gets_in]
        for context in refused:
            await turned_away(proxy, proxy.port(1), context)
        assert proxy.count("client_to_proxy_errors_total", kind="tls_handshake") == len(refused)


async def test_an_old_version_of_tls_is_refused(authority: Authority) -> None:
    tls = authority.listener_tls(min_version=TlsVersion.TLS_1_3)
    async with a_cluster(1) as brokers, serving(with_tls(config_for(brokers), tls)) as proxy:
        old = authority.client_context()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert "alert protocol version" in (await turned_away(proxy, proxy.port(1), old)).lower()
        client = await connect_tls(proxy.port(1), authority.client_context())
        assert await ask(client, messages.plain(1)) is not None
        await client.aclose()


@pytest.mark.parametrize(
    ("certificate_of", "keys", "said"),
    [
        ("theirs", {}, "the peer's certificate is refused: unable to get local issuer certificate"),
        ("another host", {}, "the peer's certificate is refused: IP address mismatch"),
        ("another host", {"verify_hostname": False}, None),
        ("another host", {"server_name": "kafka.example"}, None),
        ("ours", {"server_name": "kafka.example"}, "Hostname mismatch"),
    ],
)
async def test_a_broker_is_who_it_says_or_is_not_talked_to(
    authority: Authority, tmp_path: Path, certificate_of: str, keys: dict, said: str | None
) -> None:
    issuer = Authority(tmp_path / "theirs") if certificate_of == "theirs" else authority
    host = "kafka.example" if certificate_of == "another host" else LOCAL
    async with a_cluster(1, tls=issuer.server_context(host=host)) as brokers:
        patience_s = None if said is None else 3.0
        config = with_tls(
            config_for(brokers, startup_timeout_s=patience_s), upstream=authority.upstream_tls(**keys)
        )
        if said is None:
            async with serving(config) as proxy, await connect(proxy.port(1)) as client:
                assert await ask(client, messages.plain(1)) is not None
            return
        with pytest.raises(ExceptionGroup) as caught:
            await Server(config, Scripted()).run()
        assert said in str(caught.value.exceptions[0])


async def test_the_proxy_shows_its_certificate_to_brokers(authority: Authority) -> None:
    demanding = authority.server_context()
    demanding.verify_mode = ssl.CERT_REQUIRED
    demanding.load_verify_locations(authority.file)
    certificate, key = authority.issue("proxy-as-client", "epochgate.example")
    async with a_cluster(1, tls=demanding) as brokers:
        tls = authority.upstream_tls(certificate=str(certificate), key=str(key), clients_share_identity=True)
        config = with_tls(config_for(brokers), upstream=tls)
        async with serving(config) as proxy, await connect(proxy.port(1)) as client:
            assert await ask(client, messages.plain(1)) is not None
        config = with_tls(config_for(brokers, startup_timeout_s=3.0), upstream=authority.upstream_tls())
        with pytest.raises(ExceptionGroup) as caught:
            await Server(config, Scripted()).run()
        assert isinstance(caught.value.exceptions[0], UnreachableError)


# -- the wrong port ------------------------------------------------------------------------------------------


async def test_what_speaks_to_the_wrong_port_is_named(authority: Authority) -> None:
    """TLS against plaintext ports is a recurring support case (kroxylicious 1650, 2439)."""
    async with (
        a_cluster(1) as brokers,
        serving(with_tls(config_for(brokers), authority.listener_tls())) as proxy,
    ):
        for first, kind, said in (
            (messages.ask_versions(1), "plaintext", "plaintext Kafka on a TLS port"),
            (b"GET / HTTP/1.1\r\n\r\n", "http", "HTTP without TLS"),
            (b"\xff" * 20, "tls_handshake", "no TLS on a TLS port"),
        ):
            with structlog.testing.capture_logs() as logs:
                async with await connect(proxy.port(1)) as client:
                    await client.send_all(first)
                    while await client.receive_some():
                        pass
                await trio.testing.wait_all_tasks_blocked(0.05)
            (line,) = [entry for entry in logs if entry["log_level"] == "warning"]
            assert said in line["reason"]
            assert proxy.count("client_to_proxy_errors_total", kind=kind) == 1
        client = await connect_tls(proxy.port(1), authority.client_context())
        assert await ask(client, messages.plain(1)) is not None, "the others are served"
        await client.aclose()


async def test_tls_to_a_plaintext_broker_is_named_at_the_start(authority: Authority) -> None:
    async with a_cluster(1) as brokers:

        async def closes(stream: trio.abc.Stream) -> None:
            await stream.receive_some()

        brokers[1].serve = closes
        config = with_tls(config_for(brokers, startup_timeout_s=3.0), upstream=authority.upstream_tls())
        with pytest.raises(ExceptionGroup) as caught:
            await Server(config, Scripted()).run()
        assert "it may be a plaintext port" in str(caught.value.exceptions[0])


async def test_a_tls_handshake_that_is_never_finished_ends_in_time(authority: Authority) -> None:
    async with a_cluster(1) as brokers:
        config = with_tls(
            config_for(brokers, limits=Limits(first_request_timeout_s=0.3)), authority.listener_tls()
        )
        async with serving(config) as proxy:
            connections = brokers[1].connections
            silent = await connect(proxy.port(1))
            halfway = await connect(proxy.port(1))
            await halfway.send_all(b"\x16\x03\x01\x02\x00\x01")
            with trio.fail_after(10):
                for client in (silent, halfway):
                    while await client.receive_some():
                        pass
                    await client.aclose()
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert proxy.count("client_to_proxy_active_connections", node_id="1") == 0
            assert proxy.count("client_to_proxy_disconnects_total", cause="idle_timeout") == 2
            assert brokers[1].connections == connections, "no broker has heard of them"


# -- files that change ---------------------------------------------------------------------------------------


def serial(stream: trio.SSLStream) -> object:
    return stream.getpeercert()["serialNumber"]


async def test_changed_certificates_are_shown_to_new_connections_and_no_connection_is_dropped(
    authority: Authority, nursery: trio.Nursery
) -> None:
    tls = authority.listener_tls("proxy")
    async with a_cluster(1) as brokers, serving(with_tls(config_for(brokers), tls)) as proxy:
        nursery.start_soon(FileWatcher(lambda: proxy.server.certificates).run)
        before = await connect_tls(proxy.port(1), authority.client_context())
        expires = proxy.count("tls_certificate_expiry_timestamp_seconds", where=f"listener {LOCAL}:0")
        (certificates,) = proxy.server.certificates
        reload, applied = certificates.reload, trio.Event()
        certificates.reload = lambda why: (reload(why), applied.set())
        authority.issue("proxy")
        with trio.fail_after(10):
            await applied.wait()
        after = await connect_tls(proxy.port(1), authority.client_context())
        assert serial(after) != serial(before)
        assert expires
        assert proxy.count("tls_reloads_total", where=f"listener {LOCAL}:0", result="applied") == 1
        for client in (before, after):
            assert await ask(client, messages.plain(1)) is not None
            await client.aclose()
        nursery.cancel_scope.cancel()


async def test_bad_files_are_refused_and_those_before_stay(authority: Authority) -> None:
    tls = authority.listener_tls("proxy")
    where = f"listener {LOCAL}:0"
    async with a_cluster(1) as brokers, serving(with_tls(config_for(brokers), tls)) as proxy:
        (certificates,) = proxy.server.certificates
        good = Path(tls.key).read_bytes()
        Path(tls.key).write_bytes(Path(authority.issue("another")[1]).read_bytes())
        with structlog.testing.capture_logs() as logs:
            certificates.reload("a test")
        (line,) = [entry for entry in logs if entry["log_level"] == "error"]
        assert line["reason"] == f"{tls.key}: is not the key of the certificate in {tls.certificate}"
        assert proxy.count("tls_reloads_total", where=where, result="refused") == 1
        assert proxy.count("tls_is_current", where=where) == 0
        client = await connect_tls(proxy.port(1), authority.client_context())
        assert await ask(client, messages.plain(1)) is not None
        await client.aclose()
        Path(tls.key).write_bytes(good)
        certificates.reload("a test")
        assert proxy.count("tls_is_current", where=where) == 1


async def test_a_changed_authority_holds_for_new_connections_to_brokers(
    authority: Authority, tmp_path: Path
) -> None:
    async with a_cluster(1, tls=authority.server_context()) as brokers:
        config = with_tls(config_for(brokers), upstream=authority.upstream_tls())
        async with serving(config) as proxy, await connect(proxy.port(1)) as before:
            assert await ask(before, messages.plain(1)) is not None
            authority.file.write_bytes(Authority(tmp_path / "theirs").file.read_bytes())
            proxy.server.certificates[0].reload("a test")
            async with await connect(proxy.port(1)) as client:
                assert await ask(client, messages.plain(2)) is None
            assert await ask(before, messages.plain(3)) is not None


# -- what files hold -----------------------------------------------------------------------------------------


def test_files_that_can_not_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    certificate, key = (str(file) for file in authority.issue("a"))
    no_pem = tmp_path / "no.pem"
    no_pem.write_text("hello")
    old, old_key = (
        str(file) for file in authority.issue("old", not_after=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    )
    nowhere = str(tmp_path / "nowhere")
    for made, said in (
        (ListenerTls(certificate=nowhere, key=key), f"{nowhere}: can't be read: No such file"),
        (ListenerTls(certificate=str(no_pem), key=key), f"{no_pem}: has no certificate in PEM form"),
        (ListenerTls(certificate=certificate, key=str(no_pem)), f"{no_pem}: not the private key"),
        (ListenerTls(certificate=old, key=old_key), f"{old}: the certificate ended at 2020-01-01"),
    ):
        with pytest.raises(TlsFilesError, match=said):
            listener_material(made)
    with pytest.raises(TlsFilesError, match=f"{no_pem}: has no certificate of an authority"):
        upstream_material(UpstreamTls(ca=str(no_pem)))
    assert file_problems(ListenerTls(certificate=certificate, key=key)) == []
    assert file_problems(UpstreamTls(ca=str(authority.file))) == []
    assert file_problems(UpstreamTls()) == []
    both = file_problems(ListenerTls(certificate=nowhere, key=f"{nowhere}.key"))
    assert [key for key, _ in both] == ["certificate", "key"]
    ((key_of_old, said),) = file_problems(ListenerTls(certificate=old, key=old_key))
    assert (key_of_old, said) == ("certificate", f"{old}: the certificate ended at 2020-01-01 00:00 UTC")


def test_files_that_go_away_while_they_are_read_are_refused(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = authority.listener_tls(client_ca=str(authority.file), client_auth=ClientAuth.REQUIRED)
    for loading in ("load_cert_chain", "load_verify_locations"):
        with monkeypatch.context() as patched:
            gone = FileNotFoundError(errno.ENOENT, "No such file or directory")
            patched.setattr(ssl.SSLContext, loading, Mock(side_effect=gone))
            with pytest.raises(TlsFilesError, match="No such file"):
                listener_material(tls)


def test_an_encrypted_key_and_its_password(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("a")
    private = to.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        private.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, to.BestAvailableEncryption(b"secret"))
    )
    password = tmp_path / "password"
    password.write_text("secret\n")
    names = {"certificate": str(certificate), "key": str(key)}
    listener_material(ListenerTls(**names, key_password_file=str(password)))
    with pytest.raises(TlsFilesError, match="is it encrypted"):
        listener_material(ListenerTls(**names))
    password.write_text("wrong")
    with pytest.raises(TlsFilesError, match=r"is the password in .* right"):
        listener_material(ListenerTls(**names, key_password_file=str(password)))
    password.write_text("longer than OpenSSL takes " * 100)
    with pytest.raises(TlsFilesError, match="password cannot be longer than"):
        listener_material(ListenerTls(**names, key_password_file=str(password)))


def test_an_upstream_of_plain_configuration_has_no_tls() -> None:
    assert Upstream(bootstrap=("a:1",)).tls is None
