"""An admin port with TLS and credentials, and a client that knows HTTP and no more."""

import base64
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from starlette.applications import Starlette
from starlette.routing import Route

from proxy.admin.admin_http import Groups
from proxy.config.schema import Admin
from proxy.config.tls import ClientAuth
from tests.proxy.fakes.broker import a_cluster
from tests.proxy.fakes.certificates import Authority, connect_tls
from tests.proxy.fakes.serving import Running, config_for, serving

TOKEN = "first-token-0123456789abcdef"  # noqa: S105  a test's own
OTHER = "other-token-0123456789abcdef"
Header = tuple[str, str]


def token_file(folder: Path, *tokens: str) -> Path:
    file = folder / "token"
    file.write_text("\n".join((*tokens, "")))
    file.chmod(0o640)
    return file


def bearer(token: str = TOKEN) -> Header:
    return "Authorization", f"Bearer {token}"


def basic(token: str = TOKEN, user: str = "anybody") -> Header:
    return "Authorization", f"Basic {base64.b64encode(f'{user}:{token}'.encode()).decode()}"


def every_route(app: Starlette) -> list[Route]:
    """The routes of the admin port, with those that are loaded at the first request."""
    later = app.router.default
    assert isinstance(later, Groups)
    loaded = (route for as_json in (True, False) for route in later.load(as_json=as_json).routes)
    return [route for route in (*app.routes, *loaded) if isinstance(route, Route)]


class Door:
    """The port of a proxy that serves, and whom its certificates come from."""

    def __init__(self, proxy: Running, authority: Authority, admin: Admin) -> None:
        self.proxy, self.authority, self.admin = proxy, authority, admin
        self.port: int = proxy.server.ports.admin

    @property
    def url(self) -> str:
        return self.admin.url(self.port)

    def context(self, *, with_certificate: bool = False) -> ssl.SSLContext:
        context = self.authority.client_context()
        if with_certificate:
            context.load_cert_chain(*self.authority.issue("client", "client.example"))
        return context

    async def ask(self, path: str, *headers: Header, with_certificate: bool = False) -> tuple[int, str]:
        """The status, and the whole answer."""
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", *map(": ".join, headers), "Connection: close"]
        return await self.send("\r\n".join((*lines, "", "")), with_certificate=with_certificate)

    async def send(self, request: str, *, with_certificate: bool = False) -> tuple[int, str]:
        if self.admin.tls is None:
            stream: trio.abc.Stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        else:
            stream = await connect_tls(self.port, self.context(with_certificate=with_certificate))
        try:
            await stream.send_all(request.encode("latin-1"))
            answer = b""
            while more := await stream.receive_some():
                answer += more
                head, end, body = answer.partition(b"\r\n\r\n")
                if end and f"content-length: {len(body)}\r\n".encode() in head + b"\r\n":
                    break
        finally:
            await trio.aclose_forcefully(stream)
        return int(answer.split()[1]), answer.decode()

    def refused(self, reason: str) -> float:
        return self.proxy.count("admin_refusals_total", reason=reason)


@asynccontextmanager
async def opened(
    folder: Path,
    tokens: Iterable[str] = (),
    *,
    tls: bool = False,
    client_auth: ClientAuth = ClientAuth.NONE,
    crl: Path | None = None,
    **keys,
) -> AsyncIterator[Door]:
    authority = Authority(folder / "certificates")
    if tls:
        more = {} if client_auth is ClientAuth.NONE else {"client_ca": str(authority.file)}
        if crl is not None:
            more["client_crl"] = str(crl)
        keys["tls"] = authority.listener_tls(client_auth=client_auth, **more)
    if tokens:
        keys["token_file"] = str(token_file(folder, *tokens))
    admin = Admin(port=0, **keys)
    async with a_cluster(1) as brokers, serving(config_for(brokers, admin=admin)) as proxy:
        yield Door(proxy, authority, admin)
