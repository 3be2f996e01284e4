"""Which names an admin port answers to: a page of a stranger's can give its own name only."""

import socket
from pathlib import Path

import pytest

from proxy.admin.allowed_hosts import AllowedHosts
from proxy.config.loader import ConfigError, load_config
from proxy.config.network import Admin
from tests.proxy.fakes.broker import a_cluster, connect
from tests.proxy.fakes.serving import config_for, serving

ADMIN = Admin(port=0, hosts=("gate.example",))


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("127.0.0.1:9080", True),
        ("10.1.2.3", True),
        ("[::1]:9080", True),
        ("localhost:9080", True),
        ("LOCALHOST", True),
        ("epochgate-admin:9080", True),
        (socket.gethostname(), True),
        ("gate.corp.example:443", True),
        ("Gate.Corp.Example.", True),
        ("a.b.pods.example", True),
        ("", True),
        ("evil.example", False),
        ("evil.example:9080", False),
        ("127.0.0.1.evil.example", False),
        ("gate.corp.example.evil.example", False),
        ("evilpods.example", False),
        ("pods.example", False),
        ("evil.example:127.0.0.1", False),
        ("[evil.example]", False),
        ("[::1]evil.example", False),
        ("user@127.0.0.1.evil.example:1", False),
        ("127.1", False),
    ],
)
def test_a_name_that_a_stranger_can_own_is_not_allowed(host: str, is_allowed: bool) -> None:
    async def nothing(*_: object) -> None: ...

    assert AllowedHosts(nothing, ("gate.corp.example", "*.pods.example")).allow(host) is is_allowed


async def status_of(port: int, path: str, host: str) -> int:
    async with await connect(port) as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while more := await stream.receive_some():
            data += more
    return int(data.split()[1])


async def test_the_admin_port_answers_no_other_name_but_says_whether_it_is_healthy() -> None:
    async with a_cluster(1) as brokers, serving(config_for(brokers, admin=ADMIN)) as proxy:
        port = proxy.server.ports.admin
        for path in ("/api/groups", "/metrics", "/", "/groups/x"):
            assert await status_of(port, path, "evil.example") == 421
        for path in ("/healthz", "/readyz"):
            assert await status_of(port, path, "evil.example") == 200
        for host in (f"127.0.0.1:{port}", "gate.example"):
            assert await status_of(port, "/api/groups", host) == 200


@pytest.mark.parametrize("name", ["https://gate.example", "gate.example:9080", "*", ""])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "epochgate.yaml"
    file.write_text(f"admin: {{hosts: ['{name}']}}\n")
    with pytest.raises(ConfigError, match=r"admin\.hosts: expected a host name"):
        load_config(file)
