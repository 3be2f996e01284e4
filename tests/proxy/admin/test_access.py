"""What a request to the admin port has to show, on every path that there is."""

import socket
import ssl
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from structlog.testing import capture_logs

from proxy.admin import access
from proxy.admin.access import LEAST_CHARACTERS, MOST_TOKENS, Access, read_tokens
from proxy.admin.admin_http import SingleProcessBackend, admin_app
from proxy.cli.configuration import checked
from proxy.config.document import ConfigError
from proxy.config.fleet import UnreadableSecret
from proxy.config.schema import Admin
from proxy.config.tls import ClientAuth
from proxy.metrics.registry import Metrics
from proxy.transport.revocation import RevocationLists
from tests.proxy.admin.door import OTHER, TOKEN, Door, basic, bearer, every_route, opened, token_file
from tests.proxy.fakes.certificates import LOCAL, Authority, connect_tls

HEALTH = {"/healthz", "/readyz"}
WRONG = "wrong-token-0123456789abcdef"
CROSS_SITE = ("Sec-Fetch-Site", "cross-site")
CONFIGURATION = """
upstream: {bootstrap: ["127.0.0.1:9"]}
listeners: [{advertised_host: proxy.example, nodes: {"0-9": 9100}}]
admin: {token_file: token}
"""


def paths(door: Door) -> list[str]:
    """One of every route: a path that somebody adds is here too."""
    server = door.proxy.server
    backend = SingleProcessBackend(server.metrics, server.health, server.query_handlers)
    routes = every_route(admin_app(backend, in_force=server.in_force))
    values = {"{group_id:group}": "payments", "{name}": "style.css"}
    found = []
    for route in routes:
        path = route.path
        for name, value in values.items():
            path = path.replace(name, value)
        assert "{" not in path
        found.append(path)
    assert set(found) >= HEALTH | {"/metrics", "/", "/api/groups", "/api/config", "/assets/style.css"}
    return found


async def refused(door: Door, *headers, with_certificate: bool = False) -> set[str]:
    """The paths that are not served to who shows this."""
    found = set()
    for path in paths(door):
        status, _ = await door.ask(path, *headers, with_certificate=with_certificate)
        assert status in (200, 401, 403, 404)
        if status in (401, 403):
            found.add(path)
    return found


@pytest.mark.parametrize("tls", [False, True])
async def test_every_path_but_health_needs_a_token(tmp_path: Path, tls: bool):
    async with opened(tmp_path, [TOKEN, OTHER], tls=tls) as door:
        guarded = set(paths(door)) - HEALTH
        for wrong in ((), (bearer(WRONG),), (basic(WRONG),), (("Authorization", TOKEN),)):
            assert await refused(door, *wrong) == guarded
        for right in (bearer(), bearer(OTHER), basic(), basic(OTHER, user="")):
            assert await refused(door, right) == set()
        assert door.refused("missing") == len(guarded)
        assert door.refused("wrong") == 3 * len(guarded)


async def test_every_path_but_health_needs_a_certificate(tmp_path: Path):
    async with opened(tmp_path, tls=True, client_auth=ClientAuth.REQUIRED) as door:
        assert await refused(door) == set(paths(door)) - HEALTH
        assert await refused(door, bearer()) == set(paths(door)) - HEALTH
        assert await refused(door, with_certificate=True) == set()


async def test_a_certificate_or_a_token_is_enough_if_certificates_are_optional(tmp_path: Path):
    async with opened(tmp_path, [TOKEN], tls=True, client_auth=ClientAuth.OPTIONAL) as door:
        assert await refused(door) == set(paths(door)) - HEALTH
        assert await refused(door, bearer()) == set()
        assert await refused(door, with_certificate=True) == set()


async def test_a_certificate_and_a_token_are_both_needed_if_both_are_configured(tmp_path: Path):
    async with opened(tmp_path, [TOKEN], tls=True, client_auth=ClientAuth.REQUIRED) as door:
        guarded = set(paths(door)) - HEALTH
        assert await refused(door, bearer()) == guarded
        assert await refused(door, with_certificate=True) == guarded
        assert await refused(door, bearer(), with_certificate=True) == set()


async def test_metrics_may_be_open(tmp_path: Path):
    async with opened(tmp_path, [TOKEN], metrics_need_credentials=False) as door:
        assert await refused(door) == set(paths(door)) - HEALTH - {"/metrics"}


async def test_a_refusal_says_how_to_ask_and_does_not_redirect(tmp_path: Path):
    async with opened(tmp_path, [TOKEN]) as door:
        for path in ("/", "/api/groups", "/nowhere"):
            status, answer = await door.ask(path)
            assert status == 401
            assert 'www-authenticate: Bearer realm="epochgate"' in answer
            assert 'www-authenticate: Basic realm="epochgate"' in answer
            assert "location:" not in answer.lower()
            assert "a token is needed" in answer
        for path in ("//healthz", "/healthz/", "/%2568ealthz", "/readyz;", "/healthz%00", "/./healthz"):
            assert (await door.ask(path))[0] == 401
        assert (await door.ask("/healthz?x=/api/groups"))[0] == 200


async def test_two_headers_of_which_one_is_right_are_refused(tmp_path: Path):
    async with opened(tmp_path, [TOKEN]) as door:
        assert (await door.ask("/api/groups", bearer(), bearer()))[0] == 401
        assert (await door.ask("/api/groups", bearer(WRONG), bearer()))[0] == 401
        assert (await door.ask("/api/groups", ("Authorization", f"bEaReR  {TOKEN} ")))[0] == 200


async def test_what_is_no_request_over_http_gets_nothing(tmp_path: Path):
    async with opened(tmp_path, [TOKEN]) as door:
        upgrade = [("Upgrade", "websocket"), ("Sec-WebSocket-Key", "x" * 24), ("Sec-WebSocket-Version", "13")]
        request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        status, answer = await door.send(request + "".join(f"{a}: {b}\r\n" for a, b in upgrade) + "\r\n")
        assert status == 401
        assert "Epochgate" not in answer


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        ("GET /api/groups HTTP/1.1\r\n", 400),
        ("GET /api/groups HTTP/1.0\r\n", 400),
        ("GET /api/groups HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", 400),
        ("GET /api/groups HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", 400),
        ("GET /api/groups HTTP/1.1\r\nHost: evil.example\r\n", 421),
        ("GET http://localhost/api/groups HTTP/1.1\r\nHost: evil.example\r\n", 421),
        ("GET /api/groups HTTP/1.1\r\nHost: 10.1.2.3:9080\r\n", 200),
        ("GET /healthz HTTP/1.0\r\n", 200),
        ("GET /healthz HTTP/1.1\r\nHost: evil.example\r\n", 200),
    ],
)
async def test_the_host_is_checked_whatever_is_shown(tmp_path: Path, request_head: str, status: int):
    async with opened(tmp_path, [TOKEN]) as door:
        request = f"{request_head}Authorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        assert (await door.send(request))[0] == status


@pytest.mark.parametrize(
    ("fetch", "status"),
    [
        ({"site": "cross-site", "mode": "no-cors", "dest": "image"}, 403),
        ({"site": "same-site", "mode": "cors", "dest": "empty"}, 403),
        ({"site": "cross-site", "mode": "navigate", "dest": "iframe"}, 403),
        ({"site": "cross-site"}, 403),
        ({"site": "cross-site", "mode": "navigate", "dest": "document"}, 200),
        ({"site": "same-origin", "mode": "cors", "dest": "empty"}, 200),
        ({"site": "none", "mode": "navigate", "dest": "document"}, 200),
    ],
)
async def test_a_page_of_another_site_gets_nothing_with_a_browsers_credentials(
    tmp_path: Path, fetch: dict[str, str], status: int
):
    async with opened(tmp_path, [TOKEN]) as door:
        headers = [(f"Sec-Fetch-{name}", value) for name, value in fetch.items()]
        assert (await door.ask("/", basic(), *headers))[0] == status
        assert door.refused("cross_site") == (status == 403)
        assert (await door.ask("/healthz", CROSS_SITE))[0] == 200


def test_no_header_gets_past_the_guard(tmp_path: Path):
    """Whatever a client sends: only a token does."""
    served: list[object] = []
    sent: list[dict[str, object]] = []

    async def app(*_: object) -> None:
        served.append(None)

    async def receive() -> dict[str, object]:
        return {"type": "http.request"}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    names = st.sampled_from(
        [b"authorization", b"sec-fetch-site", b"sec-fetch-mode", b"cookie", b"x-forwarded-for"]
    )
    values = st.one_of(
        st.binary(max_size=200),
        st.sampled_from(
            [b"Bearer", b"Basic ", b"Basic Og==", b"Bearer \xff", b"Basic =", b"navigate", b"none"]
        ),
        st.binary(max_size=60).map(lambda value: b"Basic " + value),
    )

    @given(st.lists(st.tuples(names, values), max_size=6))
    def each(headers: list[tuple[bytes, bytes]]) -> None:
        sent.clear()
        scope = {"type": "http", "path": "/api/groups", "headers": headers, "client": None}
        trio.run(guarded, scope, receive, send)
        assert sent[0]["status"] in (401, 403)

    guarded = Access(Admin(token_file=str(token_file(tmp_path, TOKEN))), Metrics()).guard(app)
    each()
    assert served == []


async def test_refusals_fill_no_log(tmp_path: Path):
    guarded = Access(Admin(token_file=str(token_file(tmp_path, TOKEN))), Metrics()).guard(Starlette())

    async def nothing(*_: object) -> dict[str, object]:
        return {}

    with capture_logs() as lines:
        for _ in range(200):
            headers = [(b"authorization", b"Bearer " + WRONG.encode())]
            scope = {"type": "http", "path": "/\n" + WRONG, "headers": headers, "client": ("10.1.2.3", 1)}
            await guarded(scope, nothing, nothing)
    assert 1 <= len(lines) <= 6
    assert lines[0]["peer"] == "10.1.2.3"
    assert WRONG not in str(lines)


# -- the token ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no token"),
        (" \n\n", "has no token"),
        ("short", f"token 1 has 5 characters, fewer than {LEAST_CHARACTERS}"),
        (f"{TOKEN}\nshort", f"token 2 has 5 characters, fewer than {LEAST_CHARACTERS}"),
        ("ü" * 20, "token 1 has characters that are not printable ASCII"),
        ("\n".join(f"{TOKEN}{n}" for n in range(MOST_TOKENS + 1)), f"more than {MOST_TOKENS}"),
        ("x" * 100_000, "larger than"),
    ],
)
def test_a_file_without_good_tokens_is_refused_with_its_key_and_without_its_content(
    tmp_path: Path, content: str, said: str
):
    file = token_file(tmp_path, content)
    with pytest.raises(UnreadableSecret) as refusal:
        read_tokens(str(file))
    assert str(refusal.value).startswith(f"`admin.token_file`: {file}: ")
    assert said in str(refusal.value)
    assert TOKEN not in str(refusal.value)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602])
def test_a_token_that_everybody_may_read_is_refused(tmp_path: Path, mode: int):
    file = token_file(tmp_path, TOKEN)
    file.chmod(mode)
    with pytest.raises(
        UnreadableSecret, match=rf"everybody on this machine may use it \(mode 0{mode:o}\): chmod o="
    ):
        read_tokens(str(file))


def test_a_token_that_is_not_there_is_a_mistake_of_the_configuration(tmp_path: Path):
    file = tmp_path / "epochgate.yaml"
    file.write_text(CONFIGURATION)
    with pytest.raises(ConfigError, match=r":4:9: admin\.token_file: .*token: can't be read: No such file"):
        checked(file)
    token_file(tmp_path, TOKEN)
    assert checked(file).config.admin.token_file == str(tmp_path / "token")


@pytest.mark.parametrize(
    ("admin", "said"),
    [
        ("tls: {certificate: a, key: b, client_auth: optional, client_ca: c}", "needs `token_file`"),
        ("tls: {certificate: a, key: b, client_auth: required}", "needs `client_ca`"),
    ],
)
def test_certificates_that_nobody_has_to_show_are_refused(tmp_path: Path, admin: str, said: str):
    file = tmp_path / "epochgate.yaml"
    file.write_text(CONFIGURATION.replace("token_file: token", admin))
    with pytest.raises(ConfigError, match=said):
        checked(file)


async def test_a_token_is_replaced_without_a_restart(tmp_path: Path):
    async def served(token: str) -> bool:
        return (await door.ask("/api/groups", bearer(token)))[0] == 200

    def reload() -> None:
        for one in door.proxy.server.reloadables:
            one.reload("SIGHUP")

    async with opened(tmp_path, [TOKEN]) as door:
        assert [await served(TOKEN), await served(OTHER)] == [True, False]
        token_file(tmp_path, TOKEN, OTHER)
        reload()
        assert [await served(TOKEN), await served(OTHER)] == [True, True]
        token_file(tmp_path, OTHER)
        reload()
        assert [await served(TOKEN), await served(OTHER)] == [False, True]
        token_file(tmp_path, "short")
        reload()
        assert [await served(TOKEN), await served(OTHER)] == [False, True]
        assert door.proxy.count("tls_is_current", where="admin.token_file") == 0
        assert door.proxy.count("tls_reloads_total", where="admin.token_file", result="refused") == 1


# -- TLS ------------------------------------------------------------------------------------------------------


async def test_a_new_certificate_is_shown_to_new_connections(tmp_path: Path):
    async with opened(tmp_path, tls=True) as door:
        tls = door.admin.tls
        assert tls is not None
        before = await shown(door)
        door.authority.issue("proxy")
        for one in door.proxy.server.reloadables:
            one.reload("SIGHUP")
        assert await shown(door) != before
        Path(tls.certificate).write_text("no certificate")
        for one in door.proxy.server.reloadables:
            one.reload("SIGHUP")
        assert (await door.ask("/api/groups"))[0] == 200
        assert door.proxy.count("tls_is_current", where="admin") == 0


async def shown(door: Door) -> bytes:
    stream = await connect_tls(door.port, door.context())
    certificate = stream.getpeercert(binary_form=True)
    await trio.aclose_forcefully(stream)
    assert certificate
    return certificate


async def test_a_certificate_of_another_authority_or_a_revoked_one_is_refused(tmp_path: Path):
    authority = Authority(tmp_path / "certificates")
    revoked = authority.issue("revoked", "revoked.example")
    crl = authority.revoke(revoked[0])
    stranger = Authority(tmp_path / "strangers").issue("stranger", "stranger.example")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tests.proxy.admin.door.Authority", lambda _: authority)
        async with opened(tmp_path, tls=True, client_auth=ClientAuth.REQUIRED, crl=crl) as door:
            assert (await door.ask("/api/groups", with_certificate=True))[0] == 200
            for number, files in enumerate((revoked, stranger), 1):
                context = door.context()
                context.load_cert_chain(*files)
                with pytest.raises(trio.BrokenResourceError):
                    await greeted(door, context)
                assert door.refused("tls") == number


async def test_a_session_is_not_resumed_once_its_authoritys_list_is_out_of_date(tmp_path: Path, monkeypatch):
    authority = Authority(tmp_path / "certificates")
    monkeypatch.setattr("tests.proxy.admin.door.Authority", lambda _: authority)
    crl = authority.revoke()
    async with opened(tmp_path, tls=True, client_auth=ClientAuth.REQUIRED, crl=crl) as door:
        context = door.context(with_certificate=True)
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # its session is known once the handshake is over
        session, _ = await trio.to_thread.run_sync(answered, door.port, context, None)
        _, answer = await trio.to_thread.run_sync(answered, door.port, context, session)
        assert answer.startswith(b"HTTP/1.1 200 ")
        monkeypatch.setattr(RevocationLists, "are_current_for", lambda *_: False)
        with pytest.raises(OSError):  # noqa: PT011  closed or reset, as the kernel has it
            await trio.to_thread.run_sync(answered, door.port, context, session)
        assert door.refused("tls") == 1


def answered(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession, bytes]:
    """The session of a connection, which resumes another, and the answer; ConnectionError if there is none."""
    with (
        socket.create_connection((LOCAL, port)) as plain,
        context.wrap_socket(plain, server_hostname=LOCAL, session=session) as stream,
    ):
        assert stream.session_reused == (session is not None)
        stream.sendall(b"GET /api/groups HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = stream.recv(4096)
        if not answer:
            raise ConnectionError
        return stream.session, answer


async def greeted(door: Door, context: ssl.SSLContext) -> None:
    """With TLS 1.3 a client learns of a refusal when it reads."""
    stream = await connect_tls(door.port, context)
    try:
        await stream.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await stream.receive_some()
    finally:
        await trio.aclose_forcefully(stream)


async def test_what_speaks_no_tls_or_says_nothing_is_gone_in_time(tmp_path: Path, monkeypatch):
    async with opened(tmp_path, tls=True) as door:
        with socket.create_connection(("127.0.0.1", door.port)) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"HTTP" not in await trio.to_thread.run_sync(plain.recv, 4096)
        monkeypatch.setattr(access, "HANDSHAKE_S", 0.1)
        with socket.create_connection(("127.0.0.1", door.port)) as silent:
            assert await trio.to_thread.run_sync(silent.recv, 4096) == b""
        assert door.refused("tls") == 2


# -- the warning at the start ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, None),
        ({"bind": "localhost"}, None),
        ({"bind": "::1"}, None),
        ({"bind": "0.0.0.0"}, "can read it"),  # noqa: S104
        ({"bind": "10.0.0.1"}, "can read it"),
        ({"bind": "gate.example"}, "can read it"),
        ({"bind": "::", "token_file": "token"}, "without TLS"),
    ],
)
def test_a_port_that_others_can_read_is_known(keys: dict[str, str], said: str | None):
    exposure = Admin(**keys).exposure
    assert exposure is None if said is None else said in (exposure or "")


def test_a_port_with_tls_and_credentials_is_not_exposed(tmp_path: Path):
    tls = Authority(tmp_path).listener_tls()
    assert "can read it" in (Admin(bind="::", tls=tls).exposure or "")
    assert Admin(bind="::", tls=tls, token_file=str(tmp_path)).exposure is None
