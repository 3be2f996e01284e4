"""Revoked client certificates, and TLS sessions that are resumed: whose they are, and where they count."""

import datetime as dt
import socket
import ssl
from pathlib import Path

import pytest
import structlog
import trio

from proxy.config.identity import IdentityMode
from proxy.config.schema import Listener
from proxy.config.tls import ClientAuth, ListenerTls
from proxy.identity.client_certificate import CertificatePrincipals
from proxy.identity.principal_rules import PrincipalRules
from proxy.metrics.registry import Metrics
from proxy.server.server import Server
from proxy.transport.tls_context import Certificates, file_problems, listener_material, read_files
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


def lets_in(server: ssl.SSLContext, client: ssl.SSLContext) -> bool:
    """Whether the server accepts this client, by a handshake in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=LOCAL)
    waiting = [theirs, ours]
    while waiting:
        side = waiting.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(side)
        except ssl.SSLCertVerificationError:
            if side is theirs:
                raise
            return False
    return True


def clients_of(
    both: tuple[Authority, Authority], name: str, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A client of each authority, who both know the server's authority, which is the first one."""
    found = a_client(both[0], name, version), a_client(both[1], name, version)
    found[1].load_verify_locations(both[0].file)
    return found


class Reloaded:
    """A listener that accepts the clients of two authorities, and its files; ``lists`` are those of its CRL file."""

    def __init__(self, both: tuple[Authority, ...], *lists: Path) -> None:
        self.folder = both[0].folder
        self.tls = both[0].listener_tls(
            client_ca=str(self.write("ca", *(one.file for one in both))),
            client_crl=str(self.write("lists", *lists)),
            client_auth=ClientAuth.REQUIRED,
        )
        self.metrics = Metrics()
        self.certificates = Certificates("here", self.tls, self.metrics)

    def write(self, name: str, *parts: Path) -> Path:
        file = self.folder / f"all-{name}.pem"
        file.write_bytes(b"".join(part.read_bytes() for part in parts))
        return file

    def reload(self, *lists: Path) -> str:
        """What is refused, in words; empty if everything is applied."""
        self.write("lists", *lists)
        with structlog.testing.capture_logs() as logs:
            self.certificates.reload("a test")
        (line,) = logs
        return line.get("reason", "")

    def lets_in(self, client: ssl.SSLContext) -> bool:
        return lets_in(self.certificates.context, client)


@pytest.fixture
def both(tmp_path: Path) -> tuple[Authority, Authority]:
    return Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")


@pytest.fixture
def namesakes(tmp_path: Path) -> tuple[Authority, Authority]:
    """Two authorities with one name and a key each, as while a key is replaced."""
    return Authority(tmp_path / "old", subject="one"), Authority(tmp_path / "new", subject="one")


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
    tomorrow, later = yesterday + dt.timedelta(days=2), yesterday + dt.timedelta(days=3)
    both = tmp_path / "both.pem"
    both.write_bytes(authority.file.read_bytes() + other.file.read_bytes())
    text = tmp_path / "text.pem"
    text.write_text("hello")
    for crl, ca, said in (
        (text, authority.file, "has no revocation list"),
        (other.revoke(), authority.file, "signed by no authority"),
        (authority.revoke(ends=yesterday, name="old"), authority.file, "out of date since"),
        (authority.revoke(begins=tomorrow, ends=later, name="early"), authority.file, "counts only from"),
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


# -- several authorities -------------------------------------------------------------------------------------


def test_authorities_of_one_name_each_have_their_list(namesakes: tuple[Authority, Authority]) -> None:
    alices, bobs = clients_of(namesakes, "alice"), clients_of(namesakes, "bob")
    for order in ((0, 1), (1, 0)):
        lists = [namesakes[n].revoke(namesakes[n].folder / "alice.pem") for n in order]
        listener = Reloaded(namesakes, *lists)
        assert [listener.lets_in(one) for one in (*alices, *bobs)] == [False, False, True, True]


def test_a_list_that_does_not_tell_namesakes_apart_is_refused(namesakes: tuple[Authority, Authority]) -> None:
    lists = [namesakes[0].revoke(), namesakes[1].revoke(has_key_id=False)]
    with pytest.raises(TlsFilesError, match="has no authority key identifier"):
        Reloaded(namesakes, *lists)


@pytest.mark.parametrize("bad", ["old", "future", "unreadable", "foreign", "none"])
def test_a_list_is_applied_though_another_in_its_file_can_not_be_used(
    both: tuple[Authority, Authority], tmp_path: Path, bad: str
) -> None:
    ours, theirs = both
    alices, bobs = clients_of(both, "alice"), clients_of(both, "bob")
    listener = Reloaded(both, ours.revoke(), theirs.revoke(theirs.folder / "alice.pem"))
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    unreadable = tmp_path / "unreadable.pem"
    unreadable.write_text("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n")
    lists, said = {
        "old": ([theirs.revoke(ends=now - day, name="ended")], "out of date since"),
        "future": ([theirs.revoke(begins=now + day, ends=now + 2 * day, name="early")], "counts only from"),
        "unreadable": ([unreadable], "can't be read"),
        "foreign": ([Authority(tmp_path / "strange").revoke()], "signed by no authority"),
        "none": ([], "has no list of the authority"),
    }[bad]
    reason = listener.reload(*lists, ours.revoke(ours.folder / "alice.pem"))
    assert said in reason
    assert [listener.lets_in(one) for one in alices] == [False, False], (
        "by the new list, and by the one before"
    )
    assert [listener.lets_in(one) for one in bobs] == [True, True]
    assert listener.metrics.tls_is_current.labels("here")._value.get() == 0
    assert not listener.reload(theirs.revoke(), ours.revoke())
    assert [listener.lets_in(one) for one in alices] == [True, True]
    assert listener.metrics.tls_is_current.labels("here")._value.get() == 1


def test_a_new_authority_without_a_list_has_no_clients_and_keeps_no_revocation_back(
    both: tuple[Authority, Authority],
) -> None:
    ours, theirs = both
    alice, stranger = clients_of(both, "alice")
    listener = Reloaded((ours,), ours.revoke())
    listener.write("ca", ours.file, theirs.file)
    assert "has no list of the authority" in listener.reload(ours.revoke(ours.folder / "alice.pem"))
    assert not listener.lets_in(alice)
    assert not listener.lets_in(stranger)
    assert not listener.reload(ours.revoke(), theirs.revoke())
    assert listener.lets_in(stranger)


def test_a_worker_that_starts_while_a_list_is_out_of_date_applies_the_others(
    both: tuple[Authority, Authority],
) -> None:
    ours, theirs = both
    alice, other = clients_of(both, "alice")
    listener = Reloaded(both, ours.revoke(), theirs.revoke())
    tls = listener.tls
    last_good = read_files(tls)
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    listener.write("lists", ours.revoke(ours.folder / "alice.pem"), theirs.revoke(ends=yesterday))
    with pytest.raises(TlsFilesError, match="out of date since"):
        Certificates("here", tls, Metrics())
    worker = Certificates("here", tls, Metrics(), last_good)
    assert [lets_in(worker.context, one) for one in (alice, other)] == [False, True]


def test_certificates_in_the_file_of_the_lists_are_no_authorities(both: tuple[Authority, Authority]) -> None:
    ours, theirs = both
    alice, stranger = clients_of(both, "alice")
    listener = Reloaded((ours,), ours.revoke(), theirs.file)
    assert len(listener.certificates.context.get_ca_certs()) == 1
    assert [listener.lets_in(one) for one in (alice, stranger)] == [True, False]


def test_an_authority_in_openssls_own_form_of_trusted_certificates(
    authority: Authority, tmp_path: Path
) -> None:
    trusted = tmp_path / "trusted.pem"
    name = "TRUSTED CERTIFICATE"
    trusted.write_text(authority.file.read_text().replace("CERTIFICATE", name))
    alice = a_client(authority, "alice")
    for revoked in (False, True):
        crl = authority.revoke(*[authority.folder / "alice.pem"] * revoked)
        tls = authority.listener_tls(
            client_ca=str(trusted), client_crl=str(crl), client_auth=ClientAuth.REQUIRED
        )
        assert lets_in(listener_material(tls).context, alice) is not revoked


# -- resumed sessions ----------------------------------------------------------------------------------------


class Resuming:
    """A client that keeps its session. OpenSSL gives it one after the handshake, with what it reads (TLS 1.3)."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self.session: ssl.SSLSession | None = None

    def connect(self, port: int, name: str = LOCAL) -> tuple[bool, bytes]:
        """Whether the session was resumed, and the answer to a request. Blocks. A `name` is sent as SNI."""
        with (
            socket.create_connection((LOCAL, port)) as plain,
            self._context.wrap_socket(plain, server_hostname=name, session=self.session) as stream,
        ):
            stream.sendall(messages.plain(1))
            answer = stream.recv(1024)
            self.session = stream.session
            return bool(stream.session_reused), answer


def see_principals(server: Server, seen: list[str]) -> None:
    """Append the principal of each client that has shaken hands from now on."""
    principals = CertificatePrincipals(PrincipalRules("RULE:^.*CN=([^,]+).*$/$1/"))
    for certificates in server.certificates:

        def spying(client, route=None, guard=certificates.guard):
            stream = guard(client, route)
            handshake = stream.handshake

            async def seeing() -> None:
                await handshake()
                seen.append(principals.principal_of(stream.peer_certificate, 0))

            stream.handshake = seeing
            return stream

        certificates.guard = spying


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_resumed_session_has_its_certificates_principal_and_counts_at_its_listener_alone(
    authority: Authority, version: ssl.TLSVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = Resuming(a_client(authority, "alice", version))
    seen: list[str] = []
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
        see_principals(server, seen)

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


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_that_is_resumed_under_another_host_name_has_its_own_certificates_principal(
    authority: Authority, version: ssl.TLSVersion
) -> None:
    clients: list[Resuming] = []
    for name in ("alice", "bob"):
        context = a_client(authority, name, version)
        context.check_hostname = False
        clients.append(Resuming(context))
    seen: list[str] = []
    reused: list[bool] = []
    tls = demanding(authority, authority.revoke())
    async with a_cluster(1) as brokers, serving(with_tls(config_for(brokers), tls)) as proxy:
        see_principals(proxy.server, seen)
        for host in ("broker-0.example", "broker-0.example", "broker-1.example"):
            for client in clients:
                connected, answer = await trio.to_thread.run_sync(client.connect, proxy.port(1), host)
                assert answer
                reused.append(connected)
    assert seen == ["alice", "bob"] * 3
    assert reused[:4] == [False, False, True, True]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_is_not_resumed_once_its_authoritys_list_is_out_of_date(
    both: tuple[Authority, Authority], version: ssl.TLSVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = both
    alice, bob = (Resuming(context) for context in clients_of(both, "alice", version))
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    listener = Reloaded(both, ours.revoke(ends=now + day), theirs.revoke(ends=now + 3 * day))
    async with (
        a_cluster(1) as brokers,
        serving(with_tls(config_for(brokers), listener.tls)) as proxy,
    ):

        async def connect(client: Resuming) -> bool:
            reused, answer = await trio.to_thread.run_sync(client.connect, proxy.port(1))
            assert answer
            return reused

        for client in (alice, bob):
            assert [await connect(client), await connect(client)] == [False, True]
        monkeypatch.setattr("proxy.transport.revocation.time", (now + 2 * day).timestamp)
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            await connect(alice)
        assert proxy.count("client_to_proxy_errors_total", kind="tls_handshake") == 1
        assert await connect(bob), "the list of the other authority still counts"
