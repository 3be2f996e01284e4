"""Connections of the admin port leave nothing behind and end nothing else, whatever a stranger sends."""

import gc
import socket

import pytest
import trio
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h11 import H11Protocol
from starlette.applications import Starlette
from starlette.routing import Route
from structlog.testing import capture_logs

from proxy.admin import admin_http
from proxy.admin.access import Access
from proxy.admin.admin_http import serve_admin
from proxy.config.schema import Admin
from proxy.metrics.registry import Metrics
from tests.proxy.admin.door import TOKEN, opened
from tests.proxy.fakes.certificates import LOCAL, Authority

HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
PATH_OF_ONE_BYTE = b"\x82\x86\x04\x01\xff\x01\x01x"
"""Headers of HTTP/2: GET, http, the path, which is no ASCII, and the authority x."""


def upgrade(protocol: str, *headers: str) -> bytes:
    lines = ["GET /healthz HTTP/1.1", "Host: x", "Connection: Upgrade", f"Upgrade: {protocol}", *headers]
    return "\r\n".join((*lines, "", "")).encode("latin-1")


@pytest.fixture
def no_collection():
    """What is found then is kept by a reference, or by a cycle that only a full collection would find."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(
    "head", [b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"\x00\r\n\r\n"]
)
async def test_a_connection_that_is_closed_leaves_nothing_to_collect(no_collection, tmp_path, head, tls):
    authority = Authority(tmp_path)
    access = Access(Admin(tls=authority.listener_tls()), Metrics()) if tls else None
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        port = sock.getsockname()[1]
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_admin, sock, Starlette(), stop.wait, (), access)
            for _ in range(3):
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                if tls:
                    context = authority.client_context()
                    stream = trio.SSLStream(stream, context, server_hostname=LOCAL, https_compatible=True)
                await stream.send_all(head)
                async for _chunk in stream:
                    pass
                await stream.aclose()
            stop.set()
    assert [one for one in gc.get_objects() if isinstance(one, ProtocolWrapper)] == []
    tls_streams = [one for one in gc.get_objects() if isinstance(one, trio.SSLStream)]
    assert [
        one for one in tls_streams if one.server_side
    ] == []  # those of this test's client are trio's own cycles


@pytest.mark.parametrize(
    "sent",
    [
        HTTP2 + len(PATH_OF_ONE_BYTE).to_bytes(3) + b"\1\5\0\0\0\1" + PATH_OF_ONE_BYTE,
        HTTP2 + b"".join(b"\0\0\5\2\0" + (2 * n + 1).to_bytes(4) + b"\0\0\0\0\1" for n in range(1, 1200)),
        upgrade("h2c", "HTTP2-Settings: x"),
        upgrade("websocket", "Sec-WebSocket-Extensions: \xff"),
    ],
    ids=["path of HTTP/2", "priorities of HTTP/2", "settings of h2c", "extensions of a WebSocket"],
)
async def test_other_protocols_end_no_process(tmp_path, sent):
    async with opened(tmp_path, [TOKEN]) as door:
        stream = await trio.open_tcp_stream("127.0.0.1", door.port)
        await stream.send_all(sent)
        assert (await stream.receive_some()).startswith((b"HTTP/1.1 200", b"HTTP/1.1 400"))
        await trio.aclose_forcefully(stream)
        assert (await door.ask("/healthz"))[0] == 200


async def test_an_exception_ends_its_connection_only(tmp_path, monkeypatch):
    async def fail(*_):
        raise ValueError("a bug")

    async with opened(tmp_path, [TOKEN]) as door:
        with monkeypatch.context() as patch, capture_logs() as lines:
            patch.setattr(H11Protocol, "_create_stream", fail)
            stream = await trio.open_tcp_stream("127.0.0.1", door.port)
            await stream.send_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await stream.receive_some() == b""
            await stream.aclose()
        assert "a connection of the admin port failed" in [line["event"] for line in lines]
        assert (await door.ask("/healthz"))[0] == 200


class Large:
    """Gives an answer that no buffers between it and a client take."""

    def __init__(self) -> None:
        self.begins, self.is_over = trio.Event(), trio.Event()

    async def __call__(self, _scope, _receive, send) -> None:
        self.begins.set()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(50_000_000)})
        self.is_over.set()


@pytest.mark.parametrize("send_s", [0.1, 60])
async def test_who_does_not_read_the_answer_holds_neither_a_connection_nor_the_end(send_s, monkeypatch):
    monkeypatch.setattr(admin_http, "_SEND_S", send_s)
    answer, stop = Large(), trio.Event()
    app = Starlette(routes=[Route("/", answer)])
    sock = socket.create_server(("127.0.0.1", 0))
    stream = await trio.open_tcp_stream(*sock.getsockname())
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(admin_http.serve_admin, sock, app, stop.wait)
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await answer.begins.wait()
            if send_s < 1:
                await answer.is_over.wait()
            stop.set()
    await stream.aclose()


@pytest.mark.parametrize("tls", [False, True])
async def test_one_connection_too_many_ends_the_oldest(tls, tmp_path, monkeypatch):
    monkeypatch.setattr(admin_http, "_MOST_CONNECTIONS", 2)
    async with opened(tmp_path, [TOKEN], tls=tls) as door:
        silent = [await trio.open_tcp_stream("127.0.0.1", door.port) for _ in range(2)]
        assert (await door.ask("/healthz"))[0] == 200
        with trio.fail_after(4):  # sooner than without a request, or without a handshake
            assert await silent[0].receive_some() == b""
        for one in silent:
            await trio.aclose_forcefully(one)
        assert (await door.ask("/healthz"))[0] == 200
