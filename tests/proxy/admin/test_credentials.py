"""Our own clients of the admin port: what they show to it, and which certificate they accept."""

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
from typer.testing import CliRunner

from proxy.admin.admin_client import Credentials, NoAnswerError, credentials_for, fetch_groups
from proxy.cli import command_line
from proxy.config.document import ConfigError
from proxy.config.tls import ClientAuth
from proxy.groups.snapshot import Snapshot
from proxy.preflight.ask_proxies import ask_proxies
from tests.proxy.admin.door import OTHER, TOKEN, Door, opened, token_file
from tests.proxy.fakes.certificates import Authority
from tests.proxy.preflight.facts import snapshot

TIMEOUT_S = 30.0


async def fetched(door: Door, credentials: Credentials) -> Snapshot:
    fetch: Callable[[], Snapshot] = partial(
        fetch_groups, door.url, Snapshot, timeout_s=TIMEOUT_S, credentials=credentials
    )
    return await trio.to_thread.run_sync(fetch)


@pytest.mark.parametrize("client_auth", ClientAuth)
async def test_who_can_read_the_proxys_files_can_read_its_port(tmp_path: Path, client_auth: ClientAuth):
    """As its own preflight, and `epochgate status --config` beside it."""
    async with opened(tmp_path, [TOKEN], tls=True, client_auth=client_auth) as door:
        assert (await fetched(door, Credentials.of(door.admin))).ready
        with pytest.raises(NoAnswerError, match="--token-file"):
            await fetched(
                door, msgspec.structs.replace(Credentials.of(door.admin), token_file=None, certificate=None)
            )


async def test_a_certificate_that_is_not_the_ports_is_refused(tmp_path: Path):
    async with opened(tmp_path, [TOKEN], tls=True) as door:
        other, _ = door.authority.issue("other")
        strange = Authority(tmp_path / "strangers").file
        for wrong in (
            {"pinned": str(other)},
            {"ca": str(strange)},
            {},
            {"ca": str(door.authority.file), "server_name": "x"},
        ):
            with pytest.raises(NoAnswerError, match="certificate verify failed"):
                await fetched(door, Credentials(token_file=door.admin.token_file, **wrong))
        known = Credentials(token_file=door.admin.token_file, ca=str(door.authority.file))
        assert (await fetched(door, known)).ready


async def test_replicas_are_asked_by_their_addresses_under_the_name_of_their_service(tmp_path: Path):
    async with opened(tmp_path, [TOKEN], tls=True) as door:
        Authority.issue(door.authority, "proxy", "localhost")
        for one in door.proxy.server.reloadables:
            one.reload("SIGHUP")
        service = door.url.replace("127.0.0.1", "localhost")
        for known in ({"ca": str(door.authority.file)}, {"pinned": str(door.authority.folder / "proxy.pem")}):
            credentials = Credentials(token_file=door.admin.token_file, **known)
            seen = await trio.to_thread.run_sync(ask_proxies, (), service, TIMEOUT_S, credentials)
            assert isinstance(seen.snapshot, Snapshot)
        seen = await trio.to_thread.run_sync(ask_proxies, (), service, TIMEOUT_S)
        assert not isinstance(seen.snapshot, Snapshot)


async def test_a_file_that_is_gone_is_what_a_preflight_says(tmp_path: Path):
    async with opened(tmp_path, [TOKEN]) as door:
        gone = Credentials(token_file=str(tmp_path / "gone"))
        seen = await trio.to_thread.run_sync(ask_proxies, (door.url,), None, TIMEOUT_S, gone)
        assert "gone: can't be read" in str(seen.snapshot)


@contextmanager
def a_server(status: int, location: str, authorizations: list[str | None]) -> Iterator[str]:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            authorizations.append(self.headers["Authorization"])
            body = msgspec.json.encode(snapshot())
            self.send_response(status)
            self.send_header("Location", location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_token_does_not_go_where_a_redirect_leads(tmp_path: Path):
    theirs: list[str | None] = []
    ours: list[str | None] = []
    credentials = Credentials(token_file=str(token_file(tmp_path, TOKEN)))
    with a_server(200, "", theirs) as stranger, a_server(302, f"{stranger}/api/groups", ours) as url:
        fetch_groups(url, Snapshot, timeout_s=TIMEOUT_S, credentials=credentials)
    assert ours == [f"Bearer {TOKEN}"]
    assert theirs == [None]


def test_a_token_does_not_go_to_a_proxy_of_the_environment(tmp_path: Path, monkeypatch):
    theirs: list[str | None] = []
    ours: list[str | None] = []
    credentials = Credentials(token_file=str(token_file(tmp_path, TOKEN)))
    with a_server(200, "", theirs) as stranger, a_server(200, "", ours) as url:
        monkeypatch.setenv("http_proxy", stranger)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        fetch_groups(url, Snapshot, timeout_s=TIMEOUT_S, credentials=credentials)
    assert ours == [f"Bearer {TOKEN}"]
    assert theirs == []


async def test_the_commands_have_options_for_it(tmp_path: Path):
    async with opened(tmp_path, [TOKEN], tls=True, client_auth=ClientAuth.REQUIRED) as door:
        certificate, key = door.authority.issue("client", "client.example")
        policy = tmp_path / "policy.yaml"
        policy.write_text("default: observe\n")
        options = [
            *("--token-file", door.admin.token_file, "--ca", door.authority.file),
            *("--cert", certificate, "--key", key),
        ]
        for command in (["status"], ["policy", "plan", policy]):
            run = partial(
                CliRunner().invoke,
                command_line(),
                [*map(str, command), "--admin", door.url, *map(str, options)],
            )
            assert (await trio.to_thread.run_sync(run)).exit_code == 0
            run = partial(
                CliRunner().invoke,
                command_line(),
                [*map(str, command), "--admin", door.url, *map(str, options[2:])],
            )
            said = await trio.to_thread.run_sync(run)
            assert said.exit_code == 1
            assert "401" in said.output
            assert "--token-file" in said.output


def test_options_go_before_the_configuration(tmp_path: Path):
    config = tmp_path / "epochgate.yaml"
    token_file(tmp_path, TOKEN)
    certificate, key = Authority(tmp_path).issue("proxy")
    config.write_text(
        'upstream: {bootstrap: ["127.0.0.1:9"]}\n'
        'listeners: [{advertised_host: proxy.example, nodes: {"0-9": 9100}}]\n'
        "admin: {token_file: token, tls: {certificate: proxy.pem, key: proxy.key}}\n"
    )
    assert credentials_for(config) == Credentials(token_file=str(tmp_path / "token"), pinned=str(certificate))
    other = tmp_path / "mine"
    other.write_text(f"{OTHER}\n{TOKEN}\n")
    found = credentials_for(config, other, certificate=certificate, key=key)
    assert found.token() == OTHER
    assert (found.pinned, found.certificate, found.key) == (None, str(certificate), str(key))
    other.write_text("\n")
    with pytest.raises(ConfigError, match="mine: has no token"):
        credentials_for(config, other)
    with pytest.raises(ConfigError, match="can't be used"):
        credentials_for(config, ca=other)
