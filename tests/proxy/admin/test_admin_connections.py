"""Connections of the admin port leave nothing behind, whatever a stranger sends."""

import gc
import socket

import pytest
import trio
from hypercorn.protocol import ProtocolWrapper
from starlette.applications import Starlette

from proxy.admin.access import Access
from proxy.admin.admin_http import serve_admin
from proxy.config.schema import Admin
from proxy.metrics.registry import Metrics
from tests.proxy.fakes.certificates import LOCAL, Authority


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
