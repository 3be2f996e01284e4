"""Revoked client certificates, and TLS sessions that are resumed: whose they are, and where they count."""

import datetime as dt
import socket
import ssl
from pathlib import Path

import pytest
import trio

from proxy.config.identity import IdentityMode
from proxy.config.schema import Listener
from proxy.config.tls import ClientAuth, ListenerTls
from proxy.identity.client_certificate import CertificatePrincipals
from proxy.identity.principal_rules import PrincipalRules
from proxy.server.server import Server
from proxy.transport.tls_context import file_problems, listener_material
from proxy.transport.tls_errors import TlsFilesError
from tests.proxy.fakes import messages
from tests.proxy.fakes.broker import a_cluster
from tests.proxy.fakes.certificates import LOCAL, Authority, connect_tls
from tests.proxy.fakes.serving import Running, config_for, serving
from tests.proxy.transport.test_tls import ask, turned_away, with_tls


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


def demanding(authority: Authority, crl: Path | None, **keys) -> ListenerTls:
    return authority.listener_tls(
        client_ca=str(authority.file),
        client_auth=ClientAuth.REQUIRED,
        client_crl=None if crl is None else str(crl),
        **keys,
    )


def a_client(
    authority: Authority, name: str, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLContext:
    context = authority.client_context()
    context.maximum_version = version
    context.load_cert_chain(*authority.issue(name, common_name=name))
    return context


async def served(proxy: Running, context: ssl.SSLContext) -> None:
    client = await connect_tls(proxy.port(1), context)
    assert await ask(client, messages.plain(1)) is not None
    await client.aclose()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_revoked_certificate_is_refused_from_the_reload_on(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    alice, bob = a_client(authority, "alice", version), a_client(authority, "bob", version)
    async with a_cluster(1) as brokers:
        tls = demanding(authority, authority.revoke())
        async with serving(with_tls(config_for(brokers), tls)) as proxy:
            await served(proxy, alice)
            authority.revoke(authority.folder / "alice.pem")
            proxy.server.certificates[0].reload("a test")
            assert "revoked" in (await turned_away(proxy, proxy.port(1), alice)).lower()
            await served(proxy, bob)
            where = f"listener {LOCAL}:0"
            assert proxy.count("tls_crl_expiry_timestamp_seconds", where=where) > 0


async def test_a_list_that_can_not_be_used_is_refused_and_the_one_before_stays(authority: Authority) -> None:
    alice = a_client(authority, "alice")
    crl = authority.revoke(authority.folder / "alice.pem")
    async with (
        a_cluster(1) as brokers,
        serving(with_tls(config_for(brokers), demanding(authority, crl))) as proxy,
    ):
        crl.write_text("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n")
        proxy.server.certificates[0].reload("a test")
        assert proxy.count("tls_is_current", where=f"listener {LOCAL}:0") == 0
        await turned_away(proxy, proxy.port(1), alice)


def test_a_list_that_would_refuse_everybody_is_refused_itself(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "theirs")
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    both = tmp_path / "both.pem"
    both.write_bytes(authority.file.read_bytes() + other.file.read_bytes())
    text = tmp_path / "text.pem"
    text.write_text("hello")
    for crl, ca, said in (
        (text, authority.file, "has no revocation list"),
        (other.revoke(), authority.file, "signed by no authority"),
        (authority.revoke(ends=yesterday, name="old"), authority.file, "out of date since"),
        (authority.revoke(), both, "has no list of the authority"),
    ):
        tls = authority.listener_tls(client_ca=str(ca), client_crl=str(crl), client_auth=ClientAuth.REQUIRED)
        with pytest.raises(TlsFilesError, match=said):
            listener_material(tls)
        ((key, text_of_it),) = file_problems(tls)
        assert key == "client_crl"
        assert text_of_it.startswith(f"{crl}: ")
    listener_material(demanding(authority, authority.folder / "old.pem"), must_be_valid_now=False)
    with pytest.raises(ValueError, match="`client_crl` needs `client_ca`"):
        authority.listener_tls(client_crl="x")


# -- resumed sessions ----------------------------------------------------------------------------------------


class Resuming:
    """A client that keeps its session. OpenSSL gives it one after the handshake, with what it reads (TLS 1.3)."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self.session: ssl.SSLSession | None = None

    def connect(self, port: int) -> tuple[bool, bytes]:
        """Whether the session was resumed, and the answer to a request. Blocks."""
        with (
            socket.create_connection((LOCAL, port)) as plain,
            self._context.wrap_socket(plain, server_hostname=LOCAL, session=self.session) as stream,
        ):
            stream.sendall(messages.plain(1))
            answer = stream.recv(1024)
            self.session = stream.session
            return bool(stream.session_reused), answer


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_resumed_session_has_its_certificates_principal_and_counts_at_its_listener_alone(
    authority: Authority, version: ssl.TLSVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = Resuming(a_client(authority, "alice", version))
    principals = CertificatePrincipals(PrincipalRules("RULE:^.*CN=([^,]+).*$/$1/"))
    seen: list[str] = []
    guard_of = {}
    crl = authority.revoke()
    listeners = tuple(
        Listener(
            bind=LOCAL,
            port=0,
            advertised_host=LOCAL,
            nodes={"1": 0},
            tls=demanding(authority, crl),
            identity=IdentityMode.NONE,
        )
        for _ in range(2)
    )
    async with a_cluster(1) as brokers, serving(config_for(brokers, listeners=listeners)) as proxy:
        server: Server = proxy.server
        for certificates in server.certificates:
            guard_of[certificates] = guard = certificates.guard

            def spying(client, guard=guard):
                stream = guard(client)
                handshake = stream.handshake

                async def seeing() -> None:
                    await handshake()
                    seen.append(principals.principal_of(stream.peer_certificate, 0))

                stream.handshake = seeing
                return stream

            certificates.guard = spying

        async def connect(listener: int = 0) -> bool:
            reused, answer = await trio.to_thread.run_sync(alice.connect, proxy.port(1, listener=listener))
            assert answer
            return reused

        assert [await connect(), await connect()] == [False, True]
        assert seen == ["alice", "alice"]
        assert not await connect(listener=1), "the session of another listener"
        assert not await connect(), "whose session it was offered next"
        assert await connect()
        authority.revoke(authority.folder / "alice.pem")
        server.certificates[0].reload("a test")
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            await connect()
        assert seen == ["alice"] * 5
